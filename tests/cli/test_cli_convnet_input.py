"""Wrong input about convolutional networks ends with exit code 2, and names key, given and expected value."""

from __future__ import annotations

import pytest

from dlrmsim.cli import main

WRONG = {
    "workload.strategy=horovod": ("workload.strategy", "'horovod'", "horovod_nccl"),
    "workload.strategy=grpc_ps,workload.servers=9": ("workload.servers", "given 9", "at most 8"),
    "workload.model=dlrm_default": ("workload.model", "dlrm_default", "one of alexnet"),
    "workload.fusion_bytes=0 B": ("workload.fusion_bytes", "'0 B'", "from 1 B"),
    "workload.servers=2": ("workload.servers", "given 2", "starts with grpc_ps"),
}


PARTITIONED = "workload.strategy=hypar_mpi"
WRONG_PARTITIONS = {
    "workload.partitions=3": ("workload.partitions", "8 ranks", "given 3", "a divisor of 8", "did you mean '2'"),
    "nodes=256 workload.partitions=256": ("workload.partitions", "more partitions than layers", "given 256"),
    "workload.micro_batches=5 workload.partitions=4": ("workload.micro_batches", "64 images", "given 5", "'4'"),
    "workload.layers_per_partition=[100,25]": ("workload.layers_per_partition", "sum 125", "the sum 174"),
    "workload.layers_per_partition=[174] workload.partitions=2": (
        "workload.layers_per_partition",
        "1 numbers",
        "2 numb",
    ),
    "workload.schedule=gpip": ("workload.schedule", "'gpip'", "'gpipe'"),
    "workload.model=resnet1000_v2": ("workload.model", "9 n + 2", "resnet1001_v2"),
    "workload.image_size=4 workload.model=vgg16": ("workload.image_size", "given 4"),
    "cluster=frontera workload.strategy=horovod_nccl": ("workload.strategy", "needs GPUs", "hypar_mpi"),
    "cluster=zen5_2_cores": ("cluster", "no rate of convolutions", "CPUs with `rates`"),
    "workload.strategy=horovod_mpi workload.partitions=2": ("workload.partitions", "a key of hypar strategies"),
    "workload.partitions=2 workload.out_of_core=karma": (
        "workload.out_of_core",
        "strategy is hypar_mpi",
        "'karma'",
        "horovod_nccl",
    ),
    "workload.partitions=2 workload.weights=swap": ("workload.weights", "strategy is hypar_mpi", "given 'swap'"),
    "cluster=frontera workload.strategy=horovod_mpi workload.out_of_core=swap": (
        "workload.out_of_core",
        "frontera has none",
        "given 'swap'",
        "have GPUs",
    ),
}


@pytest.mark.parametrize("settings", WRONG)
def test_wrong_settings_are_refused_with_key_given_and_expected(settings: str, capsys) -> None:
    changes = [word for setting in settings.split(",") for word in ("--set", setting)]
    assert main(["run", "tf_resnet50", "--check", *changes]) == 2
    said = capsys.readouterr().err
    for word in WRONG[settings]:
        assert word in said, said


@pytest.mark.parametrize("settings", WRONG_PARTITIONS)
def test_wrong_partitions_are_refused_with_key_given_and_expected(settings: str, capsys) -> None:
    changes = [word for setting in (PARTITIONED, *settings.split()) for word in ("--set", setting)]
    assert main(["run", "tf_resnet50", "--check", *changes]) == 2
    said = capsys.readouterr().err
    for word in WRONG_PARTITIONS[settings]:
        assert word in said, said


@pytest.mark.parametrize(
    "job",
    [
        ["workload.model=resnet1001_v2", "workload.classes=10", "workload.images_per_rank=256", "nodes=1"],
        ["workload.images_per_rank=192", "nodes=4", "workload.out_of_core=none", "workload.weights=keep"],
    ],
)
def test_a_network_that_does_not_fit_names_partitions_and_blocks_with_which_it_does(job: list[str], capsys) -> None:
    """ResNet-1001 with 256 images needs 46 GB of a P100's 16; each of the printed settings makes a job that fits."""
    asked = [word for setting in job for word in ("--set", setting)]
    assert main(["run", "tf_resnet50", "--check", *asked]) == 3
    said = capsys.readouterr().err
    advice = [line for line in said.splitlines() if "would fit" in line]
    remedies = [line.partition(":")[2].partition(" (")[0].split() for line in advice]
    assert "workload.out_of_core=karma" in remedies[0]
    assert len(remedies) > 1
    for settings in remedies[1:]:
        assert any(setting.startswith("workload.partitions=") for setting in settings)
        assert main(["run", "tf_resnet50", "--check", *asked, *settings]) == 0
    in_blocks = [setting.replace("=karma", "=checkpoint") for setting in remedies[0]]  # as karma, without its search
    assert main(["run", "tf_resnet50", "--check", *asked, *in_blocks]) == 0


def test_a_cut_network_gets_more_micro_batches_before_more_ranks(capsys) -> None:
    """The same ranks and partitions hold the images where 1F1B has fewer of them in flight."""
    job = [PARTITIONED, "nodes=2", "workload.partitions=2", "workload.images_per_rank=256", "workload.micro_batches=1"]
    asked = [word for setting in job for word in ("--set", setting)]
    assert main(["run", "tf_resnet50", "--check", *asked]) == 3
    (advice,) = [line for line in capsys.readouterr().err.splitlines() if "would fit" in line and "=1f1b" in line]
    assert "workload.partitions=2 " in advice
    assert advice.count("workload.micro_batches=") == 1

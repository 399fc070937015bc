"""Calibration of GPUs: constants are found again, and all of it but CUDA runs on the CPUs of this machine."""

from __future__ import annotations

import gzip
import json

import pytest

from dlrmsim.cli import main
from dlrmsim.hosts.gpus import (
    COLLECTIVE_BYTES,
    CPU_LIMITS,
    LARGEST,
    LIMITS,
    calibrate_gpus,
    cluster_of_device,
    drawn_jobs,
    refit_gpus,
)
from hardware_specs.loader import load_cluster
from inputs.errors import InputError
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from tests.trainer_jobs import SLEEPING
from validation.fits.framework_fit import Configuration
from validation.fits.kernel_fit import TimedKernel, predicted_s
from validation.gpu.calibration import CONSTANTS, KIND_OF
from validation.gpu.record import GpuJob, GpuRecord
from validation.host.prediction import predict
from validation.host.timed_kernels import KernelRow
from validation.suites.collectives import MeasuredCollective, Predictor
from workloads.graph.framework import load_framework

MADE = {
    "stream_fraction": 0.7, "kernel_floor_s": 2e-6, "gemm_fraction": 0.6, "gemm_balanced_tile": 90.0,
    "gemm_memory_fraction": 0.5, "gemm_start_s": 4e-6, "embedding_fraction": 0.6,
}  # fmt: skip
"""What a GPU that is none reaches."""
TRAINER = {"operator_s": 6e-6, "elementwise_factor": 1.5, "embedding_factor": 2.0, "iteration_s": 3e-4}
"""What a trainer that is none does around kernels."""


def made_cluster():
    """An H100 that reaches `MADE`."""
    cluster = load_cluster("dgx_h100")
    rates = {
        name: value.model_copy(update={"value": MADE.get(name, value.value)})
        for name, value in cluster.node.gpu.achieved
    }
    gpu = cluster.node.gpu.model_copy(update={"achieved": cluster.node.gpu.achieved.model_copy(update=rates)})
    return cluster.model_copy(update={"node": cluster.node.model_copy(update={"gpu": gpu})})


def made_rows(cluster):
    """Kernels as the trainer's would be timed, with the model's own times."""
    cases = pytest.importorskip("trainer.bench.cases").cases
    rows = [
        {"kind": case.kind, **case.sizes, "evicted_bytes": 0, "threads": 1, "ranks": 1, "times_s": [1.0]}
        for case in cases(3, 12, LARGEST)
        if case.kind in KIND_OF
    ]
    kernels = [TimedKernel(row["kind"], KernelRow.of(row).operator, 1.0) for row in rows]
    seconds = predicted_s(cluster.node.gpu, kernels).tolist()
    return [{**row, "times_s": [time_s]} for row, time_s in zip(rows, seconds, strict=True)]


def made_collectives(cluster):
    """NCCL's between GPUs of a node, with the model's own times."""
    measured = [
        MeasuredCollective(op, 1, ranks, float(size), 1.0, "trainer")
        for op in ("all_reduce", "all_to_all", "all_gather", "reduce_scatter")
        for ranks in (2, 4, 8)
        for size in COLLECTIVE_BYTES[::2]
    ]
    seconds = Predictor(cluster).seconds(measured).tolist()
    return [
        {"kind": of.op, "ranks": of.ranks_per_node, "bytes": of.bytes, "times_s": [time_s]}
        for of, time_s in zip(measured, seconds, strict=True)
    ]


def made_jobs(cluster, root, seed, count):
    """Jobs with the iterations that they would have."""
    jobs = drawn_jobs(1, seed, count, load_cluster("dgx_h100"), root, LIMITS)
    scenarios = [{**job.to_dict(), "cluster": None} for job in jobs.values()]
    made = [Configuration(GpuJob(scenario, 1.0).on(cluster), (1.0,)).iteration_s(TRAINER) for scenario in scenarios]
    return [GpuJob(scenario, seconds) for scenario, seconds in zip(scenarios, made, strict=True)]


@pytest.mark.slow
def test_what_a_gpu_and_a_trainer_take_is_found_again_and_tells_other_jobs(tmp_path):
    cluster = made_cluster()
    record = GpuRecord(
        "NVIDIA H100 80GB HBM3", load_cluster("dgx_h100"), "made up", made_rows(cluster),
        made_jobs(cluster, tmp_path / "fitted", 1, 6),
    )  # fmt: skip
    spec = refit_gpus(record, tmp_path / "here.yaml", Silent())
    again = load_cluster(tmp_path / "here.yaml").node.gpu.achieved
    for name, value in MADE.items():
        assert getattr(again, name).value == pytest.approx(value, rel=0.05), name
    assert set(spec.fit.errors_pct) == set(KIND_OF)
    profile = load_framework(spec.framework)
    assert profile.name == "here_trainer"
    for name in CONSTANTS:
        assert getattr(profile, name).value == pytest.approx(TRAINER[name], rel=0.2), name
    for job in made_jobs(cluster, tmp_path / "others", 2, 2):
        file = tmp_path / "job.json"
        parts = {"cluster": str(spec.file), "workload": {**job.scenario["workload"], "framework": str(spec.framework)}}
        file.write_text(json.dumps({**job.scenario, **parts}), encoding="utf-8")
        assert predict(load_scenario(file)).iteration_s == pytest.approx(job.iteration_s, rel=0.03)


def test_collectives_of_several_gpus_are_fitted(tmp_path):
    cluster = load_cluster("dgx_h100")
    rows = made_collectives(cluster)
    record = GpuRecord("NVIDIA H100 80GB HBM3", cluster, "made up", [*made_rows(made_cluster()), *rows], ())
    spec = refit_gpus(record, tmp_path / "here.yaml", Silent())
    assert spec.fit.has_collectives
    assert spec.framework is None, "no job tells of the trainer"
    again = load_cluster(tmp_path / "here.yaml")
    told = [MeasuredCollective(row["kind"], 1, row["ranks"], row["bytes"], row["times_s"][0]) for row in rows]
    assert Predictor(again).seconds(told) == pytest.approx([row.time_s for row in told], rel=0.05)
    assert again.fitted.near_fraction["ring"].source == "made up"


def test_a_record_is_read_as_it_was_written(tmp_path):
    row = {"kind": "stream", "read_bytes": 8.0, "write_bytes": 8.0, "evicted_bytes": 0, "threads": 1, "ranks": 1}
    row |= {"times_s": [0.5]}
    jobs = [GpuJob({"name": "job", "world_size": 1}, 0.25)]
    record = GpuRecord("a GPU", load_cluster("dgx_h100"), "a test", [row], jobs)
    file = tmp_path / "here.record.json.gz"
    file.write_bytes(record.packed())
    assert GpuRecord.read(file) == record
    other = json.loads(gzip.decompress(record.packed())) | {"schema": "gpus 0"}
    file.write_bytes(gzip.compress(json.dumps(other).encode()))
    with pytest.raises(InputError, match="another format"):
        GpuRecord.read(file)


@pytest.mark.parametrize(
    "content", [b"", b"no gzip", gzip.compress(b"[]", mtime=0), gzip.compress(b'{"schema": 3}', mtime=0)]
)
def test_what_is_no_record_of_gpus_is_none(tmp_path, content):
    file = tmp_path / "here.record.json.gz"
    file.write_bytes(content)
    assert GpuRecord.read(file) is None


@pytest.mark.slow
def test_all_but_cuda_runs_here(tmp_path, capsys, monkeypatch):
    """On a CPU in place of the GPU: what it says of an H100 is wrong, but it is a cluster and a profile that run."""
    pytest.importorskip("torch")
    for name, value in SLEEPING.items():
        monkeypatch.setenv(name, value)
    spec = calibrate_gpus(tmp_path / "here.yaml", "dgx_h100", minutes=0.03, device="cpu")
    assert {"gemm", "batched", "stream", "lookup"} <= set(spec.fit.errors_pct)
    assert not spec.fit.has_collectives
    assert spec.framework is not None
    record = str(tmp_path / "here.record.json.gz")
    assert main(["calibrate", "host", "--record", record, "--out", str(tmp_path / "again.yaml")]) == 0
    told = capsys.readouterr().out
    assert "none was timed, there is one GPU" in told
    assert "use it as workload.framework" in told
    again, here = ((tmp_path / f"{name}.yaml").read_text(encoding="utf-8") for name in ("again", "here"))
    assert again.replace("again", "here") == here
    jobs = drawn_jobs(1, 5, 1, load_cluster("dgx_h100"), tmp_path / "jobs", CPU_LIMITS)
    file = next(iter(jobs)) / "job.json"
    settings = [f"cluster={spec.file}", f"workload.framework={spec.framework}"]
    assert predict(load_scenario(file, settings)).iteration_s > 0.0


@pytest.mark.parametrize(
    ("device", "gpu"),
    [
        ("NVIDIA H100 80GB HBM3", "h100_sxm5_80"),
        ("NVIDIA H200", "h200_sxm5_141"),
        ("Tesla V100-SXM2-16GB", "v100_sxm2_16"),
        ("NVIDIA GeForce RTX 3080", "rtx_3080_10"),
    ],
)
def test_a_cluster_with_the_gpu_is_found_by_what_the_driver_says(device, gpu):
    assert cluster_of_device(device).node.gpu.name == gpu


@pytest.mark.parametrize(
    "device", ["NVIDIA GeForce RTX 4090", "NVIDIA H100 NVL", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA A100 20GB"]
)
def test_a_gpu_that_nothing_is_known_of_is_asked_for(device):
    with pytest.raises(InputError, match="--cluster: is needed: its name does not identify the GPU"):
        cluster_of_device(device)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device", "cuda"], "not enough GPUs"),
        (["--device", "cpu", "--cluster", "dgx_h100"], "--cluster: is for GPUs alone"),
        (["--record", "zen5_2_cores", "--device", "cpu"], "--device: nothing is measured with --record"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path, capsys, monkeypatch, arguments, message):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    out = tmp_path / "no.yaml"
    assert main(["calibrate", "host", *arguments, "--out", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []

"""The trainer in real processes: any number of ranks trains alike, like plain PyTorch, and resumes to the bit."""

import gzip
import itertools
import json
import math
import os
import random
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from inputs.errors import InputError, RankFailedError  # noqa: E402
from tests.trainer_jobs import TABLES, losses, scenario, whole_tables, write  # noqa: E402 - needs torch
from trainer import loop  # noqa: E402
from trainer.bench.series import SCENARIO, started_series  # noqa: E402
from trainer.checkpoint import state_of  # noqa: E402
from trainer.job import read_job  # noqa: E402
from trainer.model import RankModel  # noqa: E402
from trainer.optimizers import LEARNING_RATE  # noqa: E402
from trainer.process import launch  # noqa: E402
from trainer.process.pin import shares, usable_cores  # noqa: E402
from trainer.process.runs import Run, parse  # noqa: E402
from trainer.synthetic import Synthetic  # noqa: E402

CPU = torch.device("cpu")
RUN = Run(Path())


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory):
    return losses(tmp_path_factory.mktemp("one"), scenario(1), RUN)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "workload"),
    [(2, {"pipeline": "sparse_dist", "framework": "neo"}), (4, {"pipeline": "none"})],
    ids=["2 ranks, pipelined, own process group", "4 ranks"],
)
def test_ranks_have_the_loss_curve_of_one(one_rank, tmp_path, ranks, workload):
    """50 iterations of fp32 within 1e-4; tables are sharded in all four ways."""
    assert losses(tmp_path, scenario(ranks, **workload), RUN) == pytest.approx(one_rank, rel=1e-4)


def test_the_loss_falls(one_rank):
    """Below the first ones, and below ln 2, the loss of one that knows nothing."""
    assert len(one_rank) == 50
    assert one_rank[-10:].mean() < 0.9 * one_rank[:5].mean()
    assert one_rank[-10:].mean() < 0.95 * math.log(2)


def test_16_bit_tables_and_wires_train_nearly_alike(one_rank, tmp_path):
    """Within a few roundings of bf16 (2^-8) per value; not equal, or the precision would not be taken."""
    content = scenario(2)
    content["precision"] = {
        "dense": "bf16", "tables": "fp16", "forward_all_to_all": "fp16", "backward_all_to_all": "bf16",
        "all_reduce": "bf16",
    }  # fmt: skip
    found = losses(tmp_path, content, replace(RUN, iterations=20))
    assert found == pytest.approx(one_rank[:20], rel=0.03)
    assert found != pytest.approx(one_rank[:20], rel=1e-5)


def restored(content, folder, file):
    """What each rank holds in the newest checkpoint."""
    newest = max(folder.iterdir())
    models = []
    for rank in range(content["world_size"]):
        model = RankModel(read_job(file), rank, CPU)
        saved = torch.load(newest / f"rank{rank}.pt", weights_only=True)
        for tensor, value in zip(state_of(model), saved["state"], strict=True):
            tensor.copy_(value)
        models.append(model)
    return models


class Reference(torch.nn.Module):
    """The tiny model in plain PyTorch: dense tables, autograd, torch.optim, the whole batch in one process."""

    def __init__(self, start):
        super().__init__()
        self.tables = torch.nn.ParameterList(table.clone() for _, table in sorted(whole_tables([start]).items()))
        layers = {layer.layer.name: layer for layer in start.dense.layers}
        self.layers = torch.nn.ModuleDict()
        for name, layer in layers.items():
            self.layers[name] = torch.nn.Linear(layer.layer.inputs, layer.layer.outputs)
            self.layers[name].weight.data.copy_(layer.weight)
            self.layers[name].bias.data.copy_(layer.bias)

    def forward(self, batch):
        bag = torch.nn.functional.embedding_bag
        pooled = [
            bag(batch.of_feature(i), self.tables[table], batch.lengths[i].cumsum(0) - batch.lengths[i], mode="sum")
            for i, table in enumerate(t for t, (_, _, features) in enumerate(TABLES) for _ in range(features))
        ]
        bottom = self.layers["bottom_1"](self.layers["bottom_0"](batch.dense).relu()).relu()
        vectors = torch.stack([bottom, *pooled], 1)
        products = vectors @ vectors.transpose(1, 2)
        i, j = torch.tril_indices(len(pooled) + 1, len(pooled) + 1, -1)
        top = self.layers["top_0"](torch.cat([bottom, products[:, i, j]], 1)).relu()
        return self.layers["top_1"](top)[:, 0]


@pytest.mark.slow
def test_two_ranks_train_as_plain_pytorch_does(tmp_path):
    """Every weight after 5 iterations of SGD: so every gradient, exchange and update is right."""
    content = scenario(2, optimizer={"dense": "sgd", "tables": "sgd"})
    checkpoints = tmp_path / "checkpoints"
    losses(tmp_path, content, replace(RUN, iterations=5, checkpoints=checkpoints, checkpoint_every=5))
    job = read_job(write(tmp_path / "alone", scenario(1)))
    reference, data = Reference(RankModel(job, 0, CPU)), Synthetic(job, 0)
    before = [parameter.detach().clone() for parameter in reference.parameters()]
    optimizer = torch.optim.SGD(reference.parameters(), lr=LEARNING_RATE["sgd"])
    for iteration in range(5):
        batch = data.batch(iteration)
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(reference(batch), batch.labels).backward()
        optimizer.step()
    found = restored(content, checkpoints, tmp_path / "scenario.yaml")
    for table, expected in enumerate(reference.tables):
        torch.testing.assert_close(whole_tables(found)[table], expected.detach(), rtol=1e-5, atol=1e-6)
    for layer in found[1].dense.layers:
        expected = reference.layers[layer.layer.name]
        torch.testing.assert_close(layer.weight, expected.weight, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(layer.bias, expected.bias, rtol=1e-5, atol=1e-6)
    moved = [not torch.equal(a, b) for a, b in zip(before, reference.parameters(), strict=True)]
    assert all(moved), "all parameters were trained"


def killed(run, folder, moment, draw):
    """Start two ranks and kill one, or both, a random time after the checkpoint of iteration ``moment``."""
    folder.mkdir()
    cores = usable_cores()
    processes = [
        launch._start(replace(run, cores=share), rank, 2, folder) for rank, share in enumerate(shares(cores, 2))
    ]
    try:
        while not any(path.name >= f"iteration-{moment:09d}" for path in run.checkpoints.glob("iteration-*")):
            assert all(process.poll() is None for process in processes), (folder / "rank0.log").read_text()
            time.sleep(0.003)
        time.sleep(draw.uniform(0, 0.03))
        for process in processes[draw.randrange(2) :]:
            os.kill(process.pid, signal.SIGKILL)
    finally:
        launch._end(processes)


@pytest.mark.slow
def test_training_killed_at_any_moment_resumes_to_the_bit(tmp_path):
    """A checkpoint after every iteration, so that many kills hit one being written; batches are in flight, too."""
    content = scenario(2, pipeline="sparse_dist", optimizer={"dense": "adagrad", "tables": "adagrad"})
    file = write(tmp_path, content)
    whole = Run(file, iterations=25, checkpoints=tmp_path / "whole", checkpoint_every=25)
    launch.run_ranks(whole, 2)
    broken = replace(whole, checkpoints=tmp_path / "broken", checkpoint_every=1)
    draw = random.Random(5)
    for number, moment in enumerate((3, 13)):
        killed(broken, tmp_path / f"attempt{number}", moment, draw)
        for checkpoint in broken.checkpoints.glob("iteration-*"):
            parts = [torch.load(checkpoint / f"rank{rank}.pt", weights_only=True) for rank in range(2)]
            assert {part["iterations"] for part in parts} == {int(checkpoint.name.split("-")[1])}
    launch.run_ranks(broken, 2)
    assert sorted(path.name for path in broken.checkpoints.iterdir()) == ["iteration-000000024", "iteration-000000025"]
    for one, other in zip(
        restored(content, whole.checkpoints, file), restored(content, broken.checkpoints, file), strict=True
    ):
        for expected, found in zip(state_of(one), state_of(other), strict=True):
            assert torch.equal(found, expected)


@pytest.mark.slow
def test_a_checkpoint_of_another_scenario_is_refused(tmp_path):
    folder = tmp_path / "checkpoints"
    run = replace(RUN, iterations=1, checkpoints=folder, checkpoint_every=1)
    losses(tmp_path / "a", scenario(1), run)
    with pytest.raises(InputError, match=r"rank 0: .*is a checkpoint of another scenario"):
        losses(tmp_path / "b", scenario(1, pipeline="sparse_dist"), run)


def test_a_checkpoint_of_other_data_is_refused(tmp_path):
    """Synthetic clicks first; then a file of clicks, with the same scenario."""
    job = read_job(write(tmp_path, scenario(1)))
    clicks = tmp_path / "clicks.tsv"
    clicks.write_text("made up", encoding="utf-8")
    folder = replace(RUN, checkpoints=tmp_path / "checkpoints")
    digests = {loop._checkpoints(job, replace(folder, data=data), 0).digest for data in (None, clicks)}
    assert len(digests) == 2
    assert loop._checkpoints(job, RUN, 0) is None


def test_an_error_of_a_rank_ends_all_and_is_told_with_its_rank_and_traceback(tmp_path):
    """Rank 0 cannot make the folder of checkpoints; rank 1 waits for it in a barrier and would wait for minutes."""
    (tmp_path / "occupied").write_text("a file")
    file = write(tmp_path, scenario(2))
    run = Run(file, iterations=1, checkpoints=tmp_path / "occupied" / "checkpoints", checkpoint_every=1)
    told = r"rank 0 of 2 failed: NotADirectoryError(?s:.*)all ranks were ended"
    with pytest.raises(RankFailedError, match=told) as caught:
        launch.run_ranks(run, 2)
    assert "checkpoint.py" in str(caught.value), "its traceback"


def test_a_run_reads_its_own_command_line():
    data, checkpoints, rendezvous = Path("x.tsv"), Path("c"), Path("r")
    run = Run(
        Path("a b.yaml"), Path("out"), 7, 3, 4, 2, True, 8, data, checkpoints, 5, 6, "cuda", rendezvous, True, (0, 3),
    )  # fmt: skip
    assert parse(run.arguments()) == run
    assert parse(["s.yaml"]) == Run(Path("s.yaml"))
    assert run.total == 3 + 7 + 2 + 2 * (1 + 2) + (2 + 1), "two sessions of two, after a start"
    assert replace(run, timed=3).total == run.total, "a session is not cut short"


def test_ranks_look_at_the_yardstick_between_measured_iterations_alone():
    """Seven in blocks of three: looks are before each block, and the loop looks once more after the last."""
    run = Run(Path("s.yaml"), iterations=7, warm_up=2, timed=2, profiled=1, yardstick_every=3)
    stages = [run.stage(number)[0] for number in range(run.total)]
    assert "".join(stages) == "ww" + "m" * 7 + "t" * 5 + "p" * 2
    assert [number for number in range(run.total) if run.looks_before(number)] == [2, 5, 8]
    assert run.counted == [2, 3, 4, 5, 6, 7, 8]
    without = replace(run, yardstick_every=0)
    assert (without.counted, without.total) == (run.counted, run.total)
    assert not any(without.looks_before(number) for number in range(without.total))


@pytest.mark.parametrize(
    ("cores", "ranks", "expected"),
    [
        ((0, 1, 2, 3), 2, [(0, 1), (2, 3)]),
        ((1, 4, 9), 2, [(1,), (4,)]),
        ((5, 6), 3, [(5,), (6,), (5,)]),
        ((7,), 1, [(7,)]),
    ],
)
def test_ranks_share_cores_evenly(cores, ranks, expected):
    assert shares(cores, ranks) == expected
    if ranks <= len(cores):
        assert all(not set(a) & set(b) for a, b in itertools.combinations(expected, 2))


def two_folders(root):
    """Each with a scenario for two ranks."""
    folders = [root / "a", root / "b"]
    for folder in folders:
        write(folder, scenario(2)).rename(folder / SCENARIO)
    return folders


def test_ranks_of_a_series_train_when_it_is_their_turn_and_not_before(tmp_path):
    folders = two_folders(tmp_path)
    with started_series(replace(RUN, iterations=2), 2, folders, tmp_path) as series:
        series.turn()
        records = [folder / f"rank{rank}.json" for folder in folders for rank in range(2)]
        assert [record.is_file() for record in records] == [True, True, False, False]
        assert series.left
        time.sleep(0.5)
        assert not records[2].exists(), "the second scenario waits"
        series.turn()
        assert all(record.is_file() for record in records)
        assert not series.left
    assert all(process.poll() is not None for process in series.ranks.processes)


def test_a_series_that_fails_tells_the_rank_and_its_error(tmp_path):
    """The folder has no scenario."""
    with (
        pytest.raises(InputError, match=r"rank \d: .*nothing.*no such file"),
        started_series(RUN, 2, [tmp_path / "nothing"], tmp_path) as series,
    ):
        series.turn()


def test_a_rank_killed_while_it_waits_for_its_turn_is_told(tmp_path):
    folders = two_folders(tmp_path)
    with started_series(replace(RUN, iterations=1), 2, folders, tmp_path) as series:
        series.turn()
        waiting = series.ranks.processes[0]
        waiting.kill()
        waiting.wait()
        with pytest.raises(RankFailedError, match=r"rank 0 of 2 was ended by SIGKILL"):
            series.turn()
    assert all(process.poll() is not None for process in series.ranks.processes)


def test_a_rank_that_is_alone_on_cpus_needs_no_thread_of_gloo(tmp_path):
    """Its copies are its own: with gloo's there would be more threads of OpenMP than cores, and none of them spins."""
    run = replace(RUN, iterations=3, timed=2)
    losses(tmp_path, scenario(1), run)
    with gzip.open(tmp_path / "out" / "timed" / "rank0.json.gz", "rt") as stream:
        events = [event for event in json.load(stream)["traceEvents"] if event.get("ph") == "X"]
    names = {event["name"] for event in events}
    assert "column_lookup" in names
    assert not {name for name in names if name.startswith(("gloo:", "c10d::"))}

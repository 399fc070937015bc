"""Bytes of exchanges of sequences, counted a sample and a table at a time, against those of every kind of sharding."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from math import exp, lgamma, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inputs.yaml_lines import Document
from simulator.collective_calls import CollectiveCall
from simulator.precisions import WIRE_BYTES
from tests.sequence_jobs import graded, model_data, placed, works
from workloads.dlrm.iteration.generate import generate
from workloads.dlrm.iteration.volumes import volumes
from workloads.dlrm.model.choices import PrecisionChoice
from workloads.dlrm.model.model import DlrmModel, read_model
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.tables import Tables, expand_tables
from workloads.dlrm.sharding import plan_from_dict
from workloads.dlrm.sharding.plan import Plan
from workloads.graph.framework import load_framework

INDEX_BYTES, LENGTH_BYTES = 8, 4
"""Sizes of the framework profile generative_recommenders."""
MAX_LENGTH = 12

LAWS = st.one_of(
    st.just({"distribution": "fixed"}),
    st.just({"distribution": "fixed", "mean": 5}),
    st.tuples(st.integers(0, 4), st.integers(5, 12)).map(
        lambda ends: {"distribution": "uniform", "low": ends[0], "high": ends[1]}
    ),
    st.sampled_from([0.3, 2.0, 9.0]).map(lambda mean: {"distribution": "geometric", "mean": mean}),
    st.just({"distribution": "poisson", "mean": 4.0}),
    st.just({"distribution": "histogram", "lengths": [0, 7], "weights": [3, 1]}),
)
KERNELS = ("lookup", "update")
KINDS = ("table_wise", "column_wise", "row_wise", "data_parallel")


@dataclass(frozen=True)
class Drawn:
    """A job of sequences under an explicit plan."""

    model: DlrmModel
    tables: Tables
    plan: Plan
    settings: DlrmSettings
    laws: dict[str, Any]
    targets: int

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """A short form for hypothesis to print."""
        kinds, job = dict(zip(self.tables.names, self.plan.sharding_types, strict=True)), self.settings
        printer.text(
            f"{self.laws}, {self.targets=}, {kinds}, {job.world_size=}, {job.global_batch_size=}, {job.batching=}"
        )

    def calls(self) -> dict[str, list[CollectiveCall]]:
        """Calls of the exchanges by part of their names: lengths, values, forward, backward."""
        found = defaultdict(list)
        program = generate(self.model, self.plan, self.settings).programs[0]
        for name, work in works(program).items():
            if isinstance(work, CollectiveCall) and work.op == "all_to_all" and "_dist_" in name:
                found[name.rpartition("_")[2]].append(work)
        return found


@st.composite
def jobs(draw: st.DrawFn, **changes: Any) -> Drawn:
    ranks = draw(st.integers(1, 8))
    sizes = st.tuples(st.integers(1, 300), st.sampled_from([4, 8, 16, 28]), st.integers(1, 2))
    drawn = draw(st.lists(sizes, min_size=1, max_size=4))
    laws, targets = {"history": draw(LAWS), "beside": {"distribution": "fixed", "mean": 1}}, draw(st.integers(0, 2))
    tables = [
        {"name": f"t{n}", "rows": rows, "dim": dim, "features": features, "sequence": "history"}
        for n, (rows, dim, features) in enumerate(drawn)
    ]
    if len(tables) > 1 and draw(st.booleans()):
        tables[-1]["sequence"] = "beside"
    data = model_data(laws["history"], max_length=MAX_LENGTH, targets=targets, context=False, tables=tables)
    if tables[-1]["sequence"] == "beside":
        data["sequences"]["beside"] = graded(max_length=1, lengths=laws["beside"])
        data["hstu"]["context"] = "beside"
    model = read_model(Document(data, {}, Path("test.yaml")))
    entries = {}
    for table in tables:
        kind = draw(st.sampled_from(KINDS))
        pieces = draw(st.integers(1, ranks)) if kind == "column_wise" else 1
        pieces = max(n for n in range(1, pieces + 1) if table["dim"] % n == 0 and table["dim"] // n % 4 == 0)
        entries[table["name"]] = {"sharding_type": kind}
        if kind in ("table_wise", "column_wise"):
            some = draw(st.permutations(range(ranks)))[:pieces]
            entries[table["name"]] = {"sharding_type": "column_wise" if pieces > 1 else "table_wise", "ranks": some}
    expanded = expand_tables(model)
    job = DlrmSettings(
        world_size=ranks,
        local_world_size=ranks,
        global_batch_size=draw(st.integers(ranks, 40)),
        framework=load_framework("generative_recommenders"),
        precision=PrecisionChoice(
            dense="bf16", tables="fp32", forward_all_to_all="fp32", backward_all_to_all="fp16", all_reduce="fp32"
        ),
        pipeline="sparse_dist",
        seed=draw(st.integers(0, 5)),
        batching=draw(st.sampled_from(["random", "sorted", "balanced"])),
        **changes,
    )
    plan = plan_from_dict({"world_size": ranks, "plan": {"tables": entries}}, expanded, ranks, ranks)
    return Drawn(model, expanded, plan, job, laws, targets)


def chances(law: dict[str, Any]) -> list[float]:
    """Chance of each length from 0 on, longer ones cut to the maximum, from the definitions of the distributions."""
    kind, mean = law["distribution"], law.get("mean")
    if kind == "fixed":
        weights = {int(mean or MAX_LENGTH): 1.0}
    elif kind == "uniform":
        weights = dict.fromkeys(range(law["low"], law["high"] + 1), 1.0)
    elif kind == "histogram":
        weights = dict(zip(law["lengths"], law["weights"], strict=True))
    elif kind == "geometric":
        weights = {n: (mean / (1 + mean)) ** n / (1 + mean) for n in range(1000)}
    else:
        weights = {n: exp(n * log(mean) - mean - lgamma(n + 1)) for n in range(200)}
    found = [0.0] * (MAX_LENGTH + 1)
    for length, weight in weights.items():
        found[min(length, MAX_LENGTH)] += weight / sum(weights.values())
    return found


def lengths(job: Drawn, sequence: str) -> list[int]:
    """Positions of every sample as drawn: Philox keyed by seed and name, inverted."""
    key = hashlib.blake2b(f"{job.settings.seed}/sequence/{sequence}".encode(), digest_size=16).digest()
    uniform = np.random.Generator(np.random.Philox(key=int.from_bytes(key, "little")))
    ends = list(accumulate(chances(job.laws[sequence])))
    samples = uniform.random(job.settings.global_batch_size).tolist()
    beside = job.targets if sequence == "history" else 0
    return [min(bisect_right(ends, u * ends[-1]), MAX_LENGTH) + beside for u in samples]


def positions(job: Drawn, table: int) -> int:
    """Lookups of a table in a batch."""
    name = job.tables.sequence_names[table]
    return int(job.tables.features[table]) * sum(lengths(job, name))


def total(calls: list[CollectiveCall], ranks: int) -> float:
    """Bytes that all ranks send."""
    return sum(float(np.broadcast_to(call.bytes, ranks).sum()) for call in calls)


def received(calls: list[CollectiveCall], ranks: int) -> np.ndarray:
    """Bytes that each rank receives."""
    found = np.zeros(ranks)
    for call in calls:
        weights = np.ones(ranks) if call.receive_weights is None else np.asarray(call.receive_weights)
        if weights.sum() > 0.0:
            found += float(np.broadcast_to(call.bytes, ranks).sum()) * weights / weights.sum()
    return found


def sent(calls: list[CollectiveCall], ranks: int) -> np.ndarray:
    return sum((np.broadcast_to(call.bytes, ranks) for call in calls), np.zeros(ranks))


FEW = settings(max_examples=80, deadline=None)


@FEW
@given(jobs())
def test_vectors_are_a_row_for_every_position_of_sharded_tables(job: Drawn) -> None:
    """Summed over ranks, forward in fp32 and backward in fp16: lookups x dim x size; ranks send what they receive."""
    ranks, calls = job.settings.world_size, job.calls()
    sharded = [n for n, kind in enumerate(job.plan.sharding_types) if kind != "data_parallel"]
    elements = sum(positions(job, table) * int(job.tables.dim[table]) for table in sharded)
    assert total(calls["forward"], ranks) == pytest.approx(4 * elements, rel=1e-9)
    assert total(calls["backward"], ranks) == pytest.approx(2 * elements, rel=1e-9)
    assert received(calls["forward"], ranks) / 4 == pytest.approx(sent(calls["backward"], ranks) / 2, rel=1e-9)
    assert sent(calls["forward"], ranks) / 4 == pytest.approx(received(calls["backward"], ranks) / 2, rel=1e-9)
    assert volumes(job.model, job.plan, job.settings).all_to_all_bytes == pytest.approx(4 * elements, rel=1e-9)


@FEW
@given(jobs())
def test_indices_go_to_every_holder_of_columns(job: Drawn) -> None:
    """A lookup's index for each range of columns, once for rows; and lengths of each feature to every holder."""
    ranks, calls = job.settings.world_size, job.calls()
    pieces = np.bincount(job.plan.columns.table, minlength=len(job.tables))
    expected = lengths_sent = 0.0
    for table, kind in enumerate(job.plan.sharding_types):
        if kind == "data_parallel":
            continue
        expected += positions(job, table) * (1 if kind == "row_wise" else pieces[table]) * INDEX_BYTES
        holders = ranks if kind == "row_wise" else pieces[table]
        lengths_sent += job.settings.local_batch_size * ranks * int(job.tables.features[table]) * holders * LENGTH_BYTES
    assert total(calls["values"], ranks) == pytest.approx(expected, rel=1e-9)
    assert total(calls["lengths"], ranks) == pytest.approx(lengths_sent, rel=1e-9)
    assert received(calls["values"], ranks).sum() == pytest.approx(expected, rel=1e-9)


@FEW
@given(jobs())
def test_each_rank_serves_the_lookups_of_its_shards(job: Drawn) -> None:
    """Rank by rank: all lookups of the columns that it holds, its part of the rows of uniform tables."""
    ranks = job.settings.world_size
    expected = np.zeros(ranks)
    for table, kind in enumerate(job.plan.sharding_types):
        lookups, rows, dim = positions(job, table), int(job.tables.rows[table]), int(job.tables.dim[table])
        if kind == "row_wise":
            block = -(-rows // ranks)
            held = [max(0, min(block, rows - block * rank)) for rank in range(ranks)]
            expected += lookups * dim * np.array(held) / rows
    for table, rank, dim in zip(job.plan.columns.table, job.plan.columns.rank, job.plan.columns.dim, strict=True):
        expected[rank] += positions(job, int(table)) * dim
    assert sent(job.calls()["forward"], ranks) / 4 == pytest.approx(expected, rel=1e-9)


@FEW
@given(jobs())
def test_copies_are_looked_up_as_often_as_the_batch_has_positions(job: Drawn) -> None:
    """Rank by rank, those of its own samples; an even batch or not."""
    ranks = job.settings.world_size
    graph = works(generate(job.model, job.plan, job.settings).programs[0])
    copied = [n for n, kind in enumerate(job.plan.sharding_types) if kind == "data_parallel"]
    found = [np.broadcast_to(graph[f"data_parallel_{part}"].lookups, ranks) for part in KERNELS if copied]
    assert all(float(each.sum()) == pytest.approx(sum(map(partial(positions, job), copied))) for each in found)
    sizes = [len(part) for part in np.array_split(np.arange(job.settings.global_batch_size), ranks)]
    if job.settings.batching == "random":
        ends = np.cumsum(sizes)
        own = np.zeros(ranks)
        for table in copied:
            drawn = np.array(lengths(job, job.tables.sequence_names[table]), dtype=float)
            own += int(job.tables.features[table]) * np.array([part.sum() for part in np.split(drawn, ends[:-1])])
        assert all(each == pytest.approx(own, rel=1e-12) for each in found)


@FEW
@given(jobs())
def test_asking_once_for_a_row_never_takes_more_bytes(job: Drawn) -> None:
    ranks, calls = job.settings.world_size, job.calls()
    once = replace(job, settings=replace(job.settings, index_dedup=True)).calls()
    assert set(once) == set(calls)
    for part in ("values", "forward", "backward"):
        assert total(once[part], ranks) <= total(calls[part], ranks) * (1 + 1e-9)
    assert total(once["lengths"], ranks) == total(calls["lengths"], ranks)


@pytest.mark.parametrize("kind", ["table_wise", "column_wise", "row_wise"])
def test_asking_once_takes_the_distinct_rows_of_a_uniform_law(kind: str) -> None:
    """Drawn 400 times: the mean number of distinct rows of a rank's lookups, within 1 %."""
    rows, ranks, batch, length = 700, 4, 64, 9
    tables = [{"name": "item", "rows": rows, "dim": 8, "sequence": "history"}]
    model = model_data({"distribution": "fixed"}, max_length=length, targets=0, context=False, tables=tables)
    where = {"ranks": [2]} if kind == "table_wise" else {"ranks": [1, 3]} if kind == "column_wise" else {}
    plan = {"world_size": ranks, "plan": {"tables": {"item": {"sharding_type": kind, **where}}}}
    sharding = {"plan": plan, "index_dedup": True}
    graph = placed(model, ranks, sharding=sharding, global_batch_size=batch)[1].graph()
    calls = [
        work
        for name, work in works(graph.programs[0]).items()
        if name.endswith("output_dist_forward") and isinstance(work, CollectiveCall)
    ]
    draw = np.random.Generator(np.random.PCG64(3))
    each = [len(np.unique(draw.integers(0, rows, batch // ranks * length))) for _ in range(400)]
    assert total(calls, ranks) == pytest.approx(ranks * float(np.mean(each)) * 8 * WIRE_BYTES["fp32"], rel=0.01)
    assert float(np.mean(each)) < 0.95 * batch / ranks * length

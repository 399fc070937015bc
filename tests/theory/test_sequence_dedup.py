"""Ranks that ask for each row once: rows of a lookup behind caches, copies and one rank included, and the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simulator.operators import Elementwise
from tests.sequence_jobs import BATCH, model_data, placed
from workloads.dlrm.family import DlrmWorkload
from workloads.dlrm.iteration.groups import EmbeddingGroup

ROWS, DIM, LENGTH = 300, 32, 64
LOOKUPS = BATCH * LENGTH
"""Lookups of a rank."""
SORTED = LOOKUPS * 2 * (8 + 4)
"""Bytes that a rank's sort reads: 9 bits of a row in digits of 8 are two passes over keys and places."""
SHARDINGS = [(4, "row_wise"), (4, "table_wise"), (4, "column_wise"), (4, "data_parallel"), (1, "row_wise")]
SHARDINGS += [(1, "table_wise"), (1, "data_parallel")]


def job_of(ranks: int, planner: str, *, dedup: bool, **keys: Any) -> DlrmWorkload:
    """A table of a history of fixed length, with few rows for its lookups."""
    tables = [{"name": "item", "rows": ROWS, "dim": DIM, "sequence": "history"}]
    model = model_data({"distribution": "fixed"}, max_length=LENGTH, targets=0, context=False, tables=tables)
    return placed(model, ranks, sharding={"planner": planner, "index_dedup": dedup}, **keys)[1]


def distinct() -> float:
    """Mean number of different rows among a rank's lookups, which are alike."""
    return ROWS * (1 - (1 - 1 / ROWS) ** LOOKUPS)


def sum_over_ranks(amount: object, ranks: int) -> float:
    return float(np.broadcast_to(np.asarray(amount), ranks).sum())


@pytest.mark.parametrize(("ranks", "planner"), SHARDINGS)
def test_a_lookup_reads_the_rows_that_are_asked_for(ranks: int, planner: str) -> None:
    """Each rank reads a row once, from memory whatever the size of the cache; columns add up."""
    workload = job_of(ranks, planner, dedup=True)
    (group,) = workload.job.groups
    row_bytes = sum_over_ranks(group.lookup.row_bytes, ranks)
    assert row_bytes == pytest.approx(ranks * distinct() * DIM * 4, rel=0.01)
    assert group.lookup.missed is not None
    for delivered in group.lookup.missed.bytes:
        assert sum_over_ranks(delivered, ranks) == pytest.approx(row_bytes, rel=1e-12)


@pytest.mark.parametrize(("ranks", "planner"), SHARDINGS)
def test_without_it_caches_serve_repeated_rows(ranks: int, planner: str) -> None:
    """All lookups without a cache, fewer bytes with one that holds all rows."""
    workload = job_of(ranks, planner, dedup=False)
    (group,) = workload.job.groups
    row_bytes = sum_over_ranks(group.lookup.row_bytes, ranks)
    assert row_bytes == ranks * LOOKUPS * DIM * 4
    assert group.lookup.missed is not None
    assert sum_over_ranks(group.lookup.missed.bytes[0], ranks) == row_bytes
    assert sum_over_ranks(group.lookup.missed.bytes[-1], ranks) < 0.8 * row_bytes


@pytest.mark.parametrize(("pipeline", "mode"), [("none", "train"), ("semi_sync", "train"), ("sparse_dist", "eval")])
@pytest.mark.parametrize(("ranks", "planner"), SHARDINGS)
def test_every_job_pays_for_the_kernel(ranks: int, planner: str, pipeline: str, mode: str) -> None:
    """It sorts the copied batch, and lookups, of copies too, come behind it; without the key there is none."""
    workload = job_of(ranks, planner, dedup=True, pipeline=pipeline, mode=mode)
    program = workload.graph().programs[0]
    dedup = program.names.index("input_dist_dedup")
    work = program.work[dedup]
    assert isinstance(work, Elementwise)
    assert sum_over_ranks(work.read_bytes, ranks) == sum_over_ranks(work.write_bytes, ranks) == ranks * SORTED
    assert program.names.index("input_copy") in before(program, dedup)
    (group,) = workload.job.groups
    assert dedup in before(program, program.names.index(f"{group.kind}_lookup"))
    without = job_of(ranks, planner, dedup=False, pipeline=pipeline, mode=mode).graph().programs[0]
    assert not [name for name in without.names if "dedup" in name]


def before(program: Any, task: int) -> set[int]:
    """Tasks of any iteration that a task waits for, by way of others or of the order on its stream."""
    found, left = set[int](), [task]
    while left:
        number = left.pop()
        same_stream = np.flatnonzero(program.stream_of[:number] == program.stream_of[number])[-1:].tolist()
        fresh = {*(of for of, _ in program.dependencies(number)), *same_stream} - found
        found |= fresh
        left += fresh
    return found


@pytest.mark.parametrize("lengths", [{"distribution": "geometric", "mean": 20.0}, {"distribution": "fixed"}])
@pytest.mark.parametrize("ranks", [1, 4])
def test_vectors_of_copies_are_read_once_for_each_row(ranks: int, lengths: dict[str, Any]) -> None:
    """The kernel that puts them into order reads as many vectors as the lookup gives, in fp32."""
    _, workload = placed(model_data(lengths), ranks, sharding={"planner": "data_parallel", "index_dedup": True})
    (group,) = workload.job.groups
    program = workload.graph().programs[0]
    permute = program.work[program.names.index("vectors_permute")]
    assert isinstance(permute, Elementwise)
    assert permute.read_bytes == pytest.approx(np.asarray(group.received) * 4.0)
    assert np.all(np.asarray(group.received) < np.asarray(group.unpooled))
    assert looked_up(group, ranks) == pytest.approx(sum_over_ranks(permute.read_bytes, ranks), rel=1e-9)


def looked_up(group: EmbeddingGroup, ranks: int) -> float:
    """Bytes of the vectors that a lookup writes on all ranks."""
    return sum_over_ranks(group.lookup.output_bytes, ranks)

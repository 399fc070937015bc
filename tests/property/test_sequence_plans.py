"""Plans for tables of sequences on small machines: the greedy one against tables that are all cut by rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenarios.dlrm.plans import PlanningJob
from tests.sequence_jobs import model_data, resolved_job

TABLES = st.lists(
    st.tuples(st.integers(1, 200_000), st.sampled_from([4, 16, 32, 128]), st.integers(1, 3)), min_size=1, max_size=5
)
LAWS = st.sampled_from(
    [
        {"distribution": "fixed"},
        {"distribution": "geometric", "mean": 20.0},
        {"distribution": "lognormal", "mean": 30.0, "deviation": 2.0},
    ]
)
REUSE = st.sampled_from(["uniform", {"distribution": "zipf", "exponent": 1.0}])


@given(TABLES, LAWS, REUSE, st.sampled_from([1, 2, 4, 8, 16]), st.booleans(), st.sampled_from(["train", "eval"]))
@settings(max_examples=25, deadline=None)
def test_greedy_is_never_slower_than_rows_everywhere(
    drawn: list[tuple[int, int, int]], lengths: dict[str, Any], reuse: object, ranks: int, dedup: bool, mode: str
) -> None:
    """By the estimate that planners compare with, and with fewer tables than ranks as with more."""
    tables = [
        {"name": f"t{number}", "rows": rows, "dim": dim, "features": features, "sequence": "history"}
        for number, (rows, dim, features) in enumerate(drawn)
    ]
    model = model_data(lengths, tables=tables)
    model["index_reuse"]["value"] = reuse
    job = PlanningJob.of(resolved_job(model, ranks, sharding={"index_dedup": dedup}, mode=mode))
    greedy, rows = (job.alone_s(job.make(planner)) for planner in ("greedy", "row_wise"))
    assert 0.0 < greedy <= rows


@pytest.mark.parametrize("ranks", [8, 16])
def test_greedy_is_never_slower_than_rows_everywhere_for_popular_rows(ranks: int) -> None:
    """Wide tables whose hottest rows draw most lookups to one block."""
    tables = [{"name": f"t{n}", "rows": 10_000, "dim": 512, "sequence": "history"} for n in range(3)]
    model = model_data({"distribution": "geometric", "mean": 400.0}, max_length=1000, tables=tables)
    model["index_reuse"]["value"] = {"distribution": "zipf", "exponent": 1.2}
    model["local_batch_size"]["value"] = 64
    job = PlanningJob.of(resolved_job(model, ranks))
    assert job.alone_s(job.make("greedy")) <= job.alone_s(job.make("row_wise"))

"""Costs that planners balance are the durations that the engine gives to the same kernels."""

from __future__ import annotations

import numpy as np
import pytest

from scenarios.dlrm.plans import PlanningJob
from scenarios.resolve import load_scenario
from simulator.collective_calls import CollectiveCall
from simulator.operators import FloatArray
from simulator.work import Work
from tests.planning_jobs import job
from workloads.dlrm.sharding import rank_loads_s, table_costs_s

KERNELS = ("lookup", "update")
BATCH = {"global_batch_size": 16 * 16_384}
"""A batch with which kernels last much longer than their starts."""


def durations_s(planned: PlanningJob, works: list[Work]) -> FloatArray:
    """Durations of kernels on each rank, added up ``[P]``."""
    total = np.zeros(planned.settings.world_size)
    for work in works:
        assert not isinstance(work, CollectiveCall)
        total = total + planned.machine.compute.duration_s(work)
    return total


def engine_s(planned: PlanningJob, planner: str) -> tuple[FloatArray, FloatArray]:
    """What the engine charges for lookups and updates, and what the planner balances, ``[2, P]`` each."""
    plan = planned.make(planner)
    program = planned.workload(plan).graph().programs[0]
    work = dict(zip(program.names, program.work, strict=True))
    charged = [
        durations_s(planned, [w for name, w in work.items() if name.endswith(f"_{kind}") and "launch" not in name])
        for kind in KERNELS
    ]
    return np.array(charged), rank_loads_s(plan, planned.context.costs)[:, :2].T


@pytest.mark.parametrize("planner", ["table_wise", "column_wise", "row_wise", "table_row_wise"])
@pytest.mark.parametrize("indices", ["uniform", {"distribution": "zipf", "exponent": 1.05}])
def test_costs_are_durations_of_tasks(planner: str, indices: object) -> None:
    """Of the slowest rank within 20 %: a kernel sorts by the rows of all its shards, a shard by a mean rank's."""
    charged, costs = engine_s(job(indices=indices, **BATCH), planner)
    assert costs.max(axis=1) == pytest.approx(charged.max(axis=1), rel=0.2)
    if planner == "table_wise":  # one table a rank: the same kernel
        assert costs[0] == pytest.approx(charged[0], rel=1e-9)


def test_costs_of_a_shipped_job_with_measured_popularity() -> None:
    """The sums over all ranks, of 1,000 tables on 128: the cached rows are not charged as if memory read them."""
    planned = PlanningJob.of(load_scenario("zionex_a_128"))
    charged, costs = engine_s(planned, "table_wise")
    assert costs.sum(axis=1) == pytest.approx(charged.sum(axis=1), rel=0.05)


def test_a_kernel_that_takes_longer_in_a_framework_costs_more() -> None:
    """The factor of a profile on embedding kernels is charged to shards, too."""
    plain = job(**BATCH).context.costs
    framework = plain.settings.framework  # type: ignore[attr-defined]
    assert framework.factor("embedding_factor") == 1.0
    slow = PlanningJob.of(load_scenario("synthetic_tiny"))
    factor = slow.settings.framework.factor("embedding_factor")
    charged, costs = engine_s(slow, "table_wise")
    assert factor != 1.0
    assert costs.sum(axis=1) == pytest.approx(charged.sum(axis=1), rel=0.15)


def test_costs_of_tables_add_up_to_those_of_ranks() -> None:
    planned = job()
    for planner in ("greedy", "table_wise", "row_wise", "table_row_wise", "data_parallel"):
        plan, costs = planned.make(planner), planned.context.costs
        by_rank, by_table = rank_loads_s(plan, costs), table_costs_s(plan, costs)
        assert by_table.sum(axis=0) == pytest.approx(by_rank.sum(axis=0), rel=1e-9)


def test_a_kernel_without_starts_is_what_its_amounts_take() -> None:
    """A lookup of so few bytes that its start is all that it takes."""
    planned = job(global_batch_size=16)
    plan = planned.make("table_wise")
    program = planned.workload(plan).graph().programs[0]
    lookup = dict(zip(program.names, program.work, strict=True))["column_lookup"]
    assert not isinstance(lookup, CollectiveCall)
    whole = np.max(planned.machine.compute.duration_s(lookup))
    assert np.max(planned.machine.compute.without_starts().duration_s(lookup)) < whole

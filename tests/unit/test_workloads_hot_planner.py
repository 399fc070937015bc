"""HugeCTR's planner, by hand and on MLPerf's model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dlrmsim.verbs.plan import plan
from inputs.errors import InfeasibleError
from scenarios.dlrm.plans import PlanningJob
from scenarios.resolve import load_scenario
from tests.planning_jobs import job
from workloads.dlrm.sharding.hot_planner import deal, hot_copies


def test_shards_go_to_the_cheapest_place_that_has_room() -> None:
    """Costs 5, 4, 3, 3 on two places: 5 + 3 and 4 + 3."""
    place = deal(np.arange(4), np.array([5.0, 4.0, 3.0, 3.0]), np.ones(4, dtype=np.int64), 2, 10.0)
    assert place is not None
    assert place.tolist() == [0, 1, 1, 0]


def test_two_shards_of_a_table_never_share_a_place() -> None:
    place = deal(np.array([0, 0, 1]), np.array([1.0, 1.0, 9.0]), np.ones(3, dtype=np.int64), 2, 10.0)
    assert place is not None
    assert place[0] != place[1]


@pytest.mark.parametrize(("sizes", "room"), [([11, 1], 10.0), ([6, 6], 5.0)])
def test_a_shard_without_room_is_no_plan(sizes: list[int], room: float) -> None:
    assert deal(np.arange(2), np.ones(2), np.array(sizes), 2, room) is None


def made(planner: str, nodes: int):
    resolved = load_scenario("mlperf_dlrm_dcnv2", (f"nodes={nodes}", f"workload.sharding.planner={planner}"))
    return PlanningJob.of(resolved).make(planner)


def test_the_hottest_table_is_split_and_the_loads_are_close() -> None:
    """8 ranks: table 20 has 100 of 214 lookups; whole, its rank would have 3.7 times the mean."""
    found = made("hot", 1)
    assert np.count_nonzero(found.columns.table == 20) >= 4
    share = found.columns.dim / 128
    load = np.bincount(found.columns.rank, weights=found.tables.lookups_per_sample[found.columns.table] * share)
    assert load.max() < 1.3 * load.mean()


def test_over_nodes_every_rank_of_a_node_has_rows_of_its_tables() -> None:
    """8 nodes: the hottest table on two of them, the others whole; nothing on single ranks."""
    found = made("hot", 8)
    assert len(found.columns) == 0
    assert np.count_nonzero(found.nodes.table == 20) == 2
    assert set(found.nodes.node.tolist()) == set(range(8))


def test_small_tables_are_copied() -> None:
    """12.5 MB at 8 bytes an element and 128 columns are 12,207 rows."""
    found = made("hot_copies", 1)
    assert set(found.data_parallel.tolist()) == set(np.flatnonzero(found.tables.rows <= 12207).tolist())


def test_the_verb_knows_both() -> None:
    assert plan("mlperf_dlrm_dcnv2", settings=("workload.sharding.planner=hot",)) is not None


def test_copies_that_fill_a_rank_alone_are_refused() -> None:
    """No table is left to deal, and the copies of the small ones take all the room and more."""
    small = job(1)
    needed = float(small.context.copied_bytes(small.tables)[small.tables.rows * small.tables.dim * 8 < 12.5e6].sum())
    context = replace(small.context, memory_bytes=needed - 1.0)
    with pytest.raises(InfeasibleError, match="hot_copies fits: the copied tables alone"):
        hot_copies(small.tables, context)

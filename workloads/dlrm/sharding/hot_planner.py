"""Tables by hotness: HugeCTR's planner, which splits the hottest tables and deals shards to the places with least cost.

A place is a rank, or with several nodes a node, over whose ranks the rows of its tables are spread. A shard costs the
lookups per sample that it has, and a vector to send as much as `VECTOR_LOOKUPS` lookups, whatever its size. The planner
deals shards, the costliest first, to the place with the least cost that has room; then it halves those of the hottest
table, and so on; of `ATTEMPTS` it takes the one whose costliest place is cheapest (HugeCTR samples/dlrm/sharding
``planner.py`` and ``generate_plan.py``: ``auto`` on one node, ``hier_auto`` on several).

HugeCTR halves tables by rows; here a rank, or node, has a range of columns: as many lookups and bytes of memory, fewer
bytes on the wire. `hot_copies` copies tables to all ranks that are smaller than `COPIED_BYTES`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from inputs.errors import InfeasibleError
from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.dlrm.model.columns import cut_columns, most_pieces
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.interfaces import PLANNERS, PlanningContext
from workloads.dlrm.sharding.placing import all_tables, block_bytes, shard_bytes
from workloads.dlrm.sharding.plan import Plan, make_plan
from workloads.dlrm.sharding.shards import ColumnShards, NodeShards

ATTEMPTS = 20
"""Plans that are compared (``max_search_iter``)."""
VECTOR_LOOKUPS = {"rank": 3.35e12 / 450e9 / 4, "node": 67 / 4}
"""Lookups that a vector on the wire costs: memory over NVLink or NIC rate, over their work (``mem_comm_bw_ratio`` of
train.py and of the configurations for several nodes, ``mem_comm_work_ratio``)."""
COPIED_BYTES = 12.5e6
"""Size of weights and optimizer state in fp32 below which tables are copied (``DP_SHARDING_THRESHOLD=0.0125``, MLPerf
v3.1 NVIDIA config_DGXH100_8x8x2112.sh)."""
ELEMENT_BYTES = 8
"""Weight and Adagrad state of an element, as that threshold counts them."""


def hot(tables: Tables, context: PlanningContext) -> Plan:
    """Every table sharded.

    Raises:
        InfeasibleError: no attempt fits.
    """
    return _plan(tables, context, "hot", np.zeros(len(tables), dtype=bool))


def hot_copies(tables: Tables, context: PlanningContext) -> Plan:
    """Small tables copied, the others sharded.

    Raises:
        InfeasibleError: no attempt fits.
    """
    return _plan(tables, context, "hot_copies", tables.rows * tables.dim * ELEMENT_BYTES < COPIED_BYTES)


def _plan(tables: Tables, context: PlanningContext, name: str, copied: np.ndarray) -> Plan:
    local, several = context.local_world_size, context.world_size > context.local_world_size and context.rows_over_nodes
    places = context.world_size // local if several else context.world_size
    sharded = all_tables(tables)[~copied]
    left = context.memory_bytes - float(context.copied_bytes(tables)[copied].sum())
    if left < 0.0:
        raise InfeasibleError(f"no plan of the planner {name} fits: the copied tables alone fill more than a rank")
    vector = VECTOR_LOOKUPS["node" if several else "rank"]
    best: tuple[float, tuple[IntArray, IntArray, IntArray], IntArray] | None = None
    for pieces in _attempts(tables, sharded, places):
        table, column, dim = shards = cut_columns(sharded, tables.dim[sharded], pieces[sharded])
        sizes = block_bytes(tables, context, table, dim, local) if several else shard_bytes(tables, context, table, dim)
        costs = tables.lookups_per_sample[table] / pieces[table] + vector * tables.features[table]
        place = deal(table, costs, sizes, places, left)
        if place is not None:
            most = float(np.bincount(place, weights=costs, minlength=places).max())
            if best is None or most < best[0]:
                best = most, shards, place
    if best is None:
        raise InfeasibleError(f"no plan of the planner {name} fits: shards are too large for every place")
    (table, column, dim), place = best[1:]
    return make_plan(
        tables,
        context.world_size,
        local,
        name,
        columns=None if several else ColumnShards(table, place, column, dim),
        nodes=NodeShards(table, place, column, dim) if several else None,
        data_parallel=np.flatnonzero(copied),
    )


def _attempts(tables: Tables, sharded: IntArray, places: int) -> Iterator[IntArray]:
    """Column ranges of each table ``[N]``: all whole, then those of the hottest shard halved, again and again."""
    pieces = np.ones(len(tables), dtype=np.int64)
    most = np.minimum(places, most_pieces(tables.dim))
    for _ in range(ATTEMPTS):
        yield pieces.copy()
        hotness = np.where(2 * pieces <= most, tables.lookups_per_sample / pieces, -1.0)[sharded]
        if not len(hotness) or hotness.max() < 0.0:
            return
        pieces[sharded[int(np.argmax(hotness))]] *= 2


def deal(table: IntArray, costs: FloatArray, sizes: IntArray, places: int, room: float) -> IntArray | None:
    """Place of each shard ``[S]``: costliest first, to the cheapest place with room and no shard of the same table.

    Args:
        table: table of each shard ``[S]``.
        costs: cost of each ``[S]``.
        sizes: bytes that it takes ``[S]``.
        places: number of places.
        room: bytes that each has.

    Returns:
        None where a shard finds no place.
    """
    cost, used, place = np.zeros(places), np.zeros(places), np.full(len(table), -1)
    for shard in np.argsort(-costs, kind="stable").tolist():
        taken = place[table == table[shard]]
        free = used + sizes[shard] <= room
        free[taken[taken >= 0]] = False
        if not free.any():
            return None
        chosen = int(np.argmin(np.where(free, cost, np.inf)))
        place[shard] = chosen
        cost[chosen] += costs[shard]
        used[chosen] += sizes[shard]
    return place


PLANNERS.add("hot", hot, "the hottest tables split, dealt by lookups and vectors; over nodes by rows of each (HugeCTR)")
PLANNERS.add("hot_copies", hot_copies, "as hot, tables below 12.5 MB copied (HugeCTR in MLPerf v3.1)")

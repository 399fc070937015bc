"""A collective at many sizes on an idle machine: the rows of nccl-tests' table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hardware_specs.types import Cluster
from inputs.errors import InputError
from inputs.quantities import MAX_RANKS
from simulator.collective_calls import CollectiveOp, busbw_factor
from simulator.network.blocks import Block
from simulator.network.collectives import Call
from simulator.network.membership import blocks_of
from simulator.network.model import CollectiveModel, Timed
from simulator.network.topology import Placement, Topology


def busbw_bytes_per_s(op: CollectiveOp, ranks: int, size_bytes: float, time_s: float) -> float:
    """Bus bandwidth of a collective, as nccl-tests defines it; 0 when it takes no time."""
    return size_bytes / time_s * busbw_factor(op, ranks) if time_s > 0 else 0.0


def group_in_words(ranks: int, nodes: int) -> str:
    """``64 ranks on 8 nodes``."""
    return f"{ranks:,} {'rank' if ranks == 1 else 'ranks'} on {nodes:,} {'node' if nodes == 1 else 'nodes'}"


@dataclass(frozen=True, slots=True)
class SizeRow:
    """One size of a collective.

    Attributes:
        bytes: nccl-tests' size.
        time_s: duration on an idle machine.
        algbw_bytes_per_s: size over time.
        busbw_bytes_per_s: see `busbw_bytes_per_s`.
        algorithm: chosen by the library's rules, or forced.
        protocol: chosen likewise.
        limit: largest part of the time: ``latency``, ``posts`` of messages, or the class of the busiest link.
    """

    bytes: float
    time_s: float
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float
    algorithm: str
    protocol: str
    limit: str


@dataclass(frozen=True, slots=True)
class SizeTable:
    """A collective over one group of ranks.

    Attributes:
        ranks: members.
        nodes: nodes they are on.
        ranks_per_node: members on the node that has most.
        rows: one per size.
        notes: ways in which the call is outside the measured range.
    """

    op: CollectiveOp
    ranks: int
    nodes: int
    ranks_per_node: int
    rows: tuple[SizeRow, ...]
    notes: tuple[str, ...]

    @property
    def average_busbw_bytes_per_s(self) -> float:
        """Mean over the sizes, as nccl-tests prints it."""
        return sum(row.busbw_bytes_per_s for row in self.rows) / len(self.rows)


def size_table(model: CollectiveModel, block: Block, op: CollectiveOp, sizes: Iterable[float]) -> SizeTable:
    """Time a collective over one instance of ``block`` at each size, bytes."""
    rows: list[SizeRow] = []
    notes: dict[str, None] = {}
    for size in sizes:
        call = Call(op, block, np.full((1, 1), float(size)))
        timed = model.time(call)
        rows.append(_row(call, timed))
        notes.update(dict.fromkeys(model.outside_range(call, timed)))
    members = np.unique(model.topology.node_of[block.ranks[0]], return_counts=True)[1]
    notes.update(dict.fromkeys(_not_forced(model, block, op, rows)))
    return SizeTable(op, block.size, len(members), int(members.max()), tuple(rows), tuple(notes))


def _not_forced(model: CollectiveModel, block: Block, op: CollectiveOp, rows: Sequence[SizeRow]) -> list[str]:
    """Note that the algorithm asked for cannot run on this group, so that the library chose."""
    forced = model.algorithms.get(op)
    if forced is None or block.size == 1 or all(row.algorithm == forced for row in rows):
        return []
    where = group_in_words(block.size, block.node_count)
    return [f"{op}/{forced} does not apply to {where}: the library's choice is shown"]


def _row(call: Call, timed: Timed) -> SizeRow:
    size, time_s = float(call.bytes[0, 0]), float(timed.seconds.max())
    return SizeRow(
        bytes=size,
        time_s=time_s,
        algbw_bytes_per_s=size / time_s if time_s > 0 else 0.0,
        busbw_bytes_per_s=busbw_bytes_per_s(call.op, call.block.size, size, time_s),
        algorithm=timed.algorithm.name,
        protocol=timed.protocol,
        limit=_limit(timed, time_s),
    )


def _limit(timed: Timed, time_s: float) -> str:
    """Latency or posts of messages where they take half of the time or more; else the busiest link, by time."""
    if time_s <= 0 or 2 * sum(float(stage.latency_s.max()) for stage in timed.stages) >= time_s:
        return "latency"
    if 2 * sum(stage.posts_s for stage in timed.stages) >= time_s:
        return "posts"
    used: dict[str, float] = {}
    for stage in timed.stages:
        for name, seconds in stage.links_s.items():
            used[name] = max(used.get(name, 0.0), float(seconds.max()))
    return max(used, key=lambda name: used[name]) if used else "latency"


def placed_group(
    cluster: Cluster, ranks: int, ranks_per_node: int | None = None, placement: Placement = "block", seed: int = 0
) -> tuple[Topology, Block]:
    """A communicator of ``ranks`` ranks, ``ranks_per_node`` on each node (default: all of a node).

    Raises:
        InputError: no such number of ranks or ranks per node, or the placement is unknown.
    """
    slots = cluster.node.ranks
    per_node = min(slots, ranks) if ranks_per_node is None else ranks_per_node
    if not 1 <= ranks <= MAX_RANKS:
        raise InputError("impossible value", file="--ranks", given=ranks, expected=f"1 to {MAX_RANKS:,}")
    if not 1 <= per_node <= slots:
        raise InputError(
            f"a node of {cluster.name} has {slots} {cluster.node.rank_name}",
            file="--ranks-per-node",
            given=per_node,
            expected=f"1 to {slots}",
        )
    nodes = -(-ranks // per_node)
    world = ranks if per_node == slots else nodes * slots
    topology = Topology.build(cluster, world, placement, seed)
    taking_part = np.flatnonzero(topology.local_rank_of < per_node)[:ranks]
    instance = np.full(world, -1)
    instance[taking_part] = 0
    return topology, blocks_of(instance, topology)[0]


def size_tables(
    cluster: Cluster,
    op: CollectiveOp,
    rank_counts: Sequence[int],
    sizes: Sequence[float],
    *,
    ranks_per_node: int | None = None,
    placement: Placement = "block",
    seed: int = 0,
    algorithm: str | None = None,
) -> list[SizeTable]:
    """A table for each number of ranks.

    Raises:
        InputError: see `placed_group`; or there is no such algorithm for the operation.
    """
    tables = []
    for ranks in rank_counts:
        topology, block = placed_group(cluster, ranks, ranks_per_node, placement, seed)
        model = CollectiveModel.of(cluster, topology, {op: algorithm} if algorithm else None)
        tables.append(size_table(model, block, op, sizes))
    return tables

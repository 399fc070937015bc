"""Costs of shards on a machine: the engine's durations of their kernels and exchanges.

A kernel processes all shards of a kind on a rank. The cost of a shard is its part of that kernel: the duration that the
compute model gives to the amounts of the shard, without the start of a kernel. The cost of a byte of an exchange is the
time that it adds to a collective for all tables, sharded in the same way, without the latency, which all shards share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from simulator.collective_calls import CollectiveOp
from simulator.operators import (
    Amount,
    CacheFill,
    DenseOptimizer,
    EmbeddingLookup,
    EmbeddingUpdate,
    FloatArray,
    HostTraffic,
)
from simulator.precisions import WIRE_BYTES
from simulator.program import IntArray
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.storage import Storage, uniform_storage
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.rows.blocks import block_shares
from workloads.dlrm.rows.kernels import KernelShards, dense_gradient, kernels
from workloads.dlrm.rows.traffic import asked_share, popularity_of
from workloads.dlrm.sharding.plan import Plan
from workloads.graph.optimizers import DENSE_ACCESSES

OVERLAP_COST = 0.25
"""Seconds that a second of input exchange costs when it runs beside the other communication (assumed: on ZionEX it
takes a quarter to a third of the network cards from an all_reduce that would use nearly all of them)."""

_AT_A_TIME = 64
"""Tables whose loads are spread over all ranks at once: 8 MB on 4096 ranks."""

TINY_S = 1e-30
"""Replacement of a time of 0 in a ratio of times, seconds."""

_PHASES = 4
"""Number of phases: lookup, update, output, input (`workloads.dlrm.sharding.interfaces.PHASES`)."""

Ranks: TypeAlias = Literal["world", "node", "cross_node"]
"""Members of a collective: all ranks; the ranks of a node; the ranks with the same place in their nodes."""

Kernel: TypeAlias = EmbeddingLookup | EmbeddingUpdate | CacheFill | DenseOptimizer


@dataclass(frozen=True, slots=True)
class MachineTimes:
    """Times of a machine that planners need.

    Attributes:
        kernel_s: seconds that amounts of shards ``[S]`` add to the part of a kernel in device memory.
        collective_s: seconds of a collective by operation, members and bytes (in nccl-tests' sense), equal on all
            members; 0 for a member alone.
        host_bytes_per_s: rate of rows in host memory, over PCIe, when all ranks of a node read them.
        ssd_bytes_per_s: rate of rows on SSDs, when all ranks of a node read them; infinite without SSDs.
    """

    kernel_s: Callable[[Kernel], Amount]
    collective_s: Callable[[CollectiveOp, Ranks, float], float]
    host_bytes_per_s: float = float("inf")
    ssd_bytes_per_s: float = float("inf")


@dataclass(slots=True)
class EngineCosts:
    """Shard costs from the engine's durations.

    Phases as in `workloads.dlrm.sharding.interfaces.PHASES`. An input exchange that the pipeline runs beside the rest
    counts by `OVERLAP_COST`, unless it lasts longer than the rest.

    Attributes:
        settings: the job.
        machine: times of its kernels and collectives.
        storage: kernels of the tables.
    """

    tables: Tables
    settings: DlrmSettings
    machine: MachineTimes
    storage: Storage | None = None
    _weight: float | None = field(init=False, default=None)
    _weights: dict[tuple[int, int], FloatArray] = field(init=False, default_factory=dict)
    _known: dict[int, _Known] = field(init=False, default_factory=dict)
    _everywhere: dict[str, FloatArray] = field(init=False, default_factory=dict)
    _per_byte: dict[tuple[CollectiveOp, Ranks, float], float] = field(init=False, default_factory=dict)
    _in_order: dict[tuple[str, ...], EngineCosts] = field(init=False, default_factory=dict)

    def stored(self, storage: Storage) -> EngineCosts:
        """The same with tables in the memory that these kernels put them in."""
        fused = not np.any(storage.kernel)
        return self if self.storage is None and fused else replace(self, storage=storage)

    def of(self, tables: Tables) -> EngineCosts:
        """Costs of shards of the tables of this job in another order, or with other rows.

        Costs of the tables as they are, in an order that was asked for before, are the ones computed then.
        """
        if tables.names == self.tables.names:
            return self if np.array_equal(tables.rows, self.tables.rows) else replace(self, tables=tables)
        known = self._in_order.get(tables.names)
        if known is None or not np.array_equal(known.tables.rows, tables.rows):
            known = self._in_order[tables.names] = replace(self, tables=tables)
        return known

    def column_shard_s(self, table: IntArray, dim: IntArray) -> FloatArray:
        """Seconds per shard and phase ``[S, 4]``."""
        return self._shards_s(table, dim, 1)

    def node_shard_s(self, table: IntArray, dim: IntArray) -> FloatArray:
        """Seconds per shard and phase on each rank of the node ``[S, 4]``.

        Pooled vectors take a reduce_scatter in the node, then an all_to_all of the part of it that a rank has.
        """
        return self._shards_s(table, dim, self.settings.local_world_size)

    def row_wise_s(self) -> FloatArray:
        """Seconds per table and phase on every rank ``[N, 4]``."""
        if "rows" not in self._everywhere:
            everything, ranks = np.arange(len(self.tables)), self.settings.world_size
            self._everywhere["rows"] = self._weighted(self._sharded_s(everything, self.tables.dim, ranks, world=True))
        return self._everywhere["rows"]

    def data_parallel_s(self) -> FloatArray:
        """Seconds per table and phase on every rank ``[N, 4]``.

        Lookups of the local batch, an all_reduce of the whole gradient, a dense update.
        """
        if "copies" not in self._everywhere:
            self._everywhere["copies"] = self._copies_s()
        return self._everywhere["copies"]

    def block_weights(self, table: IntArray, blocks: int) -> FloatArray:
        """Seconds of each block of rows of tables over those of a block of the mean ``[S, blocks, 4]``.

        A block has the lookups that its popular rows draw, its distinct rows, and all pooled vectors, or those of its
        lookups of a sequence. Blocks of tables with uniform popularity count as equal.
        """
        found = np.ones((len(table), blocks, _PHASES))
        for shard, number in enumerate(table.tolist()):
            known = self._weights.get((number, blocks))
            if known is None:
                known = self._weights[number, blocks] = self._weights_of(number, blocks)
            found[shard] = known
        return found

    def _weights_of(self, table: int, blocks: int) -> FloatArray:
        """Ratio of the time of each block to the time of a mean block ``[blocks, 4]``."""
        if len(popularity_of(self.tables, self.settings, table).count) == 1:
            return np.ones((blocks, _PHASES))
        number = np.array([table])
        lookups, distinct = block_shares(self.tables, self.settings, number, blocks)
        at = np.full(blocks, table)
        each = self._kernels_s(at, self.tables.dim[at], blocks, (lookups[0], distinct[0]))
        mean = self._kernels_s(number, self.tables.dim[number], blocks)
        kernels_of = [own / np.maximum(even, TINY_S) for own, even in zip(each, mean, strict=True)]
        of_lookups, of_lengths = self._input_s(number, blocks)
        received = (of_lookups * lookups[0] * blocks + of_lengths) / np.maximum(of_lookups + of_lengths, TINY_S)
        output = lookups[0] * blocks if self.tables.sequences else np.ones(blocks)
        return np.stack([*kernels_of, output, received], axis=1)

    def _weighted(self, seconds: FloatArray) -> FloatArray:
        if self._weight is None:
            self._weight = self._input_weight()
        seconds[:, -1] *= self._weight
        return seconds

    def _input_weight(self) -> float:
        """Weight of input exchange, by whether the pipeline hides it."""
        if self.settings.pipeline == "none":
            return 1.0
        everything = np.arange(len(self.tables))
        mean = self._sharded_s(everything, self.tables.dim, 1).sum(axis=0)
        return OVERLAP_COST if mean[-1] <= mean[:-1].sum() else 1.0

    def _shards_s(self, table: IntArray, dim: IntArray, ranks: int) -> FloatArray:
        """Seconds of shards, computed once for equal shards ``[S, 4]``."""
        key = table * (int(self.tables.dim.max(initial=0)) + 1) + dim
        known = self._known.setdefault(ranks, _Known.empty())
        new, first = np.unique(key[~np.isin(key, known.key)], return_index=True)
        if len(new):
            place = np.flatnonzero(~np.isin(key, known.key))[first]
            known = known.joined(new, self._weighted(self._sharded_s(table[place], dim[place], ranks)))
            self._known[ranks] = known
        return known.of(key)

    def _sharded_s(self, table: IntArray, dim: IntArray, ranks: int, *, world: bool = False) -> FloatArray:
        """Seconds of shards in each phase on each of the ``ranks`` that share their rows ``[S, 4]``.

        Args:
            table: table of each shard ``[S]``.
            dim: its columns ``[S]``.
            ranks: over how many ranks its rows are spread.
            world: whether these are all ranks, not the ranks of one node.
        """
        forward_s, update_s = self._kernels_s(table, dim, ranks)
        vectors = float(self.settings.exchanged_samples) * dim * self._vectors[table]
        exchange = vectors * self._output_s_per_element("world" if world else "node" if ranks > 1 else None)
        return np.stack([forward_s, update_s, exchange, sum(self._input_s(table, ranks))], axis=1)

    def _input_s(self, table: IntArray, ranks: int) -> tuple[FloatArray, FloatArray]:
        """Seconds of the exchange of indices, and of bag lengths, on each of the ``ranks`` that share rows ``[S]``."""
        settings, tables = self.settings, self.tables
        batch, local = float(settings.exchanged_samples), float(settings.local_batch_size)
        lookups = batch * self._asked[table] * settings.index_bytes / ranks
        lengths = batch * tables.features[table] * settings.length_bytes
        sizes = (
            local * float(self._asked.sum()) * settings.index_bytes,
            local * tables.feature_count * settings.length_bytes,
        )
        of_lookups, of_lengths = (self._s_per_byte("all_to_all", "world", size) for size in sizes)
        return np.asarray(lookups * of_lookups), np.asarray(lengths * of_lengths, dtype=np.float64)

    @property
    def _asked(self) -> FloatArray:
        """Rows of each table that a sample asks the owners for ``[N]``."""
        return self.tables.lookups_per_sample * asked_share(self.tables, self.settings)

    @property
    def _vectors(self) -> FloatArray:
        """Vectors of a sample that each table sends ``[N]``."""
        return self._asked if self.tables.sequences else self.tables.vectors

    def _output_s_per_element(self, over: Ranks | None) -> float:
        """Seconds per element of the pooled vectors of a rank's shards, forward and backward.

        Args:
            over: ranks over which rows are spread, None for whole rows.
        """
        settings, width = self.settings, float(self.tables.dim @ self._vectors)
        local, ranks = settings.local_batch_size * width, settings.local_world_size
        sent = sum(
            size * self._s_per_byte("all_to_all", "cross_node" if over == "node" else "world", local * size)
            for size in (settings.forward_bytes, settings.backward_bytes)
        )
        if over is None:
            return sent
        if self.tables.sequences:  # a rank sends the vectors that it serves
            return sent / (settings.world_size if over == "world" else ranks)
        samples = local * (settings.world_size if over == "world" else ranks)
        size, back = WIRE_BYTES[settings.summed_forward], WIRE_BYTES[settings.gathered_backward]
        summed = size * self._s_per_byte("reduce_scatter", over, samples * size)
        summed += back * self._s_per_byte("all_gather", over, samples * back)
        return summed if over == "world" else summed + sent / ranks

    def _s_per_byte(self, op: CollectiveOp, ranks: Ranks, size: float) -> float:
        """Seconds that a byte adds to a collective, between ``size`` bytes and all bytes of all ranks on one of them.

        Shards share the starts and hops of an exchange, so latency is nobody's cost.
        """
        if size <= 0.0:
            return 0.0
        key = (op, ranks, size)
        if key not in self._per_byte:
            most = size * max(self.settings.world_size, 2)
            added_s = self.machine.collective_s(op, ranks, most) - self.machine.collective_s(op, ranks, size)
            self._per_byte[key] = max(added_s, 0.0) / (most - size)  # a library may change to a faster way
        return self._per_byte[key]

    def _kernels_s(
        self, table: IntArray, dim: IntArray, ranks: int, shares: tuple[FloatArray, FloatArray] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Seconds of lookups, with cache fills, and of updates of shards on each of the ``ranks`` ``[S]``.

        Args:
            table: table of each shard ``[S]``.
            dim: its columns ``[S]``.
            ranks: number of ranks over which its rows are spread.
            shares: fraction of its table's lookups and distinct rows that a shard has ``[S]``; None: equal parts.
        """
        storage = self.storage or uniform_storage(len(self.tables))
        shards = self._alone(table, dim, ranks)
        if shares is not None:
            shards = replace(shards, lookups=lambda values: values * shares[0], distinct=lambda v: v * shares[1])
        made = kernels(self.tables, self.settings, shards, storage)
        count = len(table)
        filled = np.zeros(count) if made.fill is None else self._kernel_s(made.fill, count)
        return self._kernel_s(made.lookup, count) + filled, self._kernel_s(made.update, count)

    def _alone(self, table: IntArray, dim: IntArray, ranks: int, samples: float | None = None) -> KernelShards:
        """Kernels of single shards; the sort uses at least the number of rows of all tables on the mean rank."""
        mean = self.tables.rows.sum() / self.settings.world_size
        rows = np.maximum(self.tables.rows[table] / ranks, mean)
        batch = float(self.settings.global_batch_size) if samples is None else samples

        def part(values: FloatArray) -> FloatArray:
            return values / ranks

        return KernelShards(table, dim, batch, ranks, part, part, lambda _: rows, lambda values: values)

    def _kernel_s(self, kernel: Kernel, count: int) -> FloatArray:
        """Seconds of a kernel with the amounts of shards, in device memory and outside it ``[S]``."""
        host = None if isinstance(kernel, DenseOptimizer) else kernel.host
        inside = kernel if isinstance(kernel, DenseOptimizer) else replace(kernel, host=HostTraffic())
        if not isinstance(inside, CacheFill | DenseOptimizer) and not self.settings.on_host:
            inside = replace(inside, factor=self.settings.framework.factor("embedding_factor"))
        seconds = self.machine.kernel_s(inside) + (0.0 if host is None else self._host_s(host))
        return np.broadcast_to(np.asarray(seconds, dtype=np.float64), count).copy()

    def _host_s(self, traffic: HostTraffic) -> Amount:
        """Rows outside device memory: both directions of PCIe at once, SSDs one after the other."""
        over_pcie = np.maximum(traffic.read_bytes, traffic.write_bytes)
        on_ssd = traffic.ssd_read_bytes + traffic.ssd_write_bytes
        return over_pcie / self.machine.host_bytes_per_s + on_ssd / self.machine.ssd_bytes_per_s

    def _copies_s(self) -> FloatArray:
        tables, settings = self.tables, self.settings
        everything, count = np.arange(len(tables)), len(tables)
        shards = self._alone(everything, tables.dim, 1, float(settings.local_batch_size))
        made = kernels(tables, settings, shards, uniform_storage(count))
        weights = tables.weight_bytes.astype(np.float64)
        dense = DenseOptimizer(
            (tables.rows * tables.dim).astype(np.float64), DENSE_ACCESSES[settings.optimizer.dense] * weights
        )
        update_s = self._kernel_s(dense_gradient(made.update, weights), count) + self._kernel_s(dense, count)
        summed = tables.rows * tables.dim * WIRE_BYTES[settings.precision.all_reduce]
        per_byte = self._s_per_byte("all_reduce", "world", float(settings.framework.bucket_bytes.value))
        return np.stack([self._kernel_s(made.lookup, count), update_s, summed * per_byte, np.zeros(count)], axis=1)


@dataclass(frozen=True, slots=True)
class _Known:
    """Costs computed so far: keys ``[K]``, ascending, and seconds ``[K, 4]``."""

    key: IntArray
    seconds: FloatArray

    @staticmethod
    def empty() -> _Known:
        return _Known(np.zeros(0, dtype=np.int64), np.zeros((0, _PHASES)))

    def joined(self, key: IntArray, seconds: FloatArray) -> _Known:
        keys, values = np.concatenate([self.key, key]), np.concatenate([self.seconds, seconds])
        order = np.argsort(keys, kind="stable")
        return _Known(keys[order], values[order])

    def of(self, key: IntArray) -> FloatArray:
        return np.asarray(self.seconds[np.searchsorted(self.key, key)])


def rank_loads_s(plan: Plan, costs: EngineCosts) -> FloatArray:
    """Seconds of each rank in each phase under a plan ``[P, K]``."""
    columns, nodes, local = plan.columns, plan.nodes, plan.local_world_size
    by_rank = _summed(columns.rank, costs.column_shard_s(columns.table, columns.dim), plan.world_size)
    in_node = costs.node_shard_s(nodes.table, nodes.dim)[:, None] * costs.block_weights(nodes.table, local)
    places = [_summed(nodes.node, in_node[:, place], plan.node_count) for place in range(local)]
    by_place = np.stack(places, axis=1).reshape(-1, by_rank.shape[1])[: plan.world_size]
    everywhere = np.zeros(by_rank.shape[1])
    if len(plan.data_parallel):
        everywhere = costs.data_parallel_s()[plan.data_parallel].sum(axis=0)
    row_wise_s = costs.row_wise_s() if len(plan.row_wise) else everywhere
    for some in np.array_split(plan.row_wise, -(-len(plan.row_wise) // _AT_A_TIME)) if len(plan.row_wise) else []:
        everywhere = everywhere + np.einsum("nk,npk->pk", row_wise_s[some], costs.block_weights(some, plan.world_size))
    return np.asarray(by_rank + by_place + everywhere)


def plan_cost_s(plan: Plan, costs: EngineCosts) -> float:
    """Iteration time by the costs of shards, seconds: all phases, each as long as its slowest rank."""
    return float(rank_loads_s(plan, costs).max(axis=0).sum())


def table_costs_s(plan: Plan, costs: EngineCosts) -> FloatArray:
    """Seconds of each table in each phase under a plan, added up over its ranks ``[N, K]``."""
    columns, nodes, count = plan.columns, plan.nodes, len(plan.tables)
    found = _summed(columns.table, costs.column_shard_s(columns.table, columns.dim), count)
    found = found + plan.local_world_size * _summed(nodes.table, costs.node_shard_s(nodes.table, nodes.dim), count)
    for some, seconds in ((plan.row_wise, costs.row_wise_s), (plan.data_parallel, costs.data_parallel_s)):
        if len(some):
            found[some] += plan.world_size * seconds()[some]
    return np.asarray(found)


def _summed(place: IntArray, seconds: FloatArray, count: int) -> FloatArray:
    """Add ``seconds [S, K]`` by place ``[count, K]``."""
    summed = [np.bincount(place, weights=phase, minlength=count) for phase in seconds.T]
    return np.stack(summed, axis=1).astype(np.float64)

"""EmbeddingBagCollections of a module as TorchRec's DistributedModelParallel would shard them, for captured steps.

DistributedModelParallel itself needs tensors with memory. A stand-in takes the place of each collection: on every rank
it exchanges the indices of a batch, looks up the rank's shards in one kernel for each kind of sharding, and exchanges
pooled vectors: column shards by all_to_all, row shards by reduce_scatter, shards of nodes by both (torchrec
embedding_sharding.py). Gradients go the opposite way. Tables that are copied to
all ranks have dense gradients: wrap the module in DistributedDataParallel, which DistributedModelParallel does itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Module

from inputs.errors import InputError
from trainer.capture.tables import TableBatch, lookup
from trainer.torchrec.collections import BagCollection, BagTable, collections_of
from trainer.torchrec.interfaces import TorchrecShardingPlan
from trainer.torchrec.listed_shards import with_shards
from trainer.torchrec.plan_entries import plan_entries
from workloads.captured.records import Optimized
from workloads.dlrm.sharding.plan_file import PlanFile, TablePlan, read_plan

COLUMNS = ("table_wise", "column_wise", "table_column_wise")
ROWS = ("row_wise",)
NODES = ("table_row_wise", "grid_shard")
COPIES = "data_parallel"
"""Sharding types by the way in which pooled vectors travel."""


@dataclass(frozen=True, slots=True)
class BatchOfLookups:
    """Lookups of a rank's batch.

    Attributes:
        samples: number on a rank.
        pooling: table -> lookups of a sample for each of its features.
    """

    samples: int
    pooling: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class OwnShard:
    """A part of a table on this rank.

    Attributes:
        share: part of the table's rows, and of its lookups.
    """

    table: BagTable
    rows: int
    dim: int
    share: float


def shard_embeddings(
    module: Module,
    plan: PlanFile | Mapping[str, object] | TorchrecShardingPlan,
    *,
    samples: int,
    pooling_factors: Mapping[str, float] | float = 1.0,
    optimizer: Optimized = "rowwise_adagrad",
) -> Module:
    """The module with its EmbeddingBagCollections sharded by a plan, for this rank.

    Args:
        module: with collections on any device, ``meta`` included.
        plan: TorchRec's ``ShardingPlan``, or a plan of dlrmsim as a mapping.
        samples: number in the batch of each rank.
        pooling_factors: lookups of a sample for each feature, by table, or for all.
        optimizer: fused into the kernels of sharded tables.

    Raises:
        InputError: the module has no collection, or the plan is not one of its tables.
    """
    found = collections_of(module)
    file = with_shards(_file(plan), module)
    entries = {name: entry for tables in file.plan.values() for name, entry in tables.items()}
    each = pooling_factors if isinstance(pooling_factors, Mapping) else {}
    common = 1.0 if isinstance(pooling_factors, Mapping) else pooling_factors
    batch = BatchOfLookups(samples, {table.name: each.get(table.name, common) for own in found for table in own.tables})
    local = file.local_world_size or dist.get_world_size()
    for collection in found:
        stand_in = ShardedCollection(collection, entries, batch, optimizer, local)
        if not collection.path:
            return stand_in
        parent, _, name = collection.path.rpartition(".")
        setattr(module.get_submodule(parent), name, stand_in)
    return module


def _file(plan: PlanFile | Mapping[str, object] | TorchrecShardingPlan) -> PlanFile:
    """A plan in the form of a file."""
    if isinstance(plan, PlanFile):
        return plan
    return read_plan(plan if isinstance(plan, Mapping) else plan_entries(plan, dist.get_world_size())[0])


class ShardedCollection(Module):
    """Stand-in for a sharded EmbeddingBagCollection; returns a KeyedTensor of the pooled vectors of the batch."""

    def __init__(
        self,
        collection: BagCollection,
        entries: Mapping[str, TablePlan],
        batch: BatchOfLookups,
        optimizer: Optimized,
        local: int,
    ) -> None:
        """Make the shards of this rank."""
        super().__init__()
        missing = next((table.name for table in collection.tables if table.name not in entries), None)
        if missing is not None:
            raise InputError("the plan lacks a table", given=missing, expected="a plan for the tables of the module")
        kinds = {table.name: entries[table.name].sharding_type for table in collection.tables}
        self._tables, self._batch = collection.tables, batch
        self.kinds = torch.nn.ModuleList()
        for types, exchange in ((COLUMNS, _Columns), (ROWS, _Rows), (NODES, _Nodes)):
            own = [table for table in collection.tables if kinds[table.name] in types]
            if own:
                self.kinds.append(exchange(own, entries, batch, optimizer, local))
        copied = [table for table in collection.tables if kinds[table.name] == COPIES]
        self.copies = torch.nn.ModuleList(
            torch.nn.EmbeddingBag(table.rows, table.dim, mode=table.pooling) for table in copied
        )
        self._copied = copied

    def forward(self, features: object) -> Any:  # noqa: ARG002 - the sizes of a batch are known beforehand
        """Pooled vectors of all features ``[samples, width]``, keyed as TorchRec keys them."""
        parts = [kind() for kind in self.kinds]
        parts += [self._copy(table, bag) for table, bag in zip(self._copied, self.copies, strict=True)]
        values = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
        keys = [feature for table in self._tables for feature in table.features]
        widths = [table.dim for table in self._tables for _ in table.features]
        return keyed(keys, widths, values)

    def _copy(self, table: BagTable, bag: Module) -> Tensor:
        lookups = max(round(self._batch.samples * self._batch.pooling[table.name]), 1)
        offsets = torch.empty(self._batch.samples, dtype=torch.int64)
        indices = torch.empty(lookups, dtype=torch.int64)
        return torch.cat([bag(indices, offsets) for _ in table.features], dim=1)


def keyed(keys: list[str], widths: list[int], values: Tensor) -> Any:
    """TorchRec's KeyedTensor."""
    from torchrec.sparse.jagged_tensor import KeyedTensor

    return KeyedTensor(keys, widths, values)


class _Kind(Module):
    """Shards of one kind of sharding."""

    def __init__(
        self,
        tables: Sequence[BagTable],
        entries: Mapping[str, TablePlan],
        batch: BatchOfLookups,
        optimizer: Optimized,
        local: int,
    ) -> None:
        super().__init__()
        self.world, self.rank, self.local = dist.get_world_size(), dist.get_rank(), local
        self.samples, self.batch = batch.samples, batch
        shards = [(table, shard) for table in tables for shard in _shards(entries[table.name])]
        self.width_of = [0] * self.world
        self.features_of = [0] * self.world
        self.own: list[OwnShard] = []
        for table, (rows, dim, rank) in shards:
            self.width_of[rank] += dim * len(table.features)
            self.features_of[rank] += len(table.features)
            if rank == self.rank:
                self.own.append(OwnShard(table, rows, dim, rows / table.rows))
        self.tables = TableBatch([s.rows for s in self.own], [s.dim for s in self.own], optimizer=optimizer)
        self.lookups_of = self._lookups(shards)

    def _lookups(self, shards: Sequence[tuple[BagTable, tuple[int, int, int]]]) -> list[int]:
        """Lookups of a rank's batch that each rank serves."""
        found = [0.0] * self.world
        for table, (rows, _, rank) in shards:
            each = self.batch.pooling[table.name] * len(table.features)
            found[rank] += self.samples * each * rows / table.rows
        return [round(value) for value in found]

    def distribute(self) -> None:
        """Exchange lengths and indices of the batch."""
        lengths = torch.empty(self.samples * sum(self.features_of), dtype=torch.int32)
        served = self.samples * self.features_of[self.rank]
        _all_to_all(lengths, [self.samples * f for f in self.features_of], [served] * self.world)
        values = torch.empty(sum(self.lookups_of), dtype=torch.int64).clone()
        _all_to_all(values, self.lookups_of, [self.lookups_of[self.rank]] * self.world)

    def pooled(self) -> Tensor:
        """Pooled vectors of this rank's shards for the samples of all ranks ``[samples, width]``."""
        samples = self.samples * self.world
        if not self.own:
            return torch.empty(samples, 0, requires_grad=True)
        numbers = [n for n, shard in enumerate(self.own) for _ in shard.table.features]
        each = [self.batch.pooling[self.own[n].table.name] * self.own[n].share for n in numbers]
        indices = [torch.empty(max(round(samples * lookups), 1), dtype=torch.int64) for lookups in each]
        offsets = [torch.empty(samples, dtype=torch.int64) for _ in numbers]
        return lookup(self.tables, indices, offsets, numbers)


class _Columns(_Kind):
    """Shards of columns: vectors go to their samples' ranks by all_to_all."""

    def forward(self) -> Tensor:
        """Vectors of the rank's samples ``[samples, width of all shards]``."""
        self.distribute()
        return _exchanged(self.pooled(), self.samples, self.width_of)


class _Rows(_Kind):
    """Blocks of rows on all ranks: partial sums are added by reduce_scatter."""

    def forward(self) -> Tensor:
        """Vectors of the rank's samples ``[samples, width of all tables]``."""
        self.distribute()
        return _ReduceScatter.apply(self.pooled(), None, self.world)  # type: ignore[no-untyped-call,no-any-return]


class _Nodes(_Kind):
    """Blocks of rows within a node: reduce_scatter there, then all_to_all between ranks of one place in their nodes."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        nodes = self.world // self.local
        for node in range(nodes):
            group = dist.new_group(list(range(node * self.local, (node + 1) * self.local)))
            if self.rank // self.local == node:
                self._node = group
        for place in range(self.local):
            group = dist.new_group(list(range(place, self.world, self.local)))
            if self.rank % self.local == place:
                self._across = group

    def forward(self) -> Tensor:
        """Vectors of the rank's samples ``[samples, width of all nodes]``."""
        self.distribute()
        summed = _ReduceScatter.apply(self.pooled(), self._node, self.local)  # type: ignore[no-untyped-call]
        widths = self.width_of[self.rank % self.local :: self.local]
        return _exchanged(summed, self.samples, widths, self._across)


class _ReduceScatter(torch.autograd.Function):
    """Adds up parts of all ranks and leaves each its samples; backward gathers gradients."""

    @staticmethod
    def forward(ctx: Any, parts: Tensor, group: Any, ranks: int) -> Tensor:
        ctx.group, ctx.ranks = group, ranks
        found = parts.new_empty(parts.shape[0] // ranks, parts.shape[1])
        dist.reduce_scatter_tensor(found, parts, group=group)
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        gradient = gradients[0].contiguous()
        found = gradient.new_empty(gradient.shape[0] * ctx.ranks, gradient.shape[1])
        dist.all_gather_into_tensor(found, gradient, group=ctx.group)
        return found, None, None


class _AllToAll(torch.autograd.Function):
    """all_to_all of elements; gradients go the opposite way."""

    @staticmethod
    def forward(ctx: Any, given: Tensor, sent: list[int], received: list[int], group: Any) -> Tensor:
        ctx.sizes = sent, received, group
        return _all_to_all(given, sent, received, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        sent, received, group = ctx.sizes
        return _all_to_all(gradients[0].contiguous(), received, sent, group), None, None, None


def _exchanged(pooled: Tensor, samples: int, widths: Sequence[int], group: Any = None) -> Tensor:
    """Vectors of a rank's samples from all ranks of a group, beside each other ``[samples, sum of widths]``."""
    ranks = len(widths)
    sent = [pooled.numel() // ranks] * ranks
    received = [samples * width for width in widths]
    found: Tensor = _AllToAll.apply(pooled.reshape(-1), sent, received, group)  # type: ignore[no-untyped-call]
    return torch.cat([part.view(samples, -1) for part in found.split(received)], dim=1)


def _all_to_all(given: Tensor, sent: list[int], received: list[int], group: Any = None) -> Tensor:
    found = given.new_empty(sum(received))
    dist.all_to_all_single(found, given, received, sent, group=group)
    return found


def _shards(entry: TablePlan) -> list[tuple[int, int, int]]:
    """Rows, columns and rank of each shard."""
    if entry.sharding_spec is None:
        raise InputError("the plan does not list the shards of a table", given=entry.sharding_type)
    return [(*shard.shard_sizes, shard.rank) for shard in entry.sharding_spec.shards]

"""Constraints of single tables: sharding types, kernels, width of column ranges, ranks, and tables placed together.

Words as in TorchRec's ``ParameterConstraints`` (torchrec/distributed/planner/types.py), except for two. TorchRec's
``device_group`` is a kind of device; here it is a set of ranks. TorchRec places the tables of an embedding tower
together (``dependency`` of its ``ShardingOption``); here any tables may be.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from inputs.given import listed
from simulator.program import IntArray
from workloads.dlrm.model.columns import COLUMN_MULTIPLE
from workloads.dlrm.model.storage import COMPUTE_KERNELS
from workloads.dlrm.sharding.plan_file import PlanKernel, ShardingType

TYPES: tuple[ShardingType, ...] = get_args(ShardingType)
"""Sharding types in the order of `TableConstraints.types`."""

KERNELS: tuple[PlanKernel, ...] = (*COMPUTE_KERNELS, "dense")
"""Kernels in the order of `TableConstraints.kernels`; ``dense`` is the kernel of copies."""

ALONE = -1
"""Number of the set of a table that is in no set."""

PieceRange: TypeAlias = tuple[int, int]
"""Fewest and most column ranges of a table."""


@dataclass(frozen=True, slots=True)
class TableConstraints:
    """Constraints of all tables; tables of one set have the same types and device group.

    Attributes:
        types: whether a table may have a sharding type ``[N, 7]``, in the order of `TYPES`.
        kernels: whether a table may have a kernel ``[N, 5]``, in the order of `KERNELS`; planners get their choice of
            kernels as a `workloads.dlrm.sharding.interfaces.StorageChoice`.
        least_dim: fewest columns of a column range ``[N]``; 0 without such a constraint.
        group: number of its device group ``[N]``.
        ranks: whether a rank is in a device group ``[G, P]``; group 0 has all ranks.
        together: number of the set whose tables are on the same ranks, or `ALONE` ``[N]``.
        local_world_size: ranks per node.
    """

    types: NDArray[np.bool_]
    kernels: NDArray[np.bool_]
    least_dim: IntArray
    group: IntArray
    ranks: NDArray[np.bool_]
    together: IntArray
    local_world_size: int

    @property
    def bound(self) -> NDArray[np.bool_]:
        """Whether a constraint limits the shards of a table ``[N]``."""
        narrow = self.least_dim > COLUMN_MULTIPLE
        return np.asarray(~self.types.all(axis=1) | narrow | (self.group > 0) | (self.together != ALONE))

    @property
    def several_nodes(self) -> bool:
        """Whether the ranks are on more than one node."""
        return int(self.ranks.shape[1]) > self.local_world_size

    @property
    def by_node(self) -> NDArray[np.bool_]:
        """Ranks of the device groups by node ``[G, nodes, L]``, without nodes where these have different sizes."""
        count, world_size = self.ranks.shape
        if world_size % self.local_world_size:
            return np.zeros((count, 0, self.local_world_size), dtype=np.bool_)
        return self.ranks.reshape(count, -1, self.local_world_size)

    def at(self, order: IntArray) -> Self:
        """The constraints of the tables in another order ``[N]``."""
        own = {key: getattr(self, key)[order] for key in ("types", "kernels", "least_dim", "group", "together")}
        return replace(self, **own)

    def within(self, kinds: Iterable[ShardingType] | None) -> Self:
        """The constraints where a planner gives these sharding types only; None: all types.

        Tables without constraints keep all types.
        """
        if kinds is None:
            return self
        given = self.types & np.isin(TYPES, list(kinds))
        return replace(self, types=np.where(self.bound[:, None], given, self.types))

    def set_of(self, table: int) -> IntArray:
        """The tables on the same ranks as a table, itself included."""
        number = int(self.together[table])
        return np.array([table]) if number == ALONE else np.flatnonzero(self.together == number)

    def sort_key(self, table: int) -> tuple[object, ...]:
        """Equal for tables with the same constraints."""
        ranks = tuple(np.flatnonzero(self.ranks[self.group[table]]).tolist())
        types = tuple(self.types[table].tolist())
        return types, int(self.least_dim[table]), ranks, int(self.together[table])

    def sets(self) -> list[IntArray]:
        """The tables that constraints limit: an array for each single table, then one for each set."""
        alone = np.flatnonzero(self.bound & (self.together == ALONE))
        joined = [np.flatnonzero(self.together == number) for number in np.unique(self.together) if number != ALONE]
        return [*(np.array([table]) for table in alone), *joined]

    def most_pieces(self, table: IntArray, dim: IntArray) -> IntArray:
        """Most column ranges of tables of these dimensions, none of them narrower than allowed ``[...]``."""
        least = np.maximum(1, -(-self.least_dim[table] // COLUMN_MULTIPLE))
        return np.maximum(1, dim // COLUMN_MULTIPLE // least)

    def ways(self, members: IntArray, dim: IntArray) -> dict[ShardingType, PieceRange]:
        """Sharding types that all tables of a set may have, each with its fewest and most column ranges.

        Args:
            members: the set.
            dim: columns of all tables ``[N]``.
        """
        kinds = {kind for kind, allowed in zip(TYPES, self.types[members[0]], strict=True) if allowed}
        pieces, group = int(self.most_pieces(members, dim[members]).min()), int(self.group[members[0]])
        ranks, by_node = int(self.ranks[group].sum()), self.by_node[group]
        whole, widest = int(by_node.all(axis=1).sum()), int(by_node.sum(axis=1).max(initial=0))
        everywhere = ranks == self.ranks.shape[1]
        over_one_node = whole > 0 and (self.several_nodes or "row_wise" not in kinds)
        found: dict[ShardingType, tuple[bool, PieceRange]] = {
            "table_wise": (True, (1, 1)),
            "column_wise": (min(pieces, ranks) > 1, (2, min(pieces, ranks))),
            "row_wise": (everywhere, (1, 1)),
            "table_row_wise": (over_one_node, (1, 1)),
            "table_column_wise": (widest > 0, (1, min(pieces, widest))),
            "grid_shard": (min(pieces, whole) > 1, (2, min(pieces, whole))),
            "data_parallel": (everywhere, (1, 1)),
        }
        return {kind: count for kind, (possible, count) in found.items() if possible and kind in kinds}

    def in_words(self, table: int) -> str:
        """The constraints of a table, as a message gives them."""
        words = []
        if not self.kernels[table].all():
            words.append(f"compute_kernels {listed(np.array(KERNELS)[self.kernels[table]].tolist())}")
        if not self.types[table].all():
            words.append(f"sharding_types {listed(np.array(TYPES)[self.types[table]].tolist())}")
        if self.least_dim[table]:
            words.append(f"min_partition {self.least_dim[table]}")
        if self.group[table]:
            words.append(f"device_group {self.group_in_words(int(self.group[table]))}")
        if self.together[table] != ALONE:
            words.append(f"together with {len(self.set_of(table)) - 1} more")
        return ", ".join(words)

    def group_in_words(self, group: int) -> str:
        """The ranks of a device group."""
        return ranks_in_words(self.ranks[group])


def ranks_in_words(held: NDArray[np.bool_]) -> str:
    """The ranks for which ``held [P]`` is true."""
    ranks = np.flatnonzero(held).tolist()
    return f"{'ranks' if len(ranks) > 1 else 'rank'} {listed(list(map(str, ranks)))}"


@dataclass(frozen=True, slots=True)
class ConstraintFields:
    """Attributes of a table's ``ParameterConstraints`` that a scenario has.

    Attributes:
        sharding_types: allowed sharding types; None: all.
        compute_kernels: allowed kernels.
        min_partition: fewest columns of a column range.
        pooling_factors: mean lookups per sample of each feature.
        load_factor: share of the table's rows that its cache holds.
    """

    sharding_types: tuple[ShardingType, ...] | None
    compute_kernels: tuple[PlanKernel, ...]
    min_partition: int | None
    pooling_factors: tuple[float, ...]
    load_factor: float | None


def free_tables(count: int, world_size: int, local_world_size: int) -> TableConstraints:
    """Constraints that limit nothing, of ``count`` tables."""
    return TableConstraints(
        types=np.ones((count, len(TYPES)), dtype=np.bool_),
        kernels=np.ones((count, len(KERNELS)), dtype=np.bool_),
        least_dim=np.zeros(count, dtype=np.int64),
        group=np.zeros(count, dtype=np.int64),
        ranks=np.ones((1, world_size), dtype=np.bool_),
        together=np.full(count, ALONE, dtype=np.int64),
        local_world_size=local_world_size,
    )

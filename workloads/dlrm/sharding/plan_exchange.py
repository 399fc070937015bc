"""Plans to and from TorchRec's terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from inputs.errors import InputError, nearest_name
from inputs.keys import key_text
from simulator.program import IntArray
from workloads.dlrm.model.columns import cut_columns
from workloads.dlrm.model.storage import CACHED_KERNELS, COMPUTE_KERNELS, Storage, uniform_storage
from workloads.dlrm.model.tables import Tables, scale_rows
from workloads.dlrm.rows.blocks import row_blocks
from workloads.dlrm.sharding.plan import Plan, make_plan
from workloads.dlrm.sharding.plan_file import PlanFile, ShardingType, TablePlan, read_plan
from workloads.dlrm.sharding.shards import ColumnShards, NodeShards

MODULE = "model.sparse_arch.embedding_bag_collection"
"""Path of the tables' module in TorchRec's ``DLRMTrain`` (torchrec/models/dlrm.py)."""

_NAMED = 8
"""Ranks that a message names."""

Piece = tuple[int, int, int, int, int]
"""First row, first column, rows, columns, rank."""


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    """The plan in TorchRec's terms, as JSON-like data; `plan_from_dict` reads it.

    Like TorchRec it lists every rank of a table cut by rows, those too that get no row.
    """
    return {
        "planner": plan.planner,
        "world_size": plan.world_size,
        "local_world_size": plan.local_world_size,
        "rows_scale": plan.rows_scale,
        "plan": {MODULE: _entries(plan)},
    }


def plan_from_dict(data: Mapping[str, Any], tables: Tables, world_size: int, local_world_size: int) -> Plan:
    """Read a plan that `plan_to_dict` or TorchRec's planner wrote, or a person did; ``tables`` have all their rows.

    Raises:
        InputError: it is for other numbers of ranks, names unknown tables, does not place every table once, or cuts
            rows otherwise than TorchRec does.
    """
    file = read_plan(data)
    _check_size("world_size", file.world_size, world_size)
    _check_size("local_world_size", file.local_world_size or local_world_size, local_world_size)
    scaled = tables if file.rows_scale == 1.0 else scale_rows(tables, file.rows_scale)
    return _Reader(scaled, world_size, local_world_size).plan(file)


def _check_size(key: str, given: int, expected: int) -> None:
    if given != expected:
        raise InputError(f"the plan is for another {key}", key=key, given=given, expected=str(expected))


@dataclass(slots=True)
class _Reader:
    """Collects the entries of a file."""

    tables: Tables
    world_size: int
    local_world_size: int
    columns: list[tuple[int, int, int, int]] = field(default_factory=list)
    nodes: list[tuple[int, int, int, int]] = field(default_factory=list)
    types: dict[str, list[int]] = field(default_factory=dict)
    storage: Storage = field(init=False)

    def __post_init__(self) -> None:
        self.storage = uniform_storage(len(self.tables))

    def plan(self, file: PlanFile) -> Plan:
        """The plan; an error points at the table's entry."""
        number = {name: i for i, name in enumerate(self.tables.names)}
        keys: dict[str, str] = {}
        for module, entries in file.plan.items():
            for name, entry in entries.items():
                key = key_text(("plan", module, name))
                if name not in number:
                    near, expected = nearest_name(name, number), "a table of the model"
                    raise InputError("no such table", key=key, given=name, expected=expected, nearest=near)
                if name in keys:
                    raise InputError(
                        "the table stands in two modules", key=key, given=name, expected="an entry for each table"
                    )
                keys[name] = key
                self._read(number[name], entry, key)
        try:
            return self._made(file)
        except InputError as error:
            table = (error.key or "").removeprefix("plan.")
            if table in number and table not in keys:
                raise InputError(
                    f"the table {table} is missing", key="plan", expected="an entry for every table of the model"
                ) from None
            raise InputError(
                error.message, key=keys.get(table, "plan"), given=error.given, expected=error.expected
            ) from None

    def _made(self, file: PlanFile) -> Plan:
        return make_plan(
            self.tables,
            self.world_size,
            self.local_world_size,
            file.planner,
            columns=ColumnShards(*np.array(self.columns, dtype=np.int64).reshape(-1, 4).T),
            nodes=NodeShards(*np.array(self.nodes, dtype=np.int64).reshape(-1, 4).T),
            row_wise=self.types.get("row_wise", []),
            data_parallel=self.types.get("data_parallel", []),
            table_column_wise=self.types.get("table_column_wise", []),
            storage=self.storage,
            rows_scale=file.rows_scale,
        )

    def _read(self, table: int, entry: TablePlan, key: str) -> None:
        """Read an entry, and check that it has no other keys."""
        kind = entry.sharding_type
        self.types.setdefault(kind, []).append(table)
        if entry.compute_kernel not in (None, "dense"):
            self.storage.kernel[table] = COMPUTE_KERNELS.index(entry.compute_kernel)
        if entry.cache_params is not None and entry.cache_params.load_factor is not None:
            self.storage.load_factor[table] = entry.cache_params.load_factor
        if kind in ("table_wise", "column_wise", "table_column_wise"):
            self.columns += [(table, rank, column, dim) for column, dim, rank in self._ranges(table, entry, 1, key)]
            return
        if kind in ("table_row_wise", "grid_shard"):
            ranges = self._ranges(table, entry, self.local_world_size, key)
            found = {(column, dim, rank // self.local_world_size) for column, dim, rank in ranges}
            nodes = [(table, node, column, dim) for column, dim, node in sorted(found)]
            self.nodes += nodes
            expected = [p for piece in nodes for p in node_pieces(self.tables, piece, self.local_world_size)]
        else:
            expected = row_pieces(self.tables, table, self.world_size)
        _check_spec(entry, expected, key)

    def _ranges(self, table: int, entry: TablePlan, ranks_each: int, key: str) -> list[tuple[int, int, int]]:
        """Column ranges with the rank of each; without a spec equal ranges, each for the next ``ranks_each`` ranks."""
        rows, dim = int(self.tables.rows[table]), int(self.tables.dim[table])
        if entry.sharding_spec is None:
            ranks = np.array(entry.ranks, dtype=np.int64)
            pieces = max(1, -(-len(ranks) // ranks_each))
            _, column, width = cut_columns(np.array([table]), np.array([dim]), np.array([pieces]))
            if len(column) * ranks_each != len(ranks) or (entry.sharding_type in _WHOLE and pieces > 1):
                raise InputError(
                    f"a {entry.sharding_type} table cannot be shared by {len(ranks)} ranks",
                    key=f"{key}.ranks",
                    given=len(ranks),
                    expected=_WHOLE.get(entry.sharding_type, "as many as its columns in fours allow"),
                )
            return [(int(c), int(w), int(r)) for c, w, r in zip(column, width, ranks[::ranks_each], strict=True)]
        shards = entry.sharding_spec.shards
        if ranks_each == 1:
            wrong = [s for s in shards if (s.shard_offsets[0], s.shard_sizes[0]) != (0, rows)]
            if wrong or (entry.sharding_type in _WHOLE and len(shards) > 1):
                raise InputError(
                    f"not the shards of a {entry.sharding_type} table",
                    key=f"{key}.sharding_spec",
                    given=f"{len(shards)} shards",
                    expected=f"all {rows:,} rows in each" + (", one shard" if entry.sharding_type in _WHOLE else ""),
                )
        _check_ranks(entry, key)
        return [(s.shard_offsets[1], s.shard_sizes[1], s.rank) for s in shards]


_WHOLE = {"table_wise": "one rank", "table_row_wise": "the ranks of one node"}
"""Sharding types that keep all columns together, and their holders."""


def node_pieces(tables: Tables, shard: tuple[int, int, int, int], local_world_size: int) -> list[Piece]:
    """Row blocks of a shard (table, node, column, dim) on the ranks of its node."""
    table, node, column, dim = shard
    first = node * local_world_size
    return _blocks(int(tables.rows[table]), column, dim, np.arange(first, first + local_world_size))


def row_pieces(tables: Tables, table: int, world_size: int) -> list[Piece]:
    """Row blocks of a row_wise table on all ranks."""
    return _blocks(int(tables.rows[table]), 0, int(tables.dim[table]), np.arange(world_size))


def _blocks(rows: int, column: int, dim: int, ranks: IntArray) -> list[Piece]:
    held = row_blocks(np.array([rows]), len(ranks))[0]
    first = np.cumsum(held) - held
    return [(int(f), column, int(h), dim, int(r)) for f, h, r in zip(first, held, ranks, strict=True)]


def _check_spec(entry: TablePlan, expected: list[Piece], key: str) -> None:
    """Rows are cut as TorchRec cuts them; shards without rows need not be listed."""
    ranks = sorted({piece[-1] for piece in expected})
    if entry.ranks is not None and sorted(set(entry.ranks)) != ranks:
        raise InputError(
            f"not the ranks of a {entry.sharding_type} table",
            key=f"{key}.ranks",
            given=", ".join(map(str, entry.ranks[:_NAMED])),
            expected=f"{len(ranks)} ranks from {ranks[0]} on",
        )
    if entry.sharding_spec is None:
        return
    given = Counter((*s.shard_offsets, *s.shard_sizes, s.rank) for s in entry.sharding_spec.shards if s.shard_sizes[0])
    wanted = Counter(piece for piece in expected if piece[2])
    if given != wanted:
        shard = min((given - wanted) + (wanted - given))
        raise InputError(
            f"not the row blocks of a {entry.sharding_type} table",
            key=f"{key}.sharding_spec",
            given=f"{given.total()} shards",
            expected=f"{wanted.total()} of ceil(rows / ranks) rows each, in order of ranks; rank {shard[-1]} differs",
        )


def _check_ranks(entry: TablePlan, key: str) -> None:
    if entry.ranks is None or entry.sharding_spec is None:
        return
    placed = {shard.rank for shard in entry.sharding_spec.shards}
    if set(entry.ranks) != placed:
        raise InputError(
            "ranks and placements differ",
            key=f"{key}.ranks",
            given=", ".join(map(str, sorted(entry.ranks)[:_NAMED])),
            expected=", ".join(map(str, sorted(placed)[:_NAMED])),
        )


def _entries(plan: Plan) -> dict[str, Any]:
    named = zip(plan.tables.names, plan.sharding_types, strict=True)
    return {name: _entry(plan, table, kind) for table, (name, kind) in enumerate(named)}


def _entry(plan: Plan, table: int, kind: ShardingType) -> dict[str, Any]:
    """A table's ``ParameterSharding``."""
    if kind == "data_parallel":
        everywhere = list(range(plan.world_size))
        return {"sharding_type": kind, "compute_kernel": "dense", "ranks": everywhere, "sharding_spec": None}
    pieces = _pieces(plan, table)
    shards = [
        {
            "shard_offsets": [row, column],
            "shard_sizes": [rows, dim],
            "placement": f"rank:{rank}/cuda:{rank % plan.local_world_size}",
        }
        for row, column, rows, dim, rank in pieces
    ]
    return {
        "sharding_type": kind,
        **_kernel(plan.storage, table),
        "ranks": [piece[-1] for piece in pieces],  # TorchRec pairs them with the shards
        "sharding_spec": {"shards": shards},
    }


def _kernel(storage: Storage, table: int) -> dict[str, Any]:
    """Kernel of a table, with its cache where it has one."""
    name = storage.named(table)
    cache = {"cache_params": {"load_factor": float(storage.load_factor[table])}} if name in CACHED_KERNELS else {}
    return {"compute_kernel": name, **cache}


def _pieces(plan: Plan, table: int) -> list[Piece]:
    """Shards of a table that is not copied."""
    rows, columns, nodes = int(plan.tables.rows[table]), plan.columns, plan.nodes
    mine = np.flatnonzero(columns.table == table)
    if len(mine):
        return [(0, int(columns.column[s]), rows, int(columns.dim[s]), int(columns.rank[s])) for s in mine]
    mine = np.flatnonzero(nodes.table == table)
    if len(mine):
        shards = [(table, int(nodes.node[s]), int(nodes.column[s]), int(nodes.dim[s])) for s in mine]
        return [piece for shard in shards for piece in node_pieces(plan.tables, shard, plan.local_world_size)]
    return row_pieces(plan.tables, table, plan.world_size)

"""Embedding tables on servers: large tables cut by rows, then the largest first to the server that has least."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.dlrm.model.tables import Tables
from workloads.dlrm_ps.settings import Placement
from workloads.graph.optimizers import STATE_BYTES, TableOptimizerKind, state_elements


@dataclass(frozen=True, slots=True)
class PlacedTables:
    """Tables on servers.

    Attributes:
        tables: tables, and parts of those that were cut by rows, each like a table of its own.
        server: server of each ``[N]``.
        cut: number of tables that were cut.
    """

    tables: Tables
    server: IntArray
    cut: int

    def on_servers(self, values: FloatArray, servers: int) -> FloatArray:
        """Sum of values of tables ``[N]`` on each server ``[S]``."""
        return np.bincount(self.server, weights=values, minlength=servers).astype(np.float64)


def place_tables(tables: Tables, servers: int, by: Placement, optimizer: TableOptimizerKind) -> PlacedTables:
    """Place tables on ``servers`` servers.

    A table with more bytes than an even share of all is cut into as many equal blocks of rows as make it smaller. Each
    block gets an equal part of the lookups and returns a sum of its own. Bag lengths count as their means.
    """
    sizes = stored_bytes(tables, optimizer)
    parts = np.minimum(np.maximum(1, np.ceil(sizes * servers / sizes.sum())).astype(np.int64), servers)
    cut = _in_blocks(replace(tables, pooling=()), parts)
    amount = stored_bytes(cut, optimizer)
    if by == "lookups":
        amount = cut.lookups_per_sample * cut.dim * cut.element_bytes
    return PlacedTables(cut, _spread(amount, servers), int(np.count_nonzero(parts > 1)))


def stored_bytes(tables: Tables, optimizer: TableOptimizerKind) -> FloatArray:
    """Bytes of each table's weights and of their optimizer state ``[N]``."""
    state = state_elements(optimizer, tables.rows, tables.dim) * STATE_BYTES
    return (tables.weight_bytes + state).astype(np.float64)


def _spread(amount: FloatArray, servers: int) -> IntArray:
    """Server of each table, the largest first to the one that has least, the first of several alike."""
    filled, server = np.zeros(servers), np.zeros(len(amount), dtype=np.int64)
    for table in np.argsort(-amount, kind="stable").tolist():
        server[table] = int(filled.argmin())
        filled[server[table]] += amount[table]
    return server


def _in_blocks(tables: Tables, parts: IntArray) -> Tables:
    """The tables, each cut into ``parts`` blocks of rows ``[N]``; blocks have no law of indices."""
    if parts.max() == 1:
        return tables
    of, number = np.repeat(np.arange(len(tables)), parts), np.concatenate([np.arange(count) for count in parts])
    count = parts[of]
    names = [
        tables.names[table] if count_ == 1 else f"{tables.names[table]}[{block}]"
        for table, block, count_ in zip(of.tolist(), number.tolist(), count.tolist(), strict=True)
    ]
    laws = tuple(tables.indices[table] if parts[table] == 1 else None for table in of) if tables.indices else ()
    return Tables(
        names=tuple(names),
        rows=np.maximum(1, (tables.rows[of] + count - 1 - number) // count),
        dim=tables.dim[of],
        pooling_factor=tables.pooling_factor[of] / count,
        element_bytes=tables.element_bytes[of],
        features=tables.features[of],
        indices=laws,
    )

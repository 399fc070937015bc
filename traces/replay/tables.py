"""Which embedding tables a job holds, and over which batch: what the shapes of its lookups tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inputs.errors import InputError
from simulator.operators import Gemm, Measured
from traces.imported import Imported


@dataclass(frozen=True, slots=True)
class Tables:
    """Sharded tables of each traced rank; data-parallel ones are not counted."""

    sharded: Mapping[int, int]


def tables_of(imported: Imported) -> Tables:
    """The tables, from the shapes of the lookups.

    A lookup over B bags per table is sharded where B is the world size times a batch that GEMMs of the rank have as an
    extent, data-parallel where B itself is one.

    Raises:
        InputError: no lookup has shapes, or which batch one is over cannot be told.
    """
    if not imported.lookups:
        raise InputError(
            "the trace does not say which tables a rank has, so they cannot be dealt out again",
            file=imported.files[0],
            expected="Kineto traces with record_shapes=True and FBGEMM's lookups",
        )
    extents: dict[int, set[float]] = {}
    for program in imported.graph.programs:
        shapes = [w.shape for w in program.work if isinstance(w, Measured) and isinstance(w.shape, Gemm)]
        found = {float(extent) for s in shapes for extent in (s.m, s.n, s.k, s.count)}
        extents.update(dict.fromkeys(program.ranks.tolist(), found))
    sharded = dict.fromkeys(imported.ranks, 0)
    for lookup in imported.lookups:
        known = extents[lookup.rank]
        over_all = lookup.bags_per_table / imported.world_size in known
        if over_all == (float(lookup.bags_per_table) in known):
            raise InputError(
                f"a lookup of {lookup.tables} tables over {lookup.bags_per_table} bags each: the trace does not say "
                "whether that is the batch of the rank or of all ranks",
                file=imported.files[0],
                expected="GEMMs with the batch of the rank as an extent",
            )
        sharded[lookup.rank] += lookup.tables if over_all else 0
    return Tables(sharded)

"""Embedding tables of a job and their batch, from the shapes of its lookups and GEMMs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from inputs.errors import InputError
from simulator.operators import Gemm, Measured
from simulator.program import Program
from traces.imported import Imported, TracedLookup


def sharded_tables(imported: Imported) -> Mapping[int, int]:
    """Number of sharded tables on each traced rank; data-parallel ones are not counted.

    The batch of a rank is an extent of nearly all its GEMMs. So a lookup over B bags per table is sharded where more
    than half of the GEMMs have B / world size as an extent, data-parallel where they have B.

    Raises:
        InputError: no lookup has shapes, or the batch of a lookup is ambiguous.
    """
    if not imported.lookups:
        raise InputError(
            "the trace does not say which tables a rank has, so they cannot be dealt out again",
            file=imported.files[0],
            expected="Kineto traces with record_shapes=True and FBGEMM's lookups",
        )
    batches = _batches(imported)
    sharded = dict.fromkeys(imported.ranks, 0)
    for lookup in imported.lookups:
        sharded[lookup.rank] += lookup.tables if _over_all_ranks(lookup, batches[lookup.rank], imported) else 0
    return sharded


def local_batch(imported: Imported) -> int:
    """Samples of each rank: the number on which its lookups and its GEMMs agree.

    Raises:
        InputError: no lookup has shapes, or they do not agree.
    """
    if not imported.lookups:
        raise InputError(
            "the trace does not say its batch",
            file=imported.files[0],
            expected="Kineto traces with record_shapes=True and FBGEMM's lookups",
        )
    batches = _batches(imported)
    found = {
        lookup.bags_per_table // (imported.world_size if _over_all_ranks(lookup, batches[lookup.rank], imported) else 1)
        for lookup in imported.lookups
    }
    if len(found) > 1:
        given, expected = sorted(found), "lookups over one batch"
        raise InputError("has lookups over several batches", file=imported.files[0], given=given, expected=expected)
    return found.pop()


def _batches(imported: Imported) -> dict[int, set[float]]:
    """Extents that may be the batch, by rank."""
    return {int(rank): _usual_extents(p) for p in imported.graph.programs for rank in p.ranks}


def _usual_extents(program: Program) -> set[float]:
    """Extents that more than half of a program's GEMMs have."""
    shapes = [w.shape for w in program.work if isinstance(w, Measured) and isinstance(w.shape, Gemm)]
    found = Counter(float(extent) for s in shapes for extent in {s.m, s.n, s.k, s.count})
    return {extent for extent, count in found.items() if 2 * count > len(shapes)}


def _over_all_ranks(lookup: TracedLookup, batches: set[float], imported: Imported) -> bool:
    over_all = lookup.bags_per_table / imported.world_size in batches
    if over_all == (float(lookup.bags_per_table) in batches):
        raise InputError(
            f"a lookup of {lookup.tables} tables over {lookup.bags_per_table} bags each: the trace does not say "
            "whether that is the batch of a rank or of all ranks",
            file=imported.files[0],
            expected="GEMMs with the batch of the rank as an extent",
        )
    return over_all

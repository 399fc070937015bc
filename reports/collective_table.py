"""nccl-tests' table, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reports.collective_report import GB, US, notes_of, ranks_in_words
from simulator.network.size_table import SizeRow, SizeTable

FLOAT_BYTES = 4
"""Bytes of an element: nccl-tests counts floats by default."""
_HEAD = (
    f"# {'size':>12} {'count':>14} {'type':>7} {'redop':>7} {'root':>5} {'time':>10} {'algbw':>9} {'busbw':>9}  "
    f"{'algorithm':<18}  {'protocol':<8}  limited by\n"
    f"# {'(B)':>12} {'(elements)':>14} {'':>7} {'':>7} {'':>5} {'(us)':>10} {'(GB/s)':>9} {'(GB/s)':>9}"
)


def collective_lines(cluster: str, tables: Sequence[SizeTable]) -> Iterator[str]:
    """A table for each number of ranks, then the warnings."""
    for found in tables:
        yield f"# {found.op} on {cluster}, {ranks_in_words(found)}; an idle machine, simulated"
        yield _HEAD
        for row in found.rows:
            yield _line(found.op, row)
        yield f"# Avg bus bandwidth    : {found.average_busbw_bytes_per_s / GB:.4g}"
    for note in notes_of(tables):
        yield f"# note: {note}"


def redop(op: str) -> str:
    """The redop column of nccl-tests."""
    return "sum" if op in ("all_reduce", "reduce_scatter", "reduce") else "none"


def root(op: str) -> int:
    """The root column of nccl-tests."""
    return 0 if op in ("broadcast", "reduce", "gather", "scatter") else -1


def _line(op: str, row: SizeRow) -> str:
    what = f"{row.bytes:>12.0f} {row.bytes // FLOAT_BYTES:>14.0f} {'float':>7} {redop(op):>7} {root(op):>5}"
    rates = f"{row.time_s / US:>10.2f} {row.algbw_bytes_per_s / GB:>9.2f} {row.busbw_bytes_per_s / GB:>9.2f}"
    return f"  {what} {rates}  {row.algorithm:<18}  {row.protocol:<8}  {row.limit}"

"""nccl-tests' table, as lines of text and as its JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from reports.collective_report import GB, US, at_largest, notes_of, ranks_in_words
from reports.interval_words import widest_in_words
from reports.text_table import TextTable
from scenarios.uncertainty.interval import Interval
from simulator.network.size_table import SizeRow, SizeTable

Intervals: TypeAlias = Sequence[Sequence[Interval]]
"""Interval of each row of each table."""

FLOAT_BYTES = 4
"""Bytes of an element: nccl-tests counts floats by default."""
LINE_WIDTH = 146
"""Characters of a line of nccl-tests' table with our columns."""
_WIDTHS = (12, 14, 7, 7, 5, 10, 9, 9)
"""Characters of nccl-tests' columns."""
BLOCK_BYTES = 16
"""Size of the blocks that nccl-tests gives to ranks, bytes (nccl-tests 2.19, ``src/all_gather.cu``)."""
IN_PARTS = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
"""Operations whose size is the sum of the parts of all ranks."""
_HEAD = (
    f"# {'size':>12} {'count':>14} {'type':>7} {'redop':>7} {'root':>5} {'time':>10} {'algbw':>9} {'busbw':>9}  "
    f"{'algorithm':<18}  {'protocol':<8}  limited by  8 in 10\n"
    f"# {'(B)':>12} {'(elements)':>14} {'':>7} {'':>7} {'':>5} {'(us)':>10} {'(GB/s)':>9} {'(GB/s)':>9}  "
    f"{'':<18}  {'':<8}  {'':<10}  (us)"
)


def collective_lines(cluster: str, tables: Sequence[SizeTable], intervals: Intervals) -> Iterator[str]:
    """A table for each number of ranks, then what widens its last interval most, then the warnings."""
    for found, of_table in zip(tables, intervals, strict=True):
        yield _title(cluster, found)
        yield _HEAD
        for row, of in zip(found.rows, of_table, strict=True):
            yield _line(_cells(found, row, of))
        yield from _ends(found, of_table)
    yield from _notes(tables)


def narrow_tables(cluster: str, tables: Sequence[SizeTable], intervals: Intervals) -> Iterator[TextTable | str]:
    """The same table for a terminal that is narrower than `LINE_WIDTH`."""
    for found, of_table in zip(tables, intervals, strict=True):
        made = TextTable(title=_title(cluster, found)).numbers("size", "count").words("type", "redop")
        made.numbers("root", "time (us)", "algbw (GB/s)", "busbw (GB/s)").words("algorithm", "protocol", "limited by")
        made.words("8 in 10 (us)")
        for row, of in zip(found.rows, of_table, strict=True):
            made.add_row(*_cells(found, row, of))
        yield made
        yield from _ends(found, of_table)
    yield from _notes(tables)


def table_json(
    cluster: str, found: SizeTable, intervals: Sequence[Interval], config: Mapping[str, object]
) -> dict[str, object]:
    """A table with the keys of nccl-tests' JSON: times in us, bandwidths in GB/s; ``config``: further settings."""
    size = {"ranks": found.ranks, "nodes": found.nodes, "ranks_per_node": found.ranks_per_node}
    return {
        "config": {"cluster": cluster, "op": found.op, **size, **config},
        "results": [_result(found, row, of) for row, of in zip(found.rows, intervals, strict=True)],
        "average_bus_bandwidth": found.average_busbw_bytes_per_s / 1e9,
        "warnings": list(found.notes),
    }


def _result(found: SizeTable, row: SizeRow, of: Interval) -> dict[str, object]:
    place = {
        "time": row.time_s * 1e6,
        "alg_bw": row.algbw_bytes_per_s / 1e9,
        "bus_bw": row.busbw_bytes_per_s / 1e9,
        "nwrong": 0,
    }
    return {
        "size": int(row.bytes),
        "count": elements(found.op, found.ranks, row.bytes),
        "type": "float",
        "redop": redop(found.op),
        "root": root(found.op),
        "out_of_place": place,
        "in_place": place,
        "algorithm": row.algorithm,
        "protocol": row.protocol,
        "limit": row.limit,
        "time_p10": of.p10_s * 1e6,
        "time_p90": of.p90_s * 1e6,
        "uncertainty": of.to_dict(),
    }


def elements(op: str, ranks: int, size_bytes: float, element_bytes: int = FLOAT_BYTES) -> int:
    """The count column of nccl-tests: elements of the buffer, or of one rank's part in operations with parts.

    Parts are whole blocks of 16 bytes (nccl-tests 2.19, ``GetCollByteCount`` of each operation).
    """
    count, block = int(size_bytes) // element_bytes, BLOCK_BYTES // element_bytes
    return count // ranks // block * block if op in IN_PARTS else count


def redop(op: str) -> str:
    """The redop column of nccl-tests."""
    return "sum" if op in ("all_reduce", "reduce_scatter", "reduce") else "none"


def root(op: str) -> int:
    """The root column of nccl-tests."""
    return 0 if op in ("broadcast", "reduce", "gather", "scatter") else -1


def _title(cluster: str, found: SizeTable) -> str:
    return f"# {found.op} on {cluster}, {ranks_in_words(found)}; an idle machine, simulated"


def _ends(found: SizeTable, intervals: Sequence[Interval]) -> Iterator[str]:
    """Constants that widen the interval of the largest size, and the mean bandwidth."""
    words = widest_in_words(intervals[-1].to_dict(), at_largest(found))
    if words:
        yield f"# {words}"
    yield f"# Avg bus bandwidth    : {found.average_busbw_bytes_per_s / GB:.4g}"


def _notes(tables: Sequence[SizeTable]) -> Iterator[str]:
    return (f"# note: {note}" for note in notes_of(tables))


def _cells(found: SizeTable, row: SizeRow, of: Interval) -> tuple[str, ...]:
    """Texts of a row, in the columns' order."""
    op, count = found.op, elements(found.op, found.ranks, row.bytes)
    sizes = (f"{row.bytes:.0f}", str(count), "float", redop(op), str(root(op)))
    times = (f"{row.time_s / US:.2f}", f"{row.algbw_bytes_per_s / GB:.2f}", f"{row.busbw_bytes_per_s / GB:.2f}")
    return (*sizes, *times, row.algorithm, row.protocol, row.limit, f"{of.p10_s / US:.1f} to {of.p90_s / US:.1f}")


def _line(cells: Sequence[str]) -> str:
    numbers = " ".join(f"{cell:>{width}}" for cell, width in zip(cells, _WIDTHS, strict=False))
    algorithm, protocol, limit, span = cells[len(_WIDTHS) :]
    return f"  {numbers}  {algorithm:<18}  {protocol:<8}  {limit:<10}  {span}"

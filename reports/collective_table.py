"""nccl-tests' table, as lines of text and as its JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

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


def table_json(cluster: str, found: SizeTable, config: Mapping[str, object]) -> dict[str, object]:
    """A table with the keys of nccl-tests' JSON: times in us, bandwidths in GB/s; ``config``: further settings."""
    size = {"ranks": found.ranks, "nodes": found.nodes, "ranks_per_node": found.ranks_per_node}
    return {
        "config": {"cluster": cluster, "op": found.op, **size, **config},
        "results": [_result(found.op, row) for row in found.rows],
        "average_bus_bandwidth": found.average_busbw_bytes_per_s / 1e9,
        "warnings": list(found.notes),
    }


def _result(op: str, row: SizeRow) -> dict[str, object]:
    place = {
        "time": row.time_s * 1e6,
        "alg_bw": row.algbw_bytes_per_s / 1e9,
        "bus_bw": row.busbw_bytes_per_s / 1e9,
        "nwrong": 0,
    }
    return {
        "size": int(row.bytes),
        "count": int(row.bytes) // FLOAT_BYTES,
        "type": "float",
        "redop": redop(op),
        "root": root(op),
        "out_of_place": place,
        "in_place": place,
        "algorithm": row.algorithm,
        "protocol": row.protocol,
        "limit": row.limit,
    }


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

"""Collectives: the numbers of nccl-tests for each, with the waiting apart."""

from __future__ import annotations

from inputs.quantities import format_quantity
from reports.findings import RunTimes
from reports.markup import Cell, PageSection, TableRow, number, table
from reports.numbers import seconds
from simulator.analysis.collectives import CollectiveRow, RankSpread

_NONE = "-"
_HEAD = (
    "task", "op, algorithm", "ranks", "size", "duration", "waiting", "max wait", "transfer", "algbw", "busbw",
    "part",
)  # fmt: skip


def collectives_section(findings: RunTimes) -> PageSection:
    """A sortable table, one row per collective task."""
    rows = findings.collectives
    longest = max((row.duration_s.mean for row in rows), default=0.0)
    return PageSection(
        anchor="collectives",
        title="Collectives",
        short="Collectives",
        lede="Means over ranks. Duration runs from a rank's arrival to its end; waiting is the part before the last "
        "rank arrives, transfer the rest. algbw = size / transfer; size and busbw are defined as in nccl-tests.",
        body=table(_HEAD, (_row(row, longest) for row in rows), numbers=range(2, 10)),
    )


def _row(row: CollectiveRow, longest_s: float) -> TableRow:
    instances = f" x {row.instances}" if row.instances > 1 else ""
    share = 100 * row.duration_s.mean / longest_s if longest_s else 0.0
    return TableRow(
        (
            Cell(row.task, style="name"),
            Cell(f"{row.op}, {row.algorithm}" if row.algorithm else row.op, style="whole"),
            number(f"{row.ranks:,}{instances}", row.ranks),
            number(_size(row), row.bytes),
            number(seconds(row.duration_s.mean), row.duration_s.mean, share=share),
            _mean(row.waiting_s),
            number(seconds(row.waiting_s.max), row.waiting_s.max),
            _mean(row.transfer_s),
            _rate(row.algbw_bytes_per_s),
            _rate(row.busbw_bytes_per_s),
            row.section,
        )
    )


def _size(row: CollectiveRow) -> str:
    mean = format_quantity(row.bytes, "bytes")
    uneven = row.bytes_max > 1.005 * row.bytes
    return f"{mean} (max {format_quantity(row.bytes_max, 'bytes')})" if uneven else mean


def _mean(spread: RankSpread) -> Cell:
    return number(seconds(spread.mean), spread.mean)


def _rate(bytes_per_s: float | None) -> Cell:
    return number(_NONE if bytes_per_s is None else format_quantity(bytes_per_s, "bytes_per_s"), bytes_per_s or 0.0)

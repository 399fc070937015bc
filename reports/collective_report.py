"""The page of a collective: bus bandwidth and time over size for several numbers of ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from inputs.quantities import format_quantity
from reports.interval_words import widest_in_words
from reports.markup import Markup, PageSection, TableRow, number, strong, table, terms, tile
from reports.numbers import seconds
from reports.page import assemble
from scenarios.uncertainty.interval import Interval
from simulator.network.size_table import SizeRow, SizeTable, group_in_words

GB, US = 1e9, 1e-6


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """A measurement shown beside the prediction: bytes, seconds, bus bandwidth in B/s, and whose it is."""

    bytes: float
    time_s: float
    busbw_bytes_per_s: float
    source: str


@dataclass(frozen=True, slots=True)
class CollectiveStudy:
    """Results shown on the page.

    Attributes:
        cluster: name of the cluster.
        op: the operation.
        tables: one per number of ranks.
        intervals: p10 and p90 of each row of each table.
        measured: points of a suite on the same cluster, operation and ranks, by position of the table.
        facts: further (name, value) pairs.
        version: version of this tool.
    """

    cluster: str
    op: str
    tables: Sequence[SizeTable]
    intervals: Sequence[Sequence[Interval]]
    measured: Mapping[int, Sequence[MeasuredPoint]] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    version: str = ""


def render_collective(study: CollectiveStudy) -> str:
    """The page, self-contained and offline."""
    return assemble(
        "page.html",
        styles=("page.css",),
        scripts=("payload.js", "format.js", "theme.js", "charts.js", "tables.js", "collective.js"),
        sections=_sections(study),
        title=escape(f"{study.op} on {study.cluster}"),
        version=escape(study.version),
        headline=_headline(study).html,
        findings="".join(
            f'<p class="finding">{escape(note)}</p>' for note in (*_widest(study), *notes_of(study.tables))
        ),
        tiles="".join(_tile(table) for table in study.tables[:6]),
        facts=terms([("Cluster", study.cluster), ("Operation", study.op), *study.facts.items()]),
        footer=f"Computed by dlrmsim {escape(study.version)}.",
    )


def notes_of(tables: Sequence[SizeTable]) -> list[str]:
    """Warnings that limit the trust in the tables, each once."""
    return list(dict.fromkeys(note for table in tables for note in table.notes))


def ranks_in_words(table: SizeTable) -> str:
    """``64 ranks on 8 nodes``."""
    return group_in_words(table.ranks, table.nodes)


def at_largest(found: SizeTable) -> str:
    """``at 1 GiB``, the size of the last row."""
    return f"at {format_quantity(found.rows[-1].bytes, 'bytes', binary=True)}"


def _headline(study: CollectiveStudy) -> Markup:
    last = study.tables[-1]
    best = max(row.busbw_bytes_per_s for row in last.rows)
    return strong(
        "{} on {}: up to {} of bus bandwidth.", study.op, ranks_in_words(last), format_quantity(best, "bytes_per_s")
    )


def _widest(study: CollectiveStudy) -> list[str]:
    """Constants that widen the interval of the largest size on most ranks."""
    words = widest_in_words(study.intervals[-1][-1].to_dict(), at_largest(study.tables[-1]))
    return [words] if words else []


def _tile(found: SizeTable) -> str:
    best = max(found.rows, key=lambda row: row.busbw_bytes_per_s)
    smallest = min(found.rows, key=lambda row: row.bytes)
    note = (
        f"busbw at {format_quantity(best.bytes, 'bytes', binary=True)}; {seconds(smallest.time_s)} at the smallest size"
    )
    return tile(ranks_in_words(found), f"{best.busbw_bytes_per_s / GB:.3g}", "GB/s", note)


def _sections(study: CollectiveStudy) -> tuple[PageSection, ...]:
    charts = (
        (
            "busbw",
            "Bus bandwidth",
            "As nccl-tests defines it. Band: 8 in 10. Circles: measured, where a suite has them.",
        ),
        ("time", "Time", "Of one collective on an idle machine."),
    )
    sections = [
        PageSection(a, t, t, lede, f'<div class="card"><div class="plot" id="{a}-chart"></div></div>')
        for a, t, lede in charts
    ]
    both = list(zip(study.tables, study.intervals, strict=True))
    payload = {"collective": [_payload(t, of, study.measured.get(i, ())) for i, (t, of) in enumerate(both)]}
    head = ("ranks", "size", "time", "8 in 10", "algbw, GB/s", "busbw, GB/s", "algorithm", "protocol", "limited by")
    rows = [_row(found, row, of) for found, all_of in both for row, of in zip(found.rows, all_of, strict=True)]
    sizes = PageSection("sizes", "All sizes", "All sizes", "", table(head, rows, numbers=range(6)), payload)
    return (*sections, sizes)


def _row(found: SizeTable, row: SizeRow, of: Interval) -> TableRow:
    return TableRow(
        (
            number(f"{found.ranks:,}", found.ranks),
            number(format_quantity(row.bytes, "bytes", binary=True), row.bytes),
            number(seconds(row.time_s), row.time_s),
            number(f"{seconds(of.p10_s)} to {seconds(of.p90_s)}", of.p90_s),
            number(f"{row.algbw_bytes_per_s / GB:.3g}", row.algbw_bytes_per_s),
            number(f"{row.busbw_bytes_per_s / GB:.3g}", row.busbw_bytes_per_s),
            row.algorithm,
            row.protocol,
            row.limit,
        )
    )


def _payload(found: SizeTable, intervals: Sequence[Interval], measured: Sequence[MeasuredPoint]) -> dict[str, Any]:
    return {
        "label": f"{found.ranks:,} {'rank' if found.ranks == 1 else 'ranks'}",
        "rows": [
            {
                "bytes": row.bytes,
                "time": row.time_s / US,
                "time_low": of.p10_s / US,
                "time_high": of.p90_s / US,
                "busbw": row.busbw_bytes_per_s / GB,
                "busbw_low": row.busbw_bytes_per_s / GB * row.time_s / of.p90_s if of.p90_s else 0.0,
                "busbw_high": row.busbw_bytes_per_s / GB * row.time_s / of.p10_s if of.p10_s else 0.0,
                "how": f"{row.algorithm}, {row.protocol}, limited by {row.limit}",
            }
            for row, of in zip(found.rows, intervals, strict=True)
        ],
        "measured": [
            {"bytes": p.bytes, "time": p.time_s / US, "busbw": p.busbw_bytes_per_s / GB, "source": p.source}
            for p in measured
        ],
    }

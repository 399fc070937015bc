"""Sections of a measured trace: its steps rank by rank, ranks that delay others, kernels, and gaps of the trace."""

from __future__ import annotations

from html import escape

from reports.markup import Cell, PageSection, TableRow, number, table
from reports.numbers import percent, seconds
from reports.trace_findings import TraceFindings
from simulator.analysis.steps import StepRow
from simulator.analysis.stragglers import Straggler

SHOWN = 500
"""Rows of a table at most; summary.json has them all."""


def steps_section(findings: TraceFindings) -> PageSection:
    """A row per rank and step: the four parts, and idle time by cause."""
    head = (
        "rank", "step", "length", "compute", "exposed comm", "of it waiting", "exposed copy", "idle", "idle: host",
        "idle: kernel wait", "idle: other stream",
    )  # fmt: skip
    rows = findings.steps[:SHOWN]
    more = f" The first {SHOWN} of {len(findings.steps):,} rows." if len(findings.steps) > SHOWN else ""
    return PageSection(
        anchor="steps",
        title="Steps",
        short="Steps",
        lede="Every rank's own step, as its profiler marked it. Idle: the host had not launched the next task; kernel "
        "wait: launched, its inputs there, not started; other stream: the next task waited for another stream. "
        f"Waiting: in a collective before the last rank has arrived.{more}",
        body=table(head, (_step(row) for row in rows), numbers=(0, *range(2, 11))),
    )


def _step(row: StepRow) -> TableRow:
    whole = max(row.step_s, 1e-12)
    parts = (
        row.compute_s, row.exposed_comm_s, row.exposed_waiting_s, row.exposed_copy_s, row.idle_s, row.idle_host_s,
        row.idle_kernel_wait_s, row.idle_dependency_s,
    )  # fmt: skip
    cells = tuple(number(percent(part / whole), part, share=100 * part / whole) for part in parts)
    return TableRow((number(str(row.rank), row.rank), row.step, number(seconds(row.step_s), row.step_s), *cells))


def stragglers_section(findings: TraceFindings) -> PageSection:
    """Ranks that arrive last in collectives."""
    head = ("rank", "collectives", "arrived last", "held others up", "waited itself")
    return PageSection(
        anchor="stragglers",
        title="Stragglers",
        short="Stragglers",
        lede="Stragglers: rank-seconds others waited in collectives in which this rank arrived last.",
        body=table(head, (_straggler(row) for row in findings.stragglers[:SHOWN]), numbers=range(5)),
    )


def _straggler(row: Straggler) -> TableRow:
    return TableRow(
        (
            number(str(row.rank), row.rank),
            number(f"{row.collectives:,}", row.collectives),
            number(f"{row.last:,}", row.last),
            number(seconds(row.held_up_s), row.held_up_s),
            number(seconds(row.waited_s), row.waited_s),
        )
    )


def operators_section(findings: TraceFindings) -> PageSection:
    """Device work by name."""
    total = sum(row.total_s for row in findings.operators) or 1.0
    rows = (
        TableRow(
            (
                Cell(row.name, style="name"),
                str(row.category),
                number(f"{row.count:,}", row.count),
                number(seconds(row.total_s), row.total_s, share=100 * row.total_s / total),
                number(seconds(row.total_s / row.count), row.total_s / row.count),
            )
        )
        for row in findings.operators[:SHOWN]
    )
    return PageSection(
        anchor="kernels",
        title="Kernels and copies",
        short="Kernels",
        lede="Device work by name, over all ranks and steps. Collectives include waiting.",
        body=table(("name", "category", "count", "total", "mean"), rows, numbers=(2, 3, 4)),
    )


def gaps_section(findings: TraceFindings) -> PageSection:
    """Gaps of the traces."""
    items = "".join(f"<li>{escape(gap)}</li>" for gap in findings.warnings)
    body = f'<ul class="warnings">{items}</ul>' if items else '<p class="none">Nothing is missing.</p>'
    return PageSection(
        anchor="gaps",
        title="Gaps of the traces",
        short="Gaps",
        lede="Gaps of the import: a replay of this trace is only as good as these allow.",
        body=body,
    )

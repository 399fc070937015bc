"""The critical path: by category, by section, and its longest segments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reports.findings import RunTimes
from reports.markup import Cell, PageSection, TableRow, number, table
from reports.numbers import PS_PER_NS, percent, picoseconds, rounded_ns
from simulator.analysis.critical_path import CriticalPath, Segment

SEGMENTS_SHOWN = 40
"""Longest segments in the table; the chart has all of them."""

_CATEGORY_COLORS = {
    "compute": "compute", "comm": "exposed-comm", "copy": "exposed-copy", "host": "host", "input": "host",
    "idle": "idle",
}  # fmt: skip
_OPERATOR_COLORS = {
    "Gemm": "gemm", "Attention": "attention",
    "EmbeddingLookup": "embedding", "EmbeddingUpdate": "embedding", "CacheFill": "embedding",
    "Interaction": "interaction", "Elementwise": "elementwise", "DenseOptimizer": "optimizer",
    "Copy": "copy", "SsdRead": "copy", "HostWork": "host", "Marker": "host",
    "all_to_all": "all-to-all", "all_reduce": "all-reduce", "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter", "send": "send", "sendrecv": "send",
}  # fmt: skip

_CHARTS = {
    "By category": "path-categories",
    "By operator": "path-operators",
    "By part of the iteration": "path-sections",
}


def critical_path_section(findings: RunTimes) -> PageSection:
    """Two charts of shares and the table of the longest segments."""
    path = findings.critical_path
    rows = sorted(path.segments, key=lambda s: (-s.length_ps, s.start_ps))[:SEGMENTS_SHOWN]
    covered = sum(s.length_ps for s in rows) / max(path.window.length_ps, 1)
    heading = f"<h3>The {len(rows)} longest of {len(path.segments):,} segments ({percent(covered)} of the path)</h3>"
    charts = "".join(_card(title, anchor) for title, anchor in _CHARTS.items())
    return PageSection(
        anchor="critical-path",
        title="Critical path",
        short="Critical path",
        lede="The chain of tasks that ends last, followed back through the input each task waited for longest. "
        "Shortening anything else changes nothing. Click a segment to see it in the timeline.",
        body=f'<div class="cards">{charts}</div>{heading}' + _table(path, rows),
        payload={
            "path": {
                "categories": _shares(_longest_first(path.by_category_ps()), _CATEGORY_COLORS),
                "operators": _shares(path.by_operator_ps(), _OPERATOR_COLORS),
                "sections": _shares(path.by_section_ps(), {}),
            }
        },
    )


def _longest_first(parts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(parts.items(), key=lambda part: -part[1]))


def _card(title: str, anchor: str) -> str:
    return f'<div class="card"><h3>{title}</h3><div class="plot" id="{anchor}"></div></div>'


def _shares(parts: Mapping[str, int], colors: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {"name": name, "ns": length / PS_PER_NS, "color": colors.get(name, "accent")}
        for name, length in parts.items()
        if length > 0
    ]


def _table(path: CriticalPath, segments: list[Segment]) -> str:
    head = ("start", "length", "of the path", "rank", "task", "category", "part", "input waited for")
    return table(head, (_row(path, s) for s in segments), numbers=range(4))


def _row(path: CriticalPath, segment: Segment) -> TableRow:
    start = segment.start_ps - path.window.start_ps
    share = segment.length_ps / max(path.window.length_ps, 1)
    return TableRow(
        (
            number(picoseconds(start), start),
            number(picoseconds(segment.length_ps), segment.length_ps),
            number(percent(share), share, share=100 * share),
            number(str(segment.rank), segment.rank),
            Cell(segment.task, style="name"),
            segment.category,
            segment.section,
            segment.why,
        ),
        jump=(segment.rank, rounded_ns(start), rounded_ns(segment.end_ps - path.window.start_ps)),
    )

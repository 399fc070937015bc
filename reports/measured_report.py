"""The page of measurements and their predictions: errors, and both timelines above each other on one axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Protocol

from reports.markup import Cell, PageSection, TableRow, number, strong, table
from reports.numbers import percent, seconds
from reports.page import assemble

WIDTH, LANE, GAP, LEFT, RIGHT, AXIS = 1000, 16, 6, 220, 40, 20
"""Sizes of a drawing in its own units: the time axis, a lane, the space between lanes, names of lanes, right, times."""
TICKS = 8
"""Maximum number of ticks on the time axis."""
COLOURS = {
    "embedding_forward": "var(--embedding)",
    "embedding_update": "var(--optimizer)",
    "gemm": "var(--gemm)",
    "collectives": "var(--all-to-all)",
    "rest": "var(--host)",
}
"""Colours of the page (``page.css``), by class."""
WORDS = {
    "iteration": "iteration",
    "embedding_forward": "embedding forward",
    "embedding_update": "embedding update",
    "gemm": "GEMM",
    "collectives": "collectives issued and waited for",
    "rest": "rest",
}


class TimelineBar(Protocol):
    """Something on a timeline, in seconds from the begin of the iteration."""

    @property
    def lane(self) -> str:
        """``host`` or ``collectives``."""
        ...

    @property
    def begin_s(self) -> float:
        """Its begin."""
        ...

    @property
    def end_s(self) -> float:
        """Its end."""
        ...

    @property
    def kind(self) -> str:
        """A key of `COLOURS`."""
        ...

    @property
    def name(self) -> str:
        """Name of the operator or collective."""
        ...


Bars = Sequence[Sequence[TimelineBar]]


def render_measured(
    runs: Sequence[tuple[Mapping[str, Any], Bars, Bars]], statistics: Mapping[str, Mapping[str, Any]], version: str
) -> str:
    """The page; the same measurements give the same text.

    Args:
        runs: for each measurement its entry of ``measured`` and the bars of every rank, measured and predicted.
        statistics: statistics of errors, by metric.
        version: version of this tool.
    """
    iteration = statistics["iteration"]
    return assemble(
        "page.html",
        styles=("page.css",),
        scripts=("payload.js", "theme.js", "tables.js", "plain.js"),
        sections=(_statistics(statistics), *(_run(i, *run) for i, run in enumerate(runs))),
        title="Measured and predicted",
        version=escape(version),
        headline=strong("Mean absolute error of the iteration: {}.", _pct(iteration["mape_pct"])).html,
        findings="",
        tiles="",
        facts="",
        footer=f"Measured and predicted by dlrmsim {escape(version)}.",
    )


def _statistics(statistics: Mapping[str, Mapping[str, Any]]) -> PageSection:
    keys = ("mape_pct", "median_pct", "geomean_pct", "bias_pct", "worst_pct", "noise_pct")
    rows = [
        TableRow(
            (WORDS.get(name, name), number(str(found["runs"]), found["runs"]), *(_cell(found[key]) for key in keys))
        )
        for name, found in statistics.items()
    ]
    head = ["class", "runs", "mean |error|", "median", "geometric", "bias", "worst", "noise"]
    return PageSection(
        anchor="errors",
        title="Errors",
        short="Errors",
        lede="Over all measurements in which the class is at least 5 % of the iteration; noise is half the "
        "interquartile range of the measurements.",
        body=table(head, rows, numbers=range(1, len(head))),
    )


def _cell(value: float | None) -> Cell:
    return Cell("-", style="number") if value is None else number(_pct(value), value)


def _pct(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} %"


def _run(place: int, run: Mapping[str, Any], measured: Bars, predicted: Bars) -> PageSection:
    rows = [
        TableRow(
            (
                WORDS.get(case["metric"], case["metric"]),
                number(seconds(case["measured"]), case["measured"]),
                number(seconds(case["predicted"]), case["predicted"]),
                _cell(case["error_pct"]),
                _cell(case["noise_pct"]),
                number(percent(case["share"]), case["share"]),
            )
        )
        for case in run["cases"]
    ]
    head = ["class", "measured", "predicted", "error", "noise", "of the iteration"]
    return PageSection(
        anchor=f"run-{place}",
        title=f"{run['scenario']} on {run['world_size']} ranks",
        short=f"{run['scenario']}, {run['world_size']}",
        lede="One traced iteration, under it the predicted one, on one axis. Gaps between bars of "
        "the host are the rest.",
        body=table(head, rows, numbers=range(1, len(head))) + _drawing(measured, predicted) + _legend(),
    )


def _drawing(measured: Bars, predicted: Bars) -> str:
    """Lanes of every rank: measured and predicted host, measured and predicted collectives."""
    whole = [bar.end_s for side in (measured, predicted) for rank in side for bar in rank]
    scale = WIDTH / max(whole, default=1.0)
    lanes = [
        (f"rank {rank} {lane}, {side}", [bar for bar in bars[rank] if bar.lane == lane])
        for rank in range(len(measured))
        for lane in ("host", "collectives")
        for side, bars in (("measured", measured), ("predicted", predicted))
    ]
    height = len(lanes) * (LANE + GAP) + GAP
    drawn = "".join(_lane(place, name, bars, scale) for place, (name, bars) in enumerate(lanes))
    axis = _axis(max(whole, default=1.0), height, scale)
    box = f"0 0 {LEFT + WIDTH + RIGHT} {height + AXIS}"
    return f'<svg viewBox="{box}" role="img" aria-label="timelines" style="width:100%">{axis}{drawn}</svg>'


def _axis(length_s: float, height: int, scale: float) -> str:
    """Grid lines and tick labels at round times."""
    rough_s = length_s / TICKS
    power = 10.0 ** math.floor(math.log10(rough_s))
    step_s = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= rough_s)
    marks = []
    for place in range(int(length_s / step_s) + 1):
        x, words = LEFT + place * step_s * scale, seconds(place * step_s)
        line = f'<line x1="{x:.2f}" x2="{x:.2f}" y1="0" y2="{height}" stroke="var(--rule-strong)" />'
        text = f'<text x="{x:.2f}" y="{height + AXIS - 4}" font-size="12" text-anchor="middle" fill="currentColor">'
        marks.append(f"{line}{text}{escape(words)}</text>")
    return "".join(marks)


def _lane(place: int, name: str, bars: Sequence[TimelineBar], scale: float) -> str:
    top = GAP + place * (LANE + GAP)
    words = f'<text x="0" y="{top + LANE - 4}" font-size="12" fill="currentColor">{escape(name)}</text>'
    return words + "".join(
        f'<rect x="{LEFT + bar.begin_s * scale:.2f}" y="{top}" '
        f'width="{max((bar.end_s - bar.begin_s) * scale, 0.3):.2f}" height="{LANE}" fill="{COLOURS[bar.kind]}">'
        f"<title>{escape(bar.name)}: {seconds(bar.end_s - bar.begin_s)}, from {seconds(bar.begin_s)}</title></rect>"
        for bar in bars
    )


def _legend() -> str:
    marks = (
        '<span style="margin-right:1em"><i style="display:inline-block;width:.8em;height:.8em;'
        f'background:{colour}"></i> {escape(WORDS[kind])}</span>'
        for kind, colour in COLOURS.items()
    )
    return f'<p class="note">{"".join(marks)}</p>'

"""The page of suites: predictions against published measurements, case by case."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from reports.markup import Cell, PageSection, TableRow, number, strong, table, tile
from reports.numbers import counted
from reports.page import assemble
from reports.tables import error_in_words, metric_in_words, validation_report, value_in_words
from reports.text_table import TextTable


def render_suites(suites: Sequence[Mapping[str, Any]], version: str) -> str:
    """The page, self-contained and offline; the same results give the same text.

    Args:
        suites: entries of ``suites`` as ``validate --json`` prints them.
        version: version of this tool.
    """
    names = ", ".join(suite["suite"] for suite in suites)
    return assemble(
        "page.html",
        styles=("page.css",),
        scripts=("payload.js", "format.js", "theme.js", "charts.js", "tables.js", "suites.js"),
        sections=tuple(_section(suite) for suite in suites),
        title=escape(f"Predicted against measured: {names}"),
        version=escape(version),
        headline=" ".join(escape(f"{suite['suite']}: ") + strong("{}", _claim(suite)).html for suite in suites),
        findings="",
        tiles="".join(_tile(suite) for suite in suites),
        facts="",
        footer=f"Predicted by dlrmsim {escape(version)}.",
    )


def _claim(suite: Mapping[str, Any]) -> str:
    if suite["mape_pct"] is None:
        bands = suite["bands"]
        return (
            f"{bands['hits']} of {counted(bands['cases'], 'bands')} hit."
            if bands["cases"]
            else "no case whose source was read."
        )
    claim = f"mean absolute error {suite['mape_pct']:.1f} %, worst {suite['worst_pct']:+.1f} %"
    if of := suite.get("by_configuration"):
        errors = f"mean absolute error {of['mape_pct']:.1f} %, bias {of['bias_pct']:+.1f} %"
        claim = f"{errors} over {counted(of['configurations'], 'configurations')}; by row {claim}"
    groups = suite.get("coverage", ())
    known = sum(group["cases"] for group in groups)
    inside = sum(group["cases"] * group["inside_pct"] for group in groups)
    return f"{claim}; {inside / known:.0f} % of {known} inside their interval." if known else f"{claim}."


def _tile(suite: Mapping[str, Any]) -> str:
    cases = suite["cases"]
    recalled = sum(case["grade"] == "memory" for case in cases)
    fitted = sum(case["role"] == "calibration" and case["grade"] != "memory" for case in cases)
    excluded = counted(len(suite["excluded"]), "rows")
    note = f"case{'s' * (len(cases) != 1)}; {fitted} fitted on, {recalled} recalled; {excluded} of sources excluded"
    return tile(suite["suite"], f"{len(cases)}", "", note)


def _section(suite: Mapping[str, Any]) -> PageSection:
    """Charts by metric, then the tables that the command prints."""
    name = suite["suite"]
    groups = {re.sub(r"[. ]", "-", f"{name}-{metric}"): cases for metric, cases in _by_metric(suite).items()}
    cards = "".join(f'<div class="card"><div class="plot" id="{escape(anchor)}"></div></div>' for anchor in groups)
    parts = validation_report(suite)
    body = cards + "".join(_text(part) if isinstance(part, str) else _table(part) for part in parts)
    lede = "On the line: as measured; dotted: 10 % off. Level bars: the source gives a range; upright ones: p10 to p90."
    return PageSection(name, name, name, lede, body, {anchor: _chart(cases) for anchor, cases in groups.items()})


def _by_metric(suite: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """Cases with a prediction, by the name of their quantity, in the order of the suite."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for case in suite["cases"]:
        if case["predicted"]:
            found.setdefault(metric_in_words(case), []).append(case)
    return found


def _chart(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    metric, unit = metric_in_words(cases[0]), cases[0].get("unit", "1")
    label = metric if unit in ("1", "") else f"{metric} ({unit})"
    return {"label": label, "points": [_point(case) for case in cases]}


def _point(case: Mapping[str, Any]) -> dict[str, Any]:
    """A measurement (a band: its middle, with bars), its prediction, and a text of both."""
    measured, band = case["measured"], isinstance(case["measured"], Mapping)
    low, high = (measured["low"], measured["high"]) if band else (measured, measured)
    middle = (low + high) / 2
    verdict = error_in_words(case["error_pct"]) if "hit" not in case else ("hit" if case["hit"] else "missed")
    return {
        "id": f"{case['id']}: {case['title']}" if case.get("title") else case["id"],
        "role": "memory" if case["grade"] == "memory" else case["role"],
        "measured": middle,
        "above": high - middle,
        "below": middle - low,
        "predicted": case["predicted"],
        "p10": case.get("p10"),
        "p90": case.get("p90"),
        "said": [value_in_words(measured), value_in_words(case["predicted"]), verdict],
    }


def _text(part: str) -> str:
    return "".join(f'<p class="note">{escape(line)}</p>' for line in part.split("\n") if line)


def _table(made: TextTable) -> str:
    numbers = [place for place, column in enumerate(made.columns) if not column.words]
    rows = (TableRow(tuple(_cells(cells, numbers))) for cells, _ in made.rows)
    return f"<h3>{escape(made.title)}</h3>" + table([c.name for c in made.columns], rows, numbers=numbers)


def _cells(cells: Sequence[str], numbers: Sequence[int]) -> Iterator[Cell]:
    for place, cell in enumerate(cells):
        value = _leading_number(cell) if place in numbers else None
        yield Cell(cell, style="number" if place in numbers else "") if value is None else number(cell, value)


def _leading_number(text: str) -> float | None:
    try:
        return float(text.split(" ", maxsplit=1)[0].replace(",", ""))
    except ValueError:
        return None

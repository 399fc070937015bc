"""The section of the interval: constants that widen it, with their part of the variance and how each is measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reports.interval_words import given_in_words, time_span
from reports.markup import Cell, PageSection, TableRow, number, table
from reports.numbers import percent, seconds

SHOWN = 12
"""Constants of the table: the others widen the interval by less than these."""

HEAD = ("constant", "class", "grade", "may be off by", "share of the spread", "why", "how to measure it")


def uncertainty_section(time_s: float, low_s: float, high_s: float, uncertainty: Mapping[str, Any]) -> PageSection:
    """The section of a time and its interval.

    Args:
        uncertainty: block of that name in ``summary.json``.
    """
    lede = (
        f"{seconds(time_s)} predicted, {time_span(low_s, high_s)}. Each constant may be off by as much as its grade, "
        "its fit and its distance from what was measured say; the classes that bound the iteration pass that on. "
        f"{given_in_words(uncertainty)}"
    )
    rows = [_row(source) for source in uncertainty["sources"][:SHOWN]]
    body = table(HEAD, rows, numbers=(3, 4)) if rows else "<p>No constant of this run is uncertain.</p>"
    return PageSection("uncertainty", "How sure it is", "Interval", lede.strip(), body)


def _row(source: Mapping[str, Any]) -> TableRow:
    of_class = "all of it" if source["class"] == "whole" else source["class"]
    return TableRow(
        (
            Cell(source["key"], style="key"),
            of_class,
            source["grade"],
            number(f"\N{PLUS-MINUS SIGN}{percent(source['sigma'])}", source["sigma"]),
            number(percent(source["share"]), source["share"], share=100.0 * source["share"]),
            Cell(source["reason"], style="prose"),
            Cell(source["measure"], style="prose"),
        )
    )

"""Intervals of predictions in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from reports.numbers import percent, rate_in_words, seconds


def time_span(low_s: float, high_s: float) -> str:
    """``8 in 10 between 46.9 and 75.0 ms``."""
    return span_in_words(seconds(low_s).split(" "), seconds(high_s).split(" "))


def rate_span(low: float, high: float, unit: str = "samples") -> str:
    """``8 in 10 between 0.87 and 1.40 M samples/s``."""
    return span_in_words(rate_in_words(low, unit), rate_in_words(high, unit))


def span_in_words(low: Iterable[str], high: Iterable[str]) -> str:
    """Two numbers with their units; a unit that both have stands once."""
    (one, unit), (other, last) = low, high
    first = one if unit == last else f"{one} {unit}"
    return f"8 in 10 between {first} and {other} {last}"


def widest_in_words(uncertainty: Mapping[str, Any], where: str = "") -> str:
    """The measurable constants that widen an interval most, with their parts of the variance; empty without any.

    Args:
        uncertainty: block of that name in ``summary.json``.
        where: the prediction, where there are several, such as ``at 1 GiB``.
    """
    sources = [source for source in uncertainty["sources"] if source["key"] in uncertainty["widest"]]
    named = [
        f"{percent(of['share'])} {'' if i else 'comes '}from {of['key']} (measure it: {of['measure']})"
        for i, of in enumerate(sources)
    ]
    whole = f"Of the spread {where}".rstrip()
    return f"{whole}, {' and '.join(named)}." if named else ""


def given_in_words(uncertainty: Mapping[str, Any]) -> str:
    """Values of the user, whose uncertainty is not known; empty without any."""
    given = uncertainty["given"]
    return f"Given without a source, so that the interval counts them as exact: {', '.join(given)}." if given else ""

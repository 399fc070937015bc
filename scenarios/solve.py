"""The value of a scenario's key that gives a measured throughput."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from inputs.errors import InputError
from inputs.quantities import exact_text, format_quantity, parse_quantity
from inputs.units import DIMENSIONS, read_number, split_quantity
from scenarios.engine_run import iteration_s
from scenarios.family import family_of
from scenarios.located import located
from scenarios.machine import machine_of
from scenarios.prepare import place
from scenarios.progress import Progress, Silent
from scenarios.resolve import load_scenario
from simulator.analysis import rate_key

HALVINGS = 20
"""Halvings of the range at most: a millionth of it."""

CLOSE = 1e-4
"""Part of the throughput within which the search ends; iterations are settled to 0.1 %."""

WHOLE_HALVINGS = 63
"""Halvings of a range of whole numbers at most: until two neighbours are left."""

EXPECTED = "LOW,HIGH, e.g. 0,1 or 50 GB/s,400 GB/s"


@dataclass(frozen=True, slots=True)
class SearchRange:
    """Range of the search.

    Attributes:
        low: the lowest, in the SI unit.
        high: the highest, in the SI unit.
        dimension: a key of `inputs.units.DIMENSIONS`; None: plain numbers.
        whole: only whole numbers are tried.
    """

    low: float
    high: float
    dimension: str | None = None
    whole: bool = False

    @property
    def unit(self) -> str | None:
        """SI unit of the values; None for plain numbers."""
        return DIMENSIONS[self.dimension].base or None if self.dimension else None

    def setting(self, value: float) -> str:
        """A value as ``--set KEY=VALUE`` takes it."""
        if self.whole:
            return str(round(value))
        return str(exact_text(value, self.dimension)) if self.dimension else repr(value)

    def in_words(self, value: float) -> str:
        """A value with a readable unit."""
        return format_quantity(value, self.dimension) if self.unit and self.dimension else f"{value:.6g}"


@dataclass(frozen=True, slots=True)
class Solution:
    """Result of the search.

    Attributes:
        scenario: its name.
        key: the key whose value was looked for.
        wanted: samples per second.
        unit: unit of throughput, a plural noun.
        values: the range, with its unit.
        low: the lower end of the range, and the throughput there.
        high: the upper end, likewise.
        found: the value and its throughput (of whole numbers the one with the closest throughput); None if the
            throughput is not between the throughputs of the ends.
    """

    scenario: str
    key: str
    wanted: float
    unit: str
    values: SearchRange
    low: tuple[float, float]
    high: tuple[float, float]
    found: tuple[float, float] | None

    def to_dict(self) -> dict[str, Any]:
        """Result as JSON; values in the SI unit ``unit``, None for plain numbers."""
        names = ("value", rate_key(self.unit))
        points = {"low": self.low, "high": self.high, "found": self.found}
        ends = {name: None if point is None else dict(zip(names, point, strict=True)) for name, point in points.items()}
        asked = {"scenario": self.scenario, "key": self.key, "unit": self.values.unit}
        return {**asked, f"wanted_{self.unit}_per_s": self.wanted, **ends}

    def nothing_found(self) -> str:
        """Sentence for a throughput that no value gives: the ends of the range and the throughputs there."""
        (low, slow), (high, fast) = self.low, self.high
        first, last = self.values.in_words(low), self.values.in_words(high)
        return (
            f"{self.scenario}: no {self.key} from {first} to {last} gives {self.wanted:,.0f} {self.unit}/s; "
            f"{first} gives {slow:,.0f} and {last} gives {fast:,.0f}"
        )


def solve(
    scenario: str | Path,
    key: str,
    between: SearchRange,
    wanted: float,
    settings: Sequence[str],
    progress: Progress,
) -> Solution:
    """Halve a range of values until the throughput is the wanted one, which must rise or fall all over the range.

    Args:
        scenario: name or path.
        key: key of a number in it.
        between: its lowest and highest value; of a key that takes whole numbers only these are tried.
        wanted: samples per second.
        settings: further ``KEY=VALUE``.
        progress: shows every try.

    Raises:
        InputError: the range is empty, or the scenario is wrong at one of its values.
        InfeasibleError: the job does not fit at one of them.
    """
    if not between.low < between.high:
        given = f"{between.in_words(between.low)},{between.in_words(between.high)}"
        raise InputError("an empty range", key="--between", given=given, expected="LOW,HIGH with LOW below HIGH")
    values = _whole_where_needed(scenario, key, between, settings)
    most = WHOLE_HALVINGS if values.whole else HALVINGS
    tries = 0

    def at(value: float) -> tuple[float, float]:
        nonlocal tries
        tries += 1
        progress.stage(f"trying {key}={values.in_words(value)}", tries, HALVINGS + 2)
        return value, _throughput(scenario, (*settings, f"{key}={values.setting(value)}"))

    low, high = at(values.low), at(values.high)
    ends = (low, high)
    found = None
    if min(low[1], high[1]) <= wanted <= max(low[1], high[1]):
        found = min(ends, key=lambda point: abs(point[1] / wanted - 1.0))
        for _ in range(most):
            if abs(found[1] / wanted - 1.0) < CLOSE or (values.whole and high[0] - low[0] <= 1):
                break
            middle = (low[0] + high[0]) / 2
            tried = at(middle // 1 if values.whole else middle)
            low, high = (tried, high) if (tried[1] < wanted) == (low[1] < high[1]) else (low, tried)
            found = min((tried, found), key=lambda point: abs(point[1] / wanted - 1.0))
    base = load_scenario(scenario, settings)
    return Solution(base.name, key, wanted, family_of(base).unit, values, *ends, found)


def parse_range(text: str) -> SearchRange:
    """``LOW,HIGH`` as numbers, or as quantities with units of the same kind.

    Raises:
        InputError: it is something else.
    """
    ends = [part.strip() for part in text.split(",")]
    parts = [split_quantity(part) for part in ends]
    if len(ends) != 2 or any(number is None for number, _ in parts):
        raise InputError("not a range", key="--between", given=text, expected=EXPECTED)
    units = {unit for _, unit in parts}
    if units == {""}:
        low, high = (read_number(number or "") for number, _ in parts)
        return SearchRange(low, high)
    dimension = next((name for name, kind in DIMENSIONS.items() if units <= kind.units.keys()), None)
    if dimension is None:
        raise InputError("not two values with units of one kind", key="--between", given=text, expected=EXPECTED)
    low, high = (parse_quantity(end, dimension) for end in ends)
    return SearchRange(low, high, dimension)


def _whole_where_needed(scenario: str | Path, key: str, between: SearchRange, settings: Sequence[str]) -> SearchRange:
    """The range, of whole numbers where the key takes only these: its ends are taken, a value between them is not.

    Raises:
        InputError: the scenario is wrong with the lowest value.
    """
    if between.unit or not (between.low.is_integer() and between.high.is_integer()):
        return between
    whole = replace(between, whole=True)
    load_scenario(scenario, (*settings, f"{key}={whole.setting(whole.low)}"))
    try:
        load_scenario(scenario, (*settings, f"{key}={between.setting(between.low + 0.5)}"))
    except InputError:
        return whole
    return between


def _throughput(scenario: str | Path, settings: Sequence[str]) -> float:
    """Throughput of a scenario, in the unit of its family per second."""
    resolved = load_scenario(scenario, settings)
    with located(resolved.document):
        machine = machine_of(resolved)
        job, _ = place(resolved, machine, Silent())
        return job.workload.headline.per_iteration / iteration_s(resolved, job.workload, machine)

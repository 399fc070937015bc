"""The value of a scenario's key that gives a measured throughput."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inputs.errors import InputError
from scenarios.located import located
from scenarios.plans import PlanningJob, plan_of
from scenarios.progress import Progress
from scenarios.resolve import load_scenario

HALVINGS = 20
"""Halvings of the range at most: a millionth of it."""

CLOSE = 1e-4
"""Part of the throughput within which the search ends; iterations are settled to 0.1 %."""


@dataclass(frozen=True, slots=True)
class Solution:
    """Result of the search.

    Attributes:
        scenario: its name.
        key: the key whose value was looked for.
        wanted: samples per second.
        low: the lower end of the range, and the throughput there.
        high: the upper end, likewise.
        found: the value, and the throughput there; None where the throughput is outside the range between the ends.
    """

    scenario: str
    key: str
    wanted: float
    low: tuple[float, float]
    high: tuple[float, float]
    found: tuple[float, float] | None

    def to_dict(self) -> dict[str, Any]:
        """Result as JSON."""
        names = ("value", "throughput_samples_per_s")
        points = {"low": self.low, "high": self.high, "found": self.found}
        ends = {name: None if point is None else dict(zip(names, point, strict=True)) for name, point in points.items()}
        return {"scenario": self.scenario, "key": self.key, "wanted_samples_per_s": self.wanted, **ends}


def solve(
    scenario: str | Path,
    key: str,
    between: tuple[float, float],
    wanted: float,
    settings: Sequence[str],
    progress: Progress,
) -> Solution:
    """Halve a range of values until the throughput is the wanted one, which must rise or fall all over the range.

    Args:
        scenario: name or path.
        key: key of a number in it.
        between: its lowest and highest value.
        wanted: samples per second.
        settings: further ``KEY=VALUE``.
        progress: shows every try.

    Raises:
        InputError: the range is empty, or the scenario is wrong at one of its values.
        InfeasibleError: the job does not fit at one of them.
    """
    if not between[0] < between[1]:
        raise InputError("an empty range", key="--between", given=between, expected="LOW,HIGH with LOW below HIGH")
    tries = 0

    def at(value: float) -> tuple[float, float]:
        nonlocal tries
        tries += 1
        progress.stage(f"trying {key}={value:g}", tries, HALVINGS + 2)
        return value, _throughput(scenario, (*settings, f"{key}={value!r}"))

    low, high = at(between[0]), at(between[1])
    ends = (low, high)
    found = None
    if min(low[1], high[1]) <= wanted <= max(low[1], high[1]):
        for _ in range(HALVINGS):
            found = at((low[0] + high[0]) / 2)
            if abs(found[1] / wanted - 1.0) < CLOSE:
                break
            low, high = (found, high) if (found[1] < wanted) == (low[1] < high[1]) else (low, found)
    return Solution(load_scenario(scenario, settings).name, key, wanted, *ends, found)


def parse_range(text: str) -> tuple[float, float]:
    """``LOW,HIGH`` as two numbers.

    Raises:
        InputError: it is something else.
    """
    parts = text.split(",")
    try:
        low, high = (float(part) for part in parts)
    except ValueError:
        raise InputError("not a range", key="--between", given=text, expected="LOW,HIGH, e.g. 0,1") from None
    return low, high


def _throughput(scenario: str | Path, settings: Sequence[str]) -> float:
    """Samples per second of a scenario."""
    job = PlanningJob.of(load_scenario(scenario, settings))
    with located(job.resolved.document):
        return job.resolved.global_batch_size / job.simulate_s(plan_of(job))

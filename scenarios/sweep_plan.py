"""Plan of a sweep: every combination of values as a scenario, checked before anything runs.

A combination whose values do not go together is a point with a reason; a value that is wrong by itself is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from inputs.errors import InputError
from inputs.keys import KeyPath, parse_key
from scenarios.family import family_of
from scenarios.resolve import ResolvedScenario, load_scenario, question_of
from scenarios.sweep_axes import Axis, Grid, parse_grid

Scaling = Literal["weak", "strong"]
BATCH: KeyPath = ("workload", "global_batch_size")

RANK_NAME = "Ranks"
"""Name of the fact about the devices of ranks."""

Values = tuple[tuple[Axis, int], ...]
"""Swept keys, and the place of the value of each."""


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One combination of values: the scenario to load, and its changes.

    Attributes:
        line: place of its line in `SweepPlan.lines`.
        place: place of its value on the axis.
        swept: its values as ``KEY=VALUE``.
        question: text that is the same for points with the same row.
        refusal: reason why its values do not go together; empty: they do.
    """

    scenario: str | Path
    settings: tuple[str, ...]
    line: int
    place: int
    swept: tuple[str, ...]
    question: str = ""
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class SweepLine:
    """One combination of values of the keys beside the axis.

    Attributes:
        name: its values, in words; empty if there is one line only.
        values: places of the values.
        base: the scenario with these values at its own size.
    """

    name: str
    values: tuple[int, ...]
    base: ResolvedScenario


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """Plan of a sweep.

    Attributes:
        base: the scenario without any swept value.
        grid: swept keys.
        scaling: ``weak`` or ``strong``; None: the batch does not follow the size, or no size is swept.
        lines: one for each combination of the keys beside the axis.
        points: line after line, along the axis.
        facts: different facts about the points, by name.
    """

    base: ResolvedScenario
    grid: Grid
    scaling: Scaling | None
    lines: tuple[SweepLine, ...]
    points: tuple[SweepPoint, ...]
    facts: Mapping[str, tuple[str, ...]]

    @property
    def simulated(self) -> int:
        """Number of points that are simulated: those that are not refused."""
        return sum(not point.refusal for point in self.points)


def plan_sweep(
    scenario: str | Path, over: str | Sequence[str], scaling: Scaling | None = None, settings: Sequence[str] = ()
) -> SweepPlan:
    """Check a sweep before anything runs.

    Args:
        scenario: name or path.
        over: ``nodes=1,2,4,...,512``, or several such lists of keys whose combinations are simulated.
        scaling: ``weak`` (default) or ``strong``, see `scenarios.sweep`.
        settings: further ``KEY=VALUE``.

    Raises:
        InputError: ``over`` is no such list, a key of it is set, too, a value is wrong in every combination and by
            itself, or ``scaling`` is given and has no effect.
    """
    grid = parse_grid([over] if isinstance(over, str) else over)
    _check_apart(grid, settings)
    base = load_scenario(scenario, settings)
    batches = _swept_batches(grid, base)
    follows = grid.across.is_size and not batches
    asked = _Asked(scenario, tuple(settings), (scaling or "weak") if follows else None)
    lines: list[SweepLine] = []
    tried: list[_Tried] = []
    for number, places in enumerate(grid.lines):
        line, found = asked.line(grid, number, places, base)
        lines.append(line)
        tried += found
    _refuse_values(asked, grid, tried, base)
    if scaling is not None and not follows:
        why = f"beside --over {batches[0]}" if batches else "where neither nodes nor world_size is swept"
        raise InputError(f"has no effect {why}", file="--scaling", given=scaling, expected="no scaling")
    points = tuple(point.point for point in tried)
    return SweepPlan(base, grid, asked.scaling, tuple(lines), points, _different(point.facts for point in tried))


def named_over(error: InputError, swept: Sequence[str]) -> InputError:
    """The error with ``--over`` as the place of swept values, which reach the scenario as ``--set``."""
    for problem in (error, *error.others):
        setting = str(problem.file).removeprefix("--set ")
        if setting in swept:
            problem.file = f"--over {setting}"
    return error


def _check_apart(grid: Grid, settings: Sequence[str]) -> None:
    """Raise `InputError` where a key is swept and set: the set value would be no value of the sweep.

    A size may be set beside its sweep: weak scaling starts at it.
    """
    swept = {axis.path: axis for axis in grid.axes}
    for setting in settings:
        name, equals, _ = setting.partition("=")
        axis = swept.get(parse_key(name.strip())) if equals and name.strip() else None
        if axis is not None and not axis.is_size:
            expected = "it once: under --set, or with all its values under --over"
            raise InputError("the key is swept, too", file=f"--set {setting}", key=axis.key, expected=expected)


@dataclass(frozen=True, slots=True)
class _Tried:
    """A point while a sweep is planned: places of its values, its error if it is no scenario, facts if it is one."""

    point: SweepPoint
    places: tuple[int, ...]
    error: InputError | None
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Asked:
    """The scenario that is swept, and the settings that depend on its size."""

    scenario: str | Path
    settings: tuple[str, ...]
    scaling: Scaling | None

    def load(self, values: Values, batch: str = "") -> ResolvedScenario:
        """The scenario with swept values; its errors name ``--over``."""
        try:
            return load_scenario(self.scenario, self.changes(values, batch))
        except InputError as error:
            named_over(error, [axis.setting(place) for axis, place in values])
            raise

    def changes(self, values: Values, batch: str = "") -> tuple[str, ...]:
        """Settings of a combination, a key after those that it is a part of."""
        ordered = sorted(values, key=lambda value: len(value[0].path))
        return (*self.settings, *(axis.setting(place) for axis, place in ordered), *[batch] * bool(batch))

    def batch(self, values: Values, base: ResolvedScenario) -> str:
        """Setting of the batch at the size among the values; empty: the batch does not follow a size."""
        size = next(((axis, place) for axis, place in values if axis.is_size), None)
        if self.scaling is None or size is None:
            return ""
        batch = base.global_batch_size if self.scaling == "strong" else base.batch_on(ranks_at(*size, base))
        return f"workload.global_batch_size={batch}"

    def line(
        self, grid: Grid, number: int, places: tuple[int, ...], base: ResolvedScenario
    ) -> tuple[SweepLine, list[_Tried]]:
        """Try every point of a line; without a scenario of its own the line has the base ``base``."""
        beside = tuple(zip(grid.beside, places, strict=True))
        broken = None
        try:
            base = self._base(beside, grid.across) if beside else base
        except InputError as error:
            broken = error
        found = [
            self.point((*beside, (grid.across, place)), base, number, broken)
            for place in range(len(grid.across.values))
        ]
        return SweepLine(grid.line_name(places), places, base), found

    def _base(self, beside: Values, across: Axis) -> ResolvedScenario:
        """The scenario with a line's values; at the first value across with which it is one, if not at its own.

        Raises:
            InputError: it is none with any value across.
        """
        try:
            return self.load(beside)
        except InputError as error:
            for place in range(len(across.values)):
                try:
                    return self.load((*beside, (across, place)))
                except InputError:
                    continue
            raise error from None

    def point(self, values: Values, base: ResolvedScenario, line: int, broken: InputError | None) -> _Tried:
        """Try a point; ``broken``: the error of its line."""
        batch, places = self.batch(values, base), tuple(place for _, place in values)
        changes, question, facts = self.changes(values, batch), "", {}
        try:
            if broken is None:
                resolved = self.load(values, batch)
                question, facts = question_of(self.scenario, changes, resolved), facts_of(resolved)
        except InputError as error:
            broken = error
        refusal, swept = "" if broken is None else str(broken), tuple(axis.setting(place) for axis, place in values)
        point = SweepPoint(self.scenario, changes, line, places[-1], swept, question, refusal)
        return _Tried(point, places, broken, facts)


def facts_of(resolved: ResolvedScenario) -> dict[str, str]:
    """Facts about a job, by name; `RANK_NAME` is the name of the devices of its ranks."""
    names = {"Model": resolved.model.name, "Cluster": resolved.cluster.name, "Framework": resolved.framework.name}
    return {RANK_NAME: resolved.cluster.node.rank_name, **names, **family_of(resolved).facts(resolved)}


def _different(facts: Iterable[Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    """Different facts of the same name, in order."""
    found: dict[str, dict[str, None]] = {}
    for each in facts:
        for name, fact in each.items():
            found.setdefault(name, {})[fact] = None
    return {name: tuple(different) for name, different in found.items()}


def ranks_at(axis: Axis, place: int, base: ResolvedScenario) -> int:
    """Ranks at a value of a size."""
    size = int(axis.values[place])
    return size * base.cluster.node.ranks if axis.key == "nodes" else size


def _swept_batches(grid: Grid, base: ResolvedScenario) -> list[str]:
    """Swept keys that state the batch."""
    instead = {path for pair in family_of(base).exclusive for path in pair if BATCH in pair}
    return [axis.key for axis in grid.axes if axis.path in {BATCH, *instead}]


def _refuse_values(asked: _Asked, grid: Grid, tried: Sequence[_Tried], base: ResolvedScenario) -> None:
    """Raise the error of a value that is wrong in every combination and by itself, or of a sweep without a scenario."""
    fine = [point.places for point in tried if point.error is None]
    for column, axis in enumerate(grid.axes):
        for place in sorted(set(range(len(axis.values))) - {places[column] for places in fine}):
            alone = ((axis, place),)
            asked.load(alone, asked.batch(alone, base))
    if not fine:
        raise next(point.error for point in tried if point.error is not None)

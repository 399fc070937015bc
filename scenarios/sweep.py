"""Sweeps: one scenario with many values of some keys, each with its own plan and simulation.

Weak scaling keeps the samples per rank, strong scaling the samples per iteration. A point whose memory does not
suffice, or whose values do not go together, is a row with its reason, and the sweep goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from inputs.errors import InfeasibleError, InputError
from inputs.keys import KeyPath
from scenarios.family import family_of
from scenarios.mapping import Map
from scenarios.progress import Progress, Silent
from scenarios.resolve import ResolvedScenario, load_scenario, question_of
from scenarios.runner import simulate
from scenarios.summary import interval_keys, price_key
from scenarios.sweep_axes import Axis, Grid, parse_grid
from simulator.analysis import rate_key

Scaling = Literal["weak", "strong"]
BATCH: KeyPath = ("workload", "global_batch_size")
SPEEDS = ("speedup", "efficiency")
"""Keys of a row that compare it with the first point of its line."""

Row = dict[str, Any]
"""One point: the keys of `row_of`, a key for each swept key that is no size, and `SPEEDS`."""

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
    """

    base: ResolvedScenario
    grid: Grid
    scaling: Scaling | None
    lines: tuple[SweepLine, ...]
    points: tuple[SweepPoint, ...]

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
        scaling: ``weak`` (default) or ``strong``, see the module.
        settings: further ``KEY=VALUE``.

    Raises:
        InputError: ``over`` is no such list, a value is wrong in every combination and by itself, or ``scaling`` is
            given and has no effect.
    """
    grid, base = parse_grid([over] if isinstance(over, str) else over), load_scenario(scenario, settings)
    batches = _swept_batches(grid, base)
    follows = grid.across.is_size and not batches
    asked = _Asked(scenario, tuple(settings), (scaling or "weak") if follows else None)
    tried = [asked.line(grid, number, values, base) for number, values in enumerate(grid.lines)]
    lines = tuple(SweepLine(grid.line_name(line.values), line.values, line.base) for line in tried)
    _refuse_values(asked, grid, tried, base)
    if scaling is not None and not follows:
        why = f"beside --over {batches[0]}" if batches else "where neither nodes nor world_size is swept"
        raise InputError(f"has no effect {why}", file="--scaling", given=scaling, expected="no scaling")
    points = (point for line in tried for point in line.points)
    return SweepPlan(base, grid, asked.scaling, lines, tuple(points))


def run_sweep(plan: SweepPlan, run_all: Map, progress: Progress | None = None) -> list[Row]:
    """The rows of all points, line after line, in whatever order they finished.

    Raises:
        InputError: every point is refused.
    """
    progress = progress or Silent()
    places = [place for place, point in enumerate(plan.points) if not point.refusal]
    rows = {place: _refused_row(plan, point) for place, point in enumerate(plan.points) if point.refusal}
    progress.stage("simulating points", 0, len(places))
    for done, (position, row) in enumerate(run_all(simulate_point, [plan.points[place] for place in places]), 1):
        rows[places[position]] = row
        progress.stage("simulating points", done, len(places))
    found = [_with_values(plan, plan.points[place], rows[place]) for place in sorted(rows)]
    if all(row["status"] == "refused" for row in found):
        raise InputError(found[0]["message"])
    length, rate = len(plan.grid.across.values), rate_key(family_of(plan.base).unit)
    for start in range(0, len(found), length):
        _compare(found[start : start + length], rate)
    return found


def simulate_point(point: SweepPoint) -> Row:
    """Simulate one point; a job that does not fit gives a row ``infeasible``, a wrong one a row ``refused``."""
    resolved = load_scenario(point.scenario, point.settings)
    try:
        summary = simulate(resolved, Silent()).summary
    except InfeasibleError as error:
        return row_of(resolved, "infeasible", message=str(error))
    except InputError as error:
        return row_of(resolved, "refused", message=str(_over(error, point.swept)))
    return row_of(resolved, "ok", summary)


def _over(error: InputError, swept: Sequence[str]) -> InputError:
    """The error with ``--over`` as the place of swept values, which reach the scenario as ``--set``."""
    for problem in (error, *error.others):
        setting = str(problem.file).removeprefix("--set ")
        if setting in swept:
            problem.file = f"--over {setting}"
    return error


def row_of(resolved: ResolvedScenario, status: str, summary: dict[str, Any] | None = None, message: str = "") -> Row:
    """A row of ``sweep.parquet``: sizes and status always, results where there are any, None elsewhere."""
    result, unit = summary or {}, family_of(resolved).unit
    fractions = result.get("breakdown", {}).get("fractions", {})
    bound = result.get("bound", {})
    joint = bound.get("joint", {})
    memory = result.get("memory", {}).get("hbm", {})
    return {
        "world_size": resolved.world_size,
        "nodes": resolved.nodes,
        "global_batch_size": resolved.global_batch_size,
        "local_batch_size": resolved.local_batch_size,
        "status": status,
        "iteration_time_s": result.get("iteration_time_s"),
        rate_key(unit): result.get(rate_key(unit)),
        **{key: result.get(key) for key in interval_keys(unit)},
        price_key(unit): result.get("cost", {}).get(price_key(unit)),
        **{f"fraction_{part}": fractions.get(part) for part in ("compute", "exposed_comm", "exposed_copy", "idle")},
        "bound": joint.get("class"),
        "bound_spread": joint.get("spread", []),
        "bound_gain": joint.get("gain"),
        **{f"joint_gain_{name}": gain for name, gain in sorted(joint.get("gains", {}).items())},
        **{f"gain_{name}": gain for name, gain in sorted(bound.get("gains", {}).items())},
        "hbm_bytes": memory.get("max_bytes"),
        "scenario_hash": resolved.hash,
        "warnings": list(result.get("warnings", ())),
        "message": message,
    }


def _refused_row(plan: SweepPlan, point: SweepPoint) -> Row:
    """The row of a point that is no scenario: its number of ranks and its reason."""
    base, across = plan.lines[point.line].base, plan.grid.across
    row = row_of(base, "refused", message=point.refusal)
    if across.is_size:
        ranks = _ranks(across, point.place, base)
        row |= {"world_size": ranks, "nodes": -(-ranks // base.cluster.node.ranks)}
    return row | dict.fromkeys(("global_batch_size", "local_batch_size", "scenario_hash"))


def _with_values(plan: SweepPlan, point: SweepPoint, row: Row) -> Row:
    """The row with the values of swept keys that have no column yet, in front."""
    values = (*zip(plan.grid.beside, plan.lines[point.line].values, strict=True), (plan.grid.across, point.place))
    return {axis.key: axis.cell(place) for axis, place in values if not axis.is_size} | row


def _compare(line: Sequence[Row], rate: str) -> None:
    """Add `SPEEDS` to the rows of a line: throughput (the key ``rate``), and that per rank, over the first's."""
    ran = [row for row in line if row["status"] == "ok"]
    for row in line:
        row.update(dict.fromkeys(SPEEDS))
    for row in ran:
        row["speedup"] = row[rate] / ran[0][rate]
        row["efficiency"] = row["speedup"] * ran[0]["world_size"] / row["world_size"]


@dataclass(frozen=True, slots=True)
class _Line:
    """A line while it is planned: its points, and the error of each that is no scenario."""

    values: tuple[int, ...]
    base: ResolvedScenario
    points: tuple[SweepPoint, ...]
    errors: tuple[InputError | None, ...]


@dataclass(frozen=True, slots=True)
class _Asked:
    """The scenario that is swept, and what follows its size."""

    scenario: str | Path
    settings: tuple[str, ...]
    scaling: Scaling | None

    def load(self, values: Values, batch: str = "") -> ResolvedScenario:
        """The scenario with swept values; its errors name ``--over``."""
        try:
            return load_scenario(self.scenario, self.changes(values, batch))
        except InputError as error:
            _over(error, [axis.setting(place) for axis, place in values])
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
        batch = base.global_batch_size if self.scaling == "strong" else base.batch_on(_ranks(*size, base))
        return f"workload.global_batch_size={batch}"

    def line(self, grid: Grid, number: int, places: tuple[int, ...], base: ResolvedScenario) -> _Line:
        """Try every point of a line; without a scenario of its own the line has the base ``base``."""
        beside = tuple(zip(grid.beside, places, strict=True))
        broken = None
        try:
            base = self.load(beside) if beside else base
        except InputError as error:
            broken = error
        tried = [
            self.point((*beside, (grid.across, place)), base, number, place, broken)
            for place in range(len(grid.across.values))
        ]
        points, errors = zip(*tried, strict=True)
        return _Line(places, base, points, errors)

    def point(
        self, values: Values, base: ResolvedScenario, line: int, place: int, broken: InputError | None
    ) -> tuple[SweepPoint, InputError | None]:
        """A point, and the error if it is no scenario: ``broken``, that of its line, or its own."""
        batch = self.batch(values, base)
        changes, question = self.changes(values, batch), ""
        try:
            question = "" if broken else question_of(self.scenario, changes, self.load(values, batch))
        except InputError as error:
            broken = error
        refusal, swept = "" if broken is None else str(broken), tuple(axis.setting(n) for axis, n in values)
        return SweepPoint(self.scenario, changes, line, place, swept, question, refusal), broken


def _ranks(axis: Axis, place: int, base: ResolvedScenario) -> int:
    """Ranks at a value of a size."""
    size = int(axis.values[place])
    return size * base.cluster.node.ranks if axis.key == "nodes" else size


def _swept_batches(grid: Grid, base: ResolvedScenario) -> list[str]:
    """Swept keys that state the batch."""
    instead = {path for pair in family_of(base).exclusive for path in pair if BATCH in pair}
    return [axis.key for axis in grid.axes if axis.path in {BATCH, *instead}]


def _refuse_values(asked: _Asked, grid: Grid, lines: Sequence[_Line], base: ResolvedScenario) -> None:
    """Raise the error of a value that is wrong in every combination and by itself, or of a sweep without a scenario."""
    tried = [(line.values, place, error) for line in lines for place, error in enumerate(line.errors)]
    fine = [(*values, place) for values, place, error in tried if error is None]
    for column, axis in enumerate(grid.axes):
        for place in sorted(set(range(len(axis.values))) - {values[column] for values in fine}):
            alone = ((axis, place),)
            asked.load(alone, asked.batch(alone, base))
    if not fine:
        raise next(error for _, _, error in tried if error is not None)

"""Scaling sweeps: one scenario at many sizes, each with its own plan and simulation.

Weak scaling keeps the samples per rank, strong scaling the samples per iteration. A size whose memory does not suffice
is a row with its numbers, and the sweep goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from inputs.errors import InfeasibleError, InputError
from scenarios.family import family_of
from scenarios.mapping import Map
from scenarios.progress import Progress, Silent
from scenarios.resolve import ResolvedScenario, load_scenario, question_of
from scenarios.runner import simulate
from scenarios.summary import interval_keys, price_key
from simulator.analysis import rate_key

Scaling = Literal["weak", "strong"]
MAX_SIZES = 64
_SIZE_KEYS = ("nodes", "world_size")

Row = dict[str, Any]
"""One point: the keys of `row_of`."""


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One size: the scenario to load, and its changes.

    Attributes:
        question: text that is the same for points with the same row.
    """

    scenario: str | Path
    settings: tuple[str, ...]
    size: int
    question: str


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """Plan of a sweep.

    Attributes:
        base: the scenario at its own size.
        key: ``nodes`` or ``world_size``.
        scaling: ``weak`` or ``strong``.
        points: ascending sizes.
    """

    base: ResolvedScenario
    key: str
    scaling: Scaling
    points: tuple[SweepPoint, ...]


def plan_sweep(scenario: str | Path, over: str, scaling: Scaling, settings: Sequence[str] = ()) -> SweepPlan:
    """Check a sweep before anything runs.

    Args:
        scenario: name or path.
        over: ``nodes=1,2,4,...,512`` or ``world_size=1,2,4,8``; an ellipsis goes on as the numbers before it do.
        scaling: ``weak`` or ``strong``, see the module.
        settings: further ``KEY=VALUE``.

    Raises:
        InputError: ``over`` is no such list, or a size is impossible (it has more ranks than samples).
    """
    key, sizes = _parse_over(over)
    base = load_scenario(scenario, settings)
    points = []
    for size in sizes:
        at_size = (*settings, f"{key}={size}")
        ranks = size * base.cluster.node.ranks if key == "nodes" else size
        batch = base.batch_on(ranks) if scaling == "weak" else base.global_batch_size
        changes = (*at_size, f"workload.global_batch_size={batch}")
        question = question_of(scenario, changes, load_scenario(scenario, changes))
        points.append(SweepPoint(scenario, changes, size, question))
    return SweepPlan(base, key, scaling, tuple(points))


def run_sweep(plan: SweepPlan, run_all: Map, progress: Progress | None = None) -> list[Row]:
    """The rows of all points, by ascending size, in whatever order they finished."""
    progress = progress or Silent()
    rows: dict[int, Row] = {}
    progress.stage("simulating sizes", 0, len(plan.points))
    for position, row in run_all(simulate_point, plan.points):
        rows[position] = row
        progress.stage("simulating sizes", len(rows), len(plan.points))
    return _with_efficiency([rows[position] for position in sorted(rows)], rate_key(family_of(plan.base).unit))


def simulate_point(point: SweepPoint) -> Row:
    """Simulate one size; a job that does not fit gives a row ``infeasible``."""
    resolved = load_scenario(point.scenario, point.settings)
    try:
        summary = simulate(resolved, Silent()).summary
    except InfeasibleError as error:
        return row_of(resolved, "infeasible", message=str(error))
    return row_of(resolved, "ok", summary)


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


def _with_efficiency(rows: list[Row], rate: str) -> list[Row]:
    """Efficiency: throughput (the key ``rate``) per rank over that of the smallest size that ran."""
    ran = [row for row in rows if row["status"] == "ok"]
    for row in rows:
        row["efficiency"] = None
    for row in ran:
        first = ran[0][rate] / ran[0]["world_size"]
        row["efficiency"] = row[rate] / row["world_size"] / first
    return rows


def _parse_over(over: str) -> tuple[str, list[int]]:
    key, _, values = over.partition("=")
    expected = "nodes=1,2,4,...,512 or world_size=1,2,4,8"
    if key not in _SIZE_KEYS:
        raise InputError("not a size to sweep over", file="--over", given=over, expected=expected)
    parts = [part.strip() for part in values.split(",")]
    numbers = [int(part) if part.isascii() and part.isdecimal() else None for part in parts]
    sizes: list[int] = []
    for position, (part, number) in enumerate(zip(parts, numbers, strict=True)):
        if number is not None and number > (sizes[-1] if sizes else 0):
            sizes.append(number)
        elif part == "..." and position + 2 == len(parts) and len(sizes) > 1 and numbers[-1] is not None:
            sizes += _continued(sizes, numbers[-1], over)
        else:
            raise InputError("not a list of ascending sizes", file="--over", given=over, expected=expected)
    if len(sizes) > MAX_SIZES:
        raise InputError("too many sizes", file="--over", given=len(sizes), expected=f"at most {MAX_SIZES}")
    return key, sizes


def _continued(sizes: Sequence[int], last: int, over: str) -> list[int]:
    """Sizes between ``sizes`` and ``last``: by equal steps if the sizes so far have them, else by the last ratio."""
    ratio, step = sizes[-1] / sizes[-2], sizes[-1] - sizes[-2]
    even_steps = ratio != int(ratio) or (len(sizes) > 2 and sizes[-2] - sizes[-3] == step)
    series = [sizes[-1] + step * n if even_steps else sizes[-1] * int(ratio) ** n for n in range(1, MAX_SIZES)]
    between = [size for size in series if size < last]
    if last not in series:
        raise InputError(
            f"the series does not reach {last}", file="--over", given=over, expected="a last size that continues it"
        )
    return between

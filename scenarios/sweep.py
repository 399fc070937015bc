"""Sweeps: one scenario with many values of some keys, each with its own plan and simulation.

Weak scaling keeps the samples per rank, strong scaling the samples per iteration. A point whose memory does not
suffice, or whose values do not go together, is a row with its reason, and the sweep goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inputs.errors import InfeasibleError, InputError
from scenarios.family import family_of
from scenarios.machine import same_machine
from scenarios.mapping import Map
from scenarios.progress import Progress, Silent
from scenarios.resolve import ResolvedScenario, load_scenario
from scenarios.runner import Reusable, simulate
from scenarios.summary_keys import SERVING_KEY, interval_keys, price_key
from scenarios.sweep_plan import SweepPlan, SweepPoint, named_over, ranks_at
from simulator.analysis import rate_key

SPEEDS = ("speedup", "efficiency")
"""Keys of a row that compare it with the first point of its line."""

Row = dict[str, Any]
"""One point: the keys of `row_of`, a key for each swept key that is no size, and `SPEEDS`."""


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


_LAST: list[Reusable] = []
"""The last point of this process, if it ran: the next one takes over what both have in common."""


def simulate_point(point: SweepPoint) -> Row:
    """Simulate one point; a job that does not fit gives a row ``infeasible``, a wrong one a row ``refused``."""
    resolved = load_scenario(point.scenario, point.settings)
    before = next((last for last in _LAST if same_machine(last.resolved, resolved)), None)
    _LAST.clear()
    try:
        done = simulate(resolved, Silent(), before=before)
        _LAST.append(done.reusable)
        summary = done.summary
    except InfeasibleError as error:
        return row_of(resolved, "infeasible", message=str(error))
    except InputError as error:
        return row_of(resolved, "refused", message=str(named_over(error, point.swept)))
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
        **latency_columns(result),
        **{f"fraction_{part}": fractions.get(part) for part in ("compute", "exposed_comm", "exposed_copy", "idle")},
        "bound": joint.get("class"),
        "bound_spread": joint.get("spread", []),
        "bound_gain": joint.get("gain"),
        **{f"joint_gain_{name}": gain for name, gain in sorted(joint.get("gains", {}).items())},
        **{f"gain_{name}": gain for name, gain in sorted(bound.get("gains", {}).items())},
        "hbm_bytes": memory.get("max_bytes"),
        **effect_columns(result),
        "scenario_hash": resolved.hash,
        "warnings": list(result.get("warnings", ())),
        "message": message,
    }


def effect_columns(summary: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Uncertain constants, and the effect of each on the logarithm of the time: its deviation times the elasticity."""
    sources = summary.get("uncertainty", {}).get("sources", ())
    effects = [source["elasticity"] * source["sigma"] for source in sources]
    return {"uncertain_constants": [source["key"] for source in sources], "uncertain_effects": effects}


def latency_columns(summary: Mapping[str, Any]) -> dict[str, float]:
    """Latency of requests, by column; empty for jobs that answer no requests."""
    found = summary.get(SERVING_KEY)
    return {} if found is None else {f"latency_{name}": value for name, value in found["latency"].items()}


def _refused_row(plan: SweepPlan, point: SweepPoint) -> Row:
    """The row of a point that is no scenario: its number of ranks and its reason."""
    base, across = plan.lines[point.line].base, plan.grid.across
    row = row_of(base, "refused", message=point.refusal)
    if across.is_size:
        ranks = ranks_at(across, point.place, base)
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

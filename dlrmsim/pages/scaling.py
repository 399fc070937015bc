"""Study of a sweep from its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dlrmsim import __version__
from reports.numbers import hourly
from reports.scaling_study import ScalingPoint, ScalingStudy
from scenarios.family import family_of
from scenarios.summary_keys import interval_keys, price_key
from scenarios.sweep import Row
from scenarios.sweep_plan import RANK_NAME, SweepPlan, SweepPoint
from simulator.analysis import rate_key


def scaling_study(plan: SweepPlan, rows: Sequence[Row]) -> ScalingStudy:
    """Findings on the page of a sweep."""
    base, grid, family = plan.base, plan.grid, family_of(plan.base)
    facts = {name: "; ".join(different) for name, different in plan.facts.items()}
    model, cluster = facts.pop("Model"), facts.pop("Cluster")
    del facts[RANK_NAME]
    rank_name, cost = plan.facts[RANK_NAME][0] if len(plan.facts[RANK_NAME]) == 1 else "ranks", base.scenario.cost
    swept = ", ".join(grid.short(axis) for axis in grid.axes if not axis.is_size)
    how = [f"over {swept}"] * bool(swept) + [f"{plan.scaling} scaling"] * (plan.scaling is not None)
    return ScalingStudy(
        name=", ".join((base.name, *how)),
        model=model,
        cluster=cluster,
        scaling=plan.scaling,
        points=tuple(_point(plan, point, row, family.unit) for point, row in zip(plan.points, rows, strict=True)),
        facts={
            **facts,
            **({} if cost is None else {"Price": hourly(cost.gpu_hour_usd, rank_name)}),
        },
        version=__version__,
        unit=family.unit,
        over="" if grid.across.is_size else grid.short(grid.across),
        numeric=grid.across.numbers is not None,
        lines=tuple(line.name for line in plan.lines),
        beside=tuple(grid.short(axis) for axis in grid.beside),
        rank_name=rank_name,
    )


def _point(plan: SweepPlan, point: SweepPoint, row: Row, unit: str) -> ScalingPoint:
    """A point of the page."""
    reason, *details = row["message"].split("\n")
    said: dict[str, Any] = {
        "warnings": tuple(row["warnings"]),
        "message": reason.removeprefix(f"{plan.base.name} does not fit: "),
        "details": tuple(map(str.strip, details)),
    }
    across, same = plan.grid.across, ("world_size", "nodes", "global_batch_size", "status")
    if not across.is_size:
        place = point.place if across.numbers is None else across.numbers[point.place]
        said |= {"label": across.values[point.place], "place": place}
    results = _results(row, unit) if row["status"] == "ok" else {}
    return ScalingPoint(**{key: row[key] for key in same}, line=plan.lines[point.line].name, **said, **results)


def _results(row: Row, unit: str) -> Mapping[str, Any]:
    """Results of a point that ran."""
    *times, p10, p90 = interval_keys(unit)
    keys = {"throughput_per_s": rate_key(unit), "throughput_p10_per_s": p10, "throughput_p90_per_s": p90}
    keys |= {name: name for name in ("iteration_time_s", "efficiency", "speedup", *times)}
    start = "joint_gain_"
    mostly = f" ({row['bound_spread'][0]})" if row["bound_spread"] else ""
    return {
        **{name: row[key] for name, key in {**keys, "million_usd": price_key(unit)}.items()},
        "shares": {part: row[f"fraction_{part}"] for part in ("compute", "exposed_comm", "exposed_copy", "idle")},
        "gains": {name.removeprefix(start): gain for name, gain in row.items() if name.startswith(start)},
        **{name: row.get(name) for name in ("latency_p50_s", "latency_p99_s")},
        "effects": dict(zip(row.get("uncertain_constants", ()), row.get("uncertain_effects", ()), strict=True)),
        "bound": row["bound"] and f"{row['bound']}{mostly}",
    }

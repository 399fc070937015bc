"""From the rows of a sweep to its study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlrmsim import __version__
from reports.numbers import usd
from reports.scaling_report import ScalingPoint, ScalingStudy
from scenarios.family import family_of
from scenarios.summary import interval_keys, price_key
from scenarios.sweep import Row, SweepPlan
from simulator.analysis import rate_key


def scaling_study(plan: SweepPlan, rows: Sequence[Row]) -> ScalingStudy:
    """Findings on the page of a sweep."""
    base, family = plan.base, family_of(plan.base)
    return ScalingStudy(
        name=f"{base.name}, {plan.scaling} scaling",
        model=base.model.name,
        cluster=base.cluster.name,
        scaling=plan.scaling,
        points=tuple(_point(row, base.name, family.unit) for row in rows),
        facts={
            "Framework": base.framework.name,
            **family.facts(base),
            **({} if base.scenario.cost is None else {"Price": f"{usd(base.scenario.cost.gpu_hour_usd)} per GPU-hour"}),
        },
        version=__version__,
        unit=family.unit,
    )


def _point(row: Row, name: str, unit: str) -> ScalingPoint:
    ran: dict[str, Any] = {"warnings": tuple(row["warnings"])}
    if row["status"] == "ok":
        ran |= {name: row[name] for name in ("iteration_time_s", "efficiency", *interval_keys(unit)[:2])}
        _, _, p10, p90 = interval_keys(unit)
        keys = {"throughput_per_s": rate_key(unit), "throughput_p10_per_s": p10, "throughput_p90_per_s": p90}
        ran |= {name: row[key] for name, key in {**keys, "million_usd": price_key(unit)}.items()}
        ran["shares"] = {part: row[f"fraction_{part}"] for part in ("compute", "exposed_comm", "exposed_copy", "idle")}
        start = "joint_gain_"
        ran["gains"] = {name.removeprefix(start): gain for name, gain in row.items() if name.startswith(start)}
        mostly = f" ({row['bound_spread'][0]})" if row["bound_spread"] else ""
        ran["bound"] = row["bound"] and f"{row['bound']}{mostly}"
    reason, *details = row["message"].split("\n")
    ran |= {"message": reason.removeprefix(f"{name} does not fit: "), "details": tuple(map(str.strip, details))}
    return ScalingPoint(**{key: row[key] for key in ("world_size", "nodes", "global_batch_size", "status")}, **ran)

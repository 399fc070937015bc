"""From the rows of a sweep to its study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlrmsim import __version__
from reports.numbers import usd
from reports.scaling_report import ScalingPoint, ScalingStudy
from scenarios.summary import INTERVAL_KEYS
from scenarios.sweep import Row, SweepPlan


def scaling_study(plan: SweepPlan, rows: Sequence[Row]) -> ScalingStudy:
    """Findings on the page of a sweep."""
    base = plan.base
    return ScalingStudy(
        name=f"{base.name}, {plan.scaling} scaling",
        model=base.model.name,
        cluster=base.cluster.name,
        scaling=plan.scaling,
        points=tuple(_point(row, base.name) for row in rows),
        facts={
            "Framework": base.framework.name,
            "Rows scaling": base.scenario.workload.rows_scaling,
            **({} if base.scenario.cost is None else {"Price": f"{usd(base.scenario.cost.gpu_hour_usd)} per GPU-hour"}),
        },
        version=__version__,
    )


def _point(row: Row, name: str) -> ScalingPoint:
    ran: dict[str, Any] = {"warnings": tuple(row["warnings"])}
    if row["status"] == "ok":
        names = ("iteration_time_s", "throughput_samples_per_s", *INTERVAL_KEYS, "efficiency", "million_samples_usd")
        ran |= {name: row[name] for name in names}
        ran["shares"] = {part: row[f"fraction_{part}"] for part in ("compute", "exposed_comm", "exposed_copy", "idle")}
        start = "joint_gain_"
        ran["gains"] = {name.removeprefix(start): gain for name, gain in row.items() if name.startswith(start)}
        mostly = f" ({row['bound_spread'][0]})" if row["bound_spread"] else ""
        ran["bound"] = row["bound"] and f"{row['bound']}{mostly}"
    reason, *details = row["message"].split("\n")
    ran |= {"message": reason.removeprefix(f"{name} does not fit: "), "details": tuple(map(str.strip, details))}
    return ScalingPoint(**{key: row[key] for key in ("world_size", "nodes", "global_batch_size", "status")}, **ran)

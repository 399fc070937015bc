"""From the rows of a sweep to its study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlrmsim import __version__
from reports.scaling_report import ScalingPoint, ScalingStudy
from scenarios.sweep import Row, SweepPlan


def scaling_study(plan: SweepPlan, rows: Sequence[Row]) -> ScalingStudy:
    """Findings on the page of a sweep."""
    base = plan.base
    return ScalingStudy(
        name=f"{base.name}, {plan.scaling} scaling",
        model=base.model.name,
        cluster=base.cluster.name,
        scaling=plan.scaling,
        points=tuple(_point(row) for row in rows),
        facts={"Framework": base.framework.name, "Rows scaling": base.scenario.workload.rows_scaling},
        version=__version__,
    )


def _point(row: Row) -> ScalingPoint:
    ran: dict[str, Any] = {}
    if row["status"] == "ok":
        names = ("iteration_time_s", "throughput_samples_per_s", "efficiency")
        ran = {name: row[name] for name in names}
        ran["shares"] = {part: row[f"fraction_{part}"] for part in ("compute", "exposed_comm", "exposed_copy", "idle")}
        start = "joint_gain_"
        ran["gains"] = {name.removeprefix(start): gain for name, gain in row.items() if name.startswith(start)}
        mostly = f" ({row['bound_spread'][0]})" if row["bound_spread"] else ""
        ran["bound"] = row["bound"] and f"{row['bound']}{mostly}"
    sizes = ("world_size", "nodes", "global_batch_size", "status", "message")
    return ScalingPoint(**{name: row[name] for name in sizes}, **ran)

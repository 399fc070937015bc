"""Tables the command line prints with rich: a sweep, and predictions against measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from reports.numbers import percent, samples_per_s, seconds
from reports.scaling_report import ScalingPoint

if TYPE_CHECKING:  # rich is imported by the command that prints
    from rich.table import Table


def scaling_table(points: Iterable[ScalingPoint]) -> Table:
    """One row per size of a sweep."""
    from rich.table import Table

    made = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("GPUs", "nodes", "iteration", "throughput", "efficiency"):
        made.add_column(column, justify="right")
    made.add_column("bound")
    for p in points:
        sizes = (f"{p.world_size:,}", f"{p.nodes:,}")
        if p.status == "ok":
            rate = " ".join(samples_per_s(p.throughput_samples_per_s or 0.0))
            made.add_row(*sizes, seconds(p.iteration_time_s or 0.0), rate, percent(p.efficiency or 0.0), p.bound or "-")
        else:
            made.add_row(*sizes, "", "", "", f"{p.status}: {p.message}", style="yellow")
    return made


def validation_table(suite: Mapping[str, Any]) -> Table:
    """Predicted against measured, one row per case.

    Args:
        suite: one entry of ``suites`` as ``validate --json`` prints it.
    """
    from rich.table import Table

    made = Table(title=suite["suite"], title_justify="left", box=None, padding=(0, 2, 0, 0))
    made.add_column("case")
    made.add_column("metric")
    for column in ("measured", "predicted", "error"):
        made.add_column(column, justify="right")
    made.add_column("grade")
    for case in suite["cases"]:
        values = (_value(case["measured"]), _value(case["predicted"]), _error(case["error_pct"]))
        made.add_row(case["id"], case["metric"], *values, case["grade"])
    return made


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{value['low']:,.4g} to {value['high']:,.4g}"
    return "-" if value is None else f"{value:,.4g}"


def _error(error_pct: float | None) -> str:
    return "-" if error_pct is None else f"{error_pct:+.1f} %"

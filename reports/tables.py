"""What the command line prints: rich panels and tables made from ``summary.json`` and rows of the same shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inputs.quantities import format_quantity
from reports.findings import MemoryTier
from reports.numbers import percent, samples_per_s, seconds
from reports.scaling_report import ScalingPoint

if TYPE_CHECKING:  # rich is imported by the command that prints
    from rich.panel import Panel
    from rich.table import Table

_BAR_CELLS = 40
_PARTS = (("compute", "compute", "blue"), ("exposed_comm", "exposed communication", "dark_orange3"),
          ("exposed_copy", "exposed copy", "green4"), ("idle", "idle", "grey62"))  # fmt: skip


def headline_panel(name: str, summary: Mapping[str, Any]) -> Panel:
    """Iteration time, throughput, where the time goes and what bounds it.

    Args:
        name: what was run.
        summary: content of ``summary.json``.
    """
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    rate = " ".join(samples_per_s(summary["throughput_samples_per_s"]))
    first = Text.assemble(
        (seconds(summary["iteration_time_s"]), "bold"), " per iteration, ", (rate, "bold"),
        f" on {summary['world_size']:,} GPUs ({summary['nodes']:,} nodes), ",
        f"global batch {summary['global_batch_size']:,}",
    )  # fmt: skip
    bound = summary.get("bound")
    lines = [first, Text(""), *_shares(summary["breakdown"]["fractions"])]
    lines += [Text(""), Text(bound["finding"])] if bound else []
    if not summary["steady"]:
        lines.append(Text(f"Not settled after {summary['iterations']} iterations.", style="yellow"))
    lines += [Text(f"Warning: {warning}", style="yellow") for warning in summary["warnings"]]
    return Panel(Group(*lines), title=name, title_align="left", padding=(1, 2))


def _shares(fractions: Mapping[str, float]) -> list[Any]:
    """A bar of the iteration's parts and its legend."""
    from rich.text import Text

    bar, legend = Text(), Text()
    for part, words, color in _PARTS:
        share = fractions[part]
        if share > 0:
            bar.append("\N{FULL BLOCK}" * round(share * _BAR_CELLS), style=color)
            legend.append("\N{BLACK SQUARE} ", style=color).append(f"{percent(share)} {words}   ")
    return [bar, legend]


def memory_table(tiers: Sequence[MemoryTier]) -> Table:
    """Bytes per item on the fullest and on the mean rank, a block per tier."""
    from rich.table import Table

    made = Table("tier", "item", title="Memory per rank", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in ("fullest", "mean"):
        made.add_column(column, justify="right")
    for tier in tiers:
        fullest = int(tier.used_bytes.argmax())
        for number, (item, values) in enumerate(tier.items.items()):
            made.add_row("" if number else tier.name, item, _bytes(values[fullest]), _bytes(values.mean()))
        used = tier.used_bytes
        capacity = f"in all, of {_bytes(tier.capacity_bytes)} usable"
        made.add_row("", capacity, _bytes(used[fullest]), _bytes(used.mean()), style="bold", end_section=True)
    return made


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


def _bytes(value: float) -> str:
    return format_quantity(float(value), "bytes")

"""What `run` prints: the headline numbers of a summary, and the estimate of `--check`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from inputs.quantities import format_quantity

Row: TypeAlias = tuple[str, str, str]
"""What, how much, and a remark."""


def print_headline(summary: Mapping[str, Any], folder: Path) -> None:
    """Print the numbers to remember of a run, and where its files are."""
    from rich.console import Console

    from reports.tables import headline_panel

    console = Console(highlight=False)
    console.print(headline_panel(_title(summary), summary))
    _print_rows(_run_rows(summary))
    report = folder / "report.html"
    console.print(f"  {'report' if report.exists() else 'results'}  ", end="", style="dim")
    console.print(str(report if report.exists() else folder), markup=False, soft_wrap=True)


def print_check(estimate: Mapping[str, Any]) -> None:
    """Print what `--check` found."""
    from rich.console import Console

    console = Console(highlight=False)
    console.print(_title(estimate), style="bold", markup=False)
    _print_rows(_check_rows(estimate))
    console.print("  checked only: nothing was run, nothing was written", style="dim")


def _print_rows(rows: Iterable[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 2), pad_edge=True)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(table)


def _title(summary: Mapping[str, Any]) -> str:
    nodes = f"{summary['nodes']:,} node{'s' if summary['nodes'] > 1 else ''}"
    return f"{summary['name']}: {summary['model']} on {summary['world_size']:,} GPUs, {nodes} of {summary['cluster']}"


def _run_rows(summary: Mapping[str, Any]) -> Iterator[Row]:
    exposed = summary["breakdown"]["exposed_comm_s"]["mean"]
    share = f"{summary['exposed_comm_fraction']:.1%} of the iteration, mean over ranks"
    yield ("exposed communication", format_quantity(exposed, "s"), share)
    yield _bound_row(summary["bound"])
    imbalance = f"imbalance {summary['imbalance']:.2f} (largest over mean computation)"
    yield ("slowest rank", str(summary["ranks"]["slowest"]), imbalance)
    yield from _memory_rows(summary["memory"])


def _bound_row(bound: Mapping[str, Any]) -> Row:
    if not bound["class"]:
        return ("bound", "no single class", "none gains 0.1 % when improved by 10 %")
    second = f"; runner-up {bound['runner_up']}: {bound['runner_up_gain']:.1%}" if bound["runner_up"] else ""
    return ("bound", bound["class"], f"10 % better saves {bound['gain']:.1%} of the iteration{second}")


def _memory_rows(memory: Mapping[str, Any]) -> Iterator[Row]:
    for tier, use in memory.items():
        used, usable = (format_quantity(use[key], "bytes") for key in ("max_bytes", "capacity_bytes"))
        yield (f"memory, {tier}", used, f"of {usable} usable, on the fullest rank ({use['max_rank']})")


def _check_rows(estimate: Mapping[str, Any]) -> Iterator[Row]:
    size = estimate["size"]
    types = ", ".join(f"{count} {kind}" for kind, count in estimate["sharding"]["tables_by_type"].items())
    yield ("batch", f"{estimate['global_batch_size']:,}", f"{estimate['local_batch_size']:,} per GPU")
    yield ("tables", f"{estimate['sharding']['tables']:,}", types)
    yield from _memory_rows(estimate["memory"])
    yield ("tasks", f"{size['tasks_per_iteration']:,}", "per rank and iteration")
    runs = f"{size['runs']} runs, the first of about {size['iterations']} iterations"
    yield ("rank-tasks", f"{size['rank_tasks']:,}", runs)
    yield ("records", format_quantity(size["memory_bytes"], "bytes", binary=True), "of this machine's memory")
    yield ("time", format_quantity(size["seconds"], "s"), "an order of magnitude, on a 2.5 GHz core")

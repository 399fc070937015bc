"""What `run` prints: the headline numbers of a summary, and the estimate of `--check`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from inputs.quantities import format_quantity

Row: TypeAlias = tuple[str, str, str]
"""What, how much, and a remark."""


def print_headline(summary: Mapping[str, Any], folder: Path, *, report: bool) -> None:
    """Print the numbers to remember of a run, and where its files are."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False)
    console.print(f"[bold]{escape(_title(summary))}[/bold]")
    _print_rows(_headline_rows(summary))
    if summary["bound"]:
        console.print(f"  {escape(summary['bound']['finding'])}", soft_wrap=False)
    for warning in summary["warnings"]:
        console.print(f"  [yellow]note[/yellow] {escape(warning)}")
    console.print(f"  [dim]{'report' if report else 'results'}[/dim] {_place(folder, report)}", soft_wrap=True)


def print_check(estimate: Mapping[str, Any]) -> None:
    """Print what `--check` found."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False)
    console.print(f"[bold]{escape(_title(estimate))}[/bold]")
    _print_rows(_check_rows(estimate))
    for warning in estimate["warnings"]:
        console.print(f"  [yellow]note[/yellow] {escape(warning)}")
    console.print("  checked: nothing was run or written")


def _print_rows(rows: Iterator[Row]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for what, value, remark in rows:
        table.add_row(f"  {what}", value, escape(remark))
    Console(highlight=False).print(table)


def _title(summary: Mapping[str, Any]) -> str:
    nodes = f"{summary['nodes']:,} node{'s' if summary['nodes'] > 1 else ''}"
    return f"{summary['model']} on {summary['world_size']:,} GPUs ({nodes} of {summary['cluster']})"


def _headline_rows(summary: Mapping[str, Any]) -> Iterator[Row]:
    samples_per_s = summary["throughput_samples_per_s"]
    settled = "" if summary["steady"] else f"not settled after {summary['iterations']} iterations"
    yield ("iteration time", format_quantity(summary["iteration_time_s"], "s"), settled)
    yield ("throughput", f"{samples_per_s:,.0f} samples/s", f"{samples_per_s / summary['world_size']:,.0f} per GPU")
    yield ("exposed communication", f"{summary['exposed_comm_fraction']:.1%}", "of the iteration, mean over ranks")
    yield _bound_row(summary["bound"])
    yield (
        "slowest rank",
        str(summary["ranks"]["slowest"]),
        f"imbalance {summary['imbalance']:.2f}: max over mean compute",
    )
    yield from _memory_rows(summary["memory"])


def _bound_row(bound: Mapping[str, Any] | None) -> Row:
    if not bound or not bound["class"]:
        return ("bound", "no single class", "none gains 0.1 % when improved by 10 %")
    second = f"; then {bound['runner_up']} {bound['runner_up_gain']:.1%}" if bound["runner_up"] else ""
    return ("bound", bound["class"], f"10 % better saves {bound['gain']:.1%}{second}")


def _memory_rows(memory: Mapping[str, Any]) -> Iterator[Row]:
    for tier, use in memory.items():
        used = format_quantity(use["max_bytes"], "bytes")
        usable = format_quantity(use["capacity_bytes"], "bytes")
        yield (f"{tier} on rank {use['max_rank']}", used, f"of {usable} usable, the fullest rank")


def _check_rows(estimate: Mapping[str, Any]) -> Iterator[Row]:
    size = estimate["size"]
    yield ("global batch", f"{estimate['global_batch_size']:,}", f"{estimate['local_batch_size']:,} per GPU")
    yield from _memory_rows(estimate["memory"])
    yield ("tasks", f"{size['tasks_per_iteration']:,}", "per rank and iteration")
    yield (
        "run",
        f"{size['rank_tasks']:,} rank-tasks",
        f"in {size['runs']} runs of up to {size['max_iterations']} iterations",
    )
    yield ("needs about", format_quantity(size["memory_bytes"], "bytes", binary=True), "of this machine's memory")
    yield ("takes about", format_quantity(size["seconds"], "s"), "on this machine, an order of magnitude")


def _place(folder: Path, report: bool) -> str:
    return str(folder / "report.html" if report else folder)

"""Output of `run`: the headline numbers of a summary, and the estimate of `--check`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlrmsim.cli.printing import text_console
from dlrmsim.cli.sections import (
    Row,
    block_rows,
    cache_rows,
    exchange_rows,
    latency_rows,
    mode_rows,
    peak_rows,
    sequence_rows,
    server_rows,
    table_rows,
    target_rows,
    tier_rows,
    transformer_rows,
)
from inputs.quantities import format_quantity
from reports.interval_words import given_in_words, rate_span, time_span, widest_in_words
from reports.numbers import counted, memory_named, singular, usd
from reports.text_table import TextTable
from scenarios.schedules import schedule_words
from scenarios.summary_keys import DEFAULT_RANK_NAME, DEFAULT_UNIT, interval_keys, price_key
from simulator.analysis import rate_key
from simulator.analysis.ranks import SLOWEST

if TYPE_CHECKING:  # rich is imported by the command that prints
    from rich.console import Console
    from rich.text import Text

BAR_CELLS = 48
PARTS = (
    ("compute", "computation", "blue"),
    ("exposed_comm", "exposed communication", "dark_orange3"),
    ("exposed_copy", "exposed copies", "green4"),
    ("idle", "idle", "grey62"),
)
"""Parts of an iteration as the summary names them, in words, and their colours (those of the page)."""
IDLE_OF_CPUS = "framework, idle"
"""Name of ``idle`` where ranks are CPUs: no kernel runs on them while their framework works."""


def print_headline(summary: Mapping[str, Any], folder: Path) -> None:
    """Print the numbers to remember of a run, and where its files are."""
    from rich.text import Text

    console = text_console()
    console.print(Text(_title(summary), style="bold"))
    console.print(Text(f"  {memory_named(summary['bound']['finding'], _rank_name(summary))}"))
    if summary["levers"] is not None:
        console.print(Text(f"  {summary['levers']['advice']}"))
    for words in (widest_in_words(summary["uncertainty"]), given_in_words(summary["uncertainty"])):
        if words:
            console.print(Text(f"  {words}"))
    if console.is_terminal:
        console.print(_bar(summary["breakdown"]["fractions"]))
    _print_rows(console, _run_rows(summary))
    _print_warnings(console, (memory_named(warning, _rank_name(summary)) for warning in summary["warnings"]))
    report = folder / "report.html"
    what, where = ("report", report) if report.exists() else ("results", folder)
    console.print(Text.assemble((f"  {what}  ", "dim"), str(where)), soft_wrap=True)


def _bar(fractions: Mapping[str, float]) -> Text:
    """Breakdown of the iteration as a bar; the rows below explain the colours."""
    from rich.text import Text

    bar = Text("  ")
    for part, _, color in PARTS:
        bar.append("\N{FULL BLOCK}" * round(fractions[part] * BAR_CELLS), style=color)
    return bar


def print_check(estimate: Mapping[str, Any]) -> None:
    """Print the results of `--check`."""
    from rich.text import Text

    console = text_console()
    console.print(Text(_title(estimate), style="bold"))
    _print_rows(console, _check_rows(estimate))
    _print_warnings(console, estimate["warnings"])
    console.print(Text("  checked only: nothing was run, nothing was written", style="dim"))


def print_measured(summary: Mapping[str, Any], folder: Path) -> None:
    """Print the measurement, and the folder of its files."""
    from rich.text import Text

    console = text_console()
    console.print(Text(f"{summary['scenario']} measured on {_on(summary)}", style="bold"))
    _print_rows(console, _measured_rows(summary))
    _print_warnings(console, summary["warnings"])
    console.print(Text.assemble(("  results  ", "dim"), str(folder)), soft_wrap=True)


def _print_warnings(console: Console, warnings: Iterable[str]) -> None:
    """Print a note for each warning."""
    from rich.text import Text

    for warning in warnings:
        console.print(Text.assemble(("  note  ", "yellow"), warning))


def _on(summary: Mapping[str, Any]) -> str:
    return f"{counted(summary['world_size'], 'ranks')} of this machine ({summary['device']}, {summary['backend']})"


def _measured_rows(summary: Mapping[str, Any]) -> Iterator[Row]:
    quantiles = {name: format_quantity(time_s, "s") for name, time_s in summary["iteration_time_quantiles_s"].items()}
    spread = f"median {quantiles['median']}, p10 {quantiles['p10']}, p90 {quantiles['p90']}"
    yield "iteration time", format_quantity(summary["iteration_time_s"], "s"), spread
    yield "throughput", f"{summary['throughput_samples_per_s']:,.0f} samples/s", ""
    halves = f"second half of {summary['measured_iterations']} iterations against the first"
    yield "drift", f"{100 * summary['drift']:+.1f} %", halves
    first, last = ("not a number" if loss is None else f"{loss:.4f}" for loss in summary["loss"].values())
    yield "loss", last, f"from {first}"


def _print_rows(console: Console, rows: Iterable[Row]) -> None:
    table = TextTable(header=False, indent=2).words("", style="dim").words("", style="bold").words("")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _title(summary: Mapping[str, Any]) -> str:
    ranks, nodes = counted(summary["world_size"], _rank_name(summary)), counted(summary["nodes"], "nodes")
    machine = f"{ranks}, {nodes} of {summary['cluster']}"
    return f"{summary['name']}: {summary['model']} on {machine}, framework {summary['framework']}"


def _rank_name(summary: Mapping[str, Any]) -> str:
    return str(summary.get("rank_name", DEFAULT_RANK_NAME))


def _training(summary: Mapping[str, Any]) -> Mapping[str, Any]:
    """Number and plural noun of the ranks that train."""
    every = {"name": _rank_name(summary), "ranks": summary["world_size"]}
    return summary.get("training", every)  # type: ignore[no-any-return]


def _run_rows(summary: Mapping[str, Any]) -> Iterator[Row]:
    time = summary["iteration_time_s"]
    settled = f"mean of {summary['measured_iterations']} iterations after {summary['warm_up_iterations']} of warm-up"
    unsettled = f"not settled after {summary['iterations']} iterations"
    unit = summary.get("unit", DEFAULT_UNIT)
    rate, (*_, p10, p90) = summary[rate_key(unit)], interval_keys(unit)
    span = time_span(summary["iteration_time_p10_s"], summary["iteration_time_p90_s"])
    rates = rate_span(summary[p10], summary[p90], unit)
    yield from mode_rows(summary)
    yield ("iteration time", format_quantity(time, "s"), f"{span}; {settled if summary['steady'] else unsettled}")
    yield (
        "throughput",
        f"{rate:,.0f} {unit}/s",
        f"{rates}; {rate / _training(summary)['ranks']:,.0f} per {singular(_training(summary)['name'])}",
    )
    yield from target_rows(summary)
    yield from latency_rows(summary)
    if "cost" in summary:
        price, hour = (usd(summary["cost"][key]) for key in (price_key(unit), "job_hour_usd"))
        yield ("cost", price, f"per million {unit}; {hour} an hour")
    breakdown = summary["breakdown"]
    over = summary["training"]["name"] if "training" in summary else "ranks"
    window = f"of iteration {breakdown['iteration']}, {format_quantity(breakdown['window_s'], 's')}, mean over {over}"
    for part, words, _ in PARTS:
        seconds = breakdown[f"{part}_s"]["mean"]
        label = IDLE_OF_CPUS if part == "idle" and _rank_name(summary) != DEFAULT_RANK_NAME else words
        yield (label, format_quantity(seconds, "s"), f"{100 * breakdown['fractions'][part]:.1f} % {window}")
    label, value, remark = _bound_row(summary["bound"]["joint"])
    yield (label, value, memory_named(remark, _rank_name(summary)))
    yield ("slowest rank", str(summary["ranks"]["slowest"]), SLOWEST)
    yield ("imbalance", f"{summary['imbalance']:.2f}", f"largest / mean computation of {over}")
    yield from sequence_rows(summary)
    yield from _memory_rows(summary)
    for row in summary.get("transform", ()):
        yield (row["transformation"], "", schedule_words(row))


def _bound_row(bound: Mapping[str, Any]) -> Row:
    if not bound["class"]:
        return ("bound", "nothing", "no class gains 0.1 % when improved by 10 %")
    spread = f", {', '.join(bound['spread'])}" if bound["spread"] else ""
    second = f"; runner-up {bound['runner_up']} {100 * bound['runner_up_gain']:.1f} %"
    return ("bound", bound["class"], f"10 % better saves {100 * bound['gain']:.1f} %{spread}{second}")


def _memory_rows(found: Mapping[str, Any]) -> Iterator[Row]:
    on_gpus = _rank_name(found) == DEFAULT_RANK_NAME
    for tier, use in found["memory"].items():
        if use["max_bytes"] > 0:
            used, usable = (format_quantity(use[key], "bytes") for key in ("max_bytes", "capacity_bytes"))
            name = f"memory, {tier}" if on_gpus or tier != "hbm" else "memory"
            yield (name, used, f"of {usable} usable (rank {use['max_rank']}, the fullest)")
    yield from peak_rows(found)
    yield from cache_rows(found)
    yield from tier_rows(found)
    yield from exchange_rows(found)
    yield from block_rows(found)
    yield from server_rows(found)
    yield from transformer_rows(found)


def _share_of_batch(estimate: Mapping[str, Any]) -> str:
    """Part of the batch of one rank, or of one group of ranks that share samples (stages of a pipeline)."""
    training, batch, local = _training(estimate), estimate["global_batch_size"], estimate["local_batch_size"]
    ranks, name = training["ranks"], training["name"]
    if local * ranks - batch >= ranks:
        return f"{local:,} per group of {local * ranks // batch} {name}"
    return f"{'at most ' if batch % ranks else ''}{local:,} per {singular(name)}"


def _check_rows(estimate: Mapping[str, Any]) -> Iterator[Row]:
    size = estimate["size"]
    yield ("batch", f"{estimate['global_batch_size']:,}", _share_of_batch(estimate))
    yield from table_rows(estimate)
    yield from _memory_rows(estimate)
    yield ("tasks", f"{size['tasks_per_iteration']:,}", "per rank and iteration")
    runs = f"{size['runs']} runs, the first of about {size['iterations']} iterations"
    yield ("rank-tasks", f"{size['rank_tasks']:,}", runs)
    yield ("records", format_quantity(size["memory_bytes"], "bytes", binary=True), "of this machine's memory")
    yield ("time", format_quantity(size["seconds"], "s"), "of a core, within a factor of two")

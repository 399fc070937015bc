"""Output of ``capture``: ranks, operations, exchanges and memory of a captured step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dlrmsim.cli.printing import text_console
from inputs.errors import listed
from inputs.quantities import format_quantity
from reports.numbers import counted
from reports.text_table import TextTable

MOST = 3
"""Names that a line lists."""


def print_captured(found: Mapping[str, Any], folder: Path) -> None:
    """Print a capture for people, and the command that runs it."""
    from rich.text import Text

    console = text_console()
    console.print(Text(f"{found['source']}: {counted(found['world_size'], 'ranks')}", style="bold"))
    table = TextTable(header=False, indent=2).words("", style="cyan").words("").words("")
    for row in _rows(found):
        table.add_row(*row)
    console.print(table)
    console.print(Text.assemble(("  wrote  ", "dim"), str(folder)), soft_wrap=True)
    console.print(Text.assemble(("  next   ", "dim"), f"dlrmsim run {folder}"), soft_wrap=True)


def _alike(program: Mapping[str, Any], world_size: int) -> str:
    """Ranks that were captured and found alike."""
    captured = program["captured"]
    if len(captured) == world_size:
        return "all ranks do the same"
    ranks = listed([f"{rank:,}" for rank in captured])
    return f"the same on rank{'s' * (len(captured) > 1)} {ranks}, which stand for all"


def _rows(found: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    programs = found["programs"]
    most = max(programs, key=lambda program: program["tasks"])
    kinds = f"{len(programs)} kinds of ranks" if len(programs) > 1 else _alike(programs[0], found["world_size"])
    yield "tasks", f"{most['tasks']:,}", kinds
    yield "operations", f"{found['flops'] / 1e9:,.1f} GFLOP", "products, attention and convolutions of a rank"
    for op, calls in found["collectives"].items():
        yield op, format_quantity(calls["bytes"], "bytes"), f"in {counted(int(calls['calls']), 'calls')} of a rank"
    peak = found["memory_peak"]
    largest = sorted(peak["categories"].items(), key=lambda item: -item[1])[:MOST]
    parts = ", ".join(f"{format_quantity(size, 'bytes')} {name.replace('_', ' ')}" for name, size in largest)
    place = f"in {peak['module']}" if peak["module"] else "outside modules"
    yield "memory peak", format_quantity(peak["bytes"], "bytes"), f"{place}: {parts}"
    unknown = found["priced_by_bytes"]
    if unknown:
        names = ", ".join(list(unknown)[:MOST]) + (", ..." if len(unknown) > MOST else "")
        yield "by bytes", counted(sum(unknown.values()), "operators"), f"have no model but their bytes: {names}"
    if found["samples_per_rank"] is None:
        yield "samples", "unknown", "throughput counts steps of ranks; --samples N, or step.samples = N"

"""Output of ``import``: contents, breakdown, and gaps of the traces."""

from __future__ import annotations

from dlrmsim.cli.printing import text_console
from dlrmsim.pages.traces import gap_lines
from dlrmsim.verbs.import_traces import ImportTracesResult
from reports.numbers import percent, seconds
from reports.text_table import TextTable

STEPS_SHOWN = 16


def print_import(finished: ImportTracesResult) -> None:
    """Print an import for people."""
    from rich.text import Text

    console, imported = text_console(), finished.imported
    traced = len(imported.ranks)
    ranks = f"{traced:,} of {imported.world_size:,} ranks" if traced < imported.world_size else f"{traced:,} ranks"
    device = f", {imported.device}" if imported.device else ""
    console.print(Text(f"{imported.format}: {ranks}{device}", style="bold"))
    console.print(Text("  found  " + ", ".join(f"{count:,} {what}" for what, count in imported.found.items())))
    if finished.analysis is not None:
        console.print(_steps(finished))
    for row in imported.collectives:
        console.print(
            Text(f"  {row.op} on {row.nodes} x {row.ranks_per_node}: {row.bytes:,.0f} B in {seconds(row.time_s)}")
        )
    for line in gap_lines(imported):
        console.print(Text.assemble(("  gap    ", "yellow"), line))
    if not imported.gaps:
        console.print(Text("  nothing is missing"))
    if finished.folder is not None:
        page = finished.folder / "report.html"
        console.print(
            Text.assemble(("  wrote  ", "dim"), str(page if page.exists() else finished.folder)), soft_wrap=True
        )


def _steps(finished: ImportTracesResult) -> TextTable:
    """The first steps of the first ranks."""
    made = TextTable(indent=2).numbers("rank").words("step")
    made.numbers("length", "compute", "exposed comm", "waiting", "exposed copy", "idle", "idle: host")
    rows = finished.analysis.steps if finished.analysis else ()
    for row in rows[:STEPS_SHOWN]:
        whole = row.step_s or 1.0
        parts = (
            row.compute_s, row.exposed_comm_s, row.exposed_waiting_s, row.exposed_copy_s, row.idle_s, row.idle_host_s
        )  # fmt: skip
        made.add_row(str(row.rank), row.step, seconds(row.step_s), *(percent(part / whole) for part in parts))
    if len(rows) > STEPS_SHOWN:
        made.add_row("...", f"{len(rows) - STEPS_SHOWN:,} more in summary.json")
    return made

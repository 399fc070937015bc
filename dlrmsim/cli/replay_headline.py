"""Output of `replay`: the step before and after, the methods that converted kernels to another GPU, and gaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlrmsim.cli.printing import text_console
from dlrmsim.verbs.replay import ReplayResult
from reports.numbers import percent, seconds
from reports.text_table import TextTable


def print_replay(finished: ReplayResult) -> None:
    """Print a replay for people."""
    from rich.text import Text

    console, changes = text_console(), finished.changes
    found: Mapping[str, Any] = finished.summary
    where = (
        f"on {changes.cluster}" if changes.cluster else "as measured" if not changes.any else "transfers as measured"
    )
    head = f"{found['format']}, {found['ranks']:,} of {finished.before.world_size:,} ranks, {where}"
    console.print(Text(head, style="bold"))
    if found["world_size"] != finished.before.world_size:
        console.print(Text(f"  on        {found['world_size']:,} ranks"))
    console.print(Text(f"  takes     {seconds(found['makespan_s'])}"))
    if "measured_makespan_s" in found:
        console.print(Text(f"  measured  {seconds(found['measured_makespan_s'])}"))
    if "largest_error_s" in found:
        console.print(Text(f"  largest difference of a task's end  {seconds(found['largest_error_s'])}"))
    if "step" in found and changes.any:
        console.print(_steps(found["measured_step"], found["step"]))
    if finished.methods:
        console.print(_methods(finished))
    for gap in finished.after.gaps:
        console.print(Text(f"  gap       {gap.words}"))
    if finished.folder is not None:
        console.print(Text(f"  wrote     {finished.folder}"), soft_wrap=True)


def _steps(before: Mapping[str, float], after: Mapping[str, float]) -> TextTable:
    """Parts of the mean step."""
    made = TextTable(indent=2).words("mean step").numbers("measured", "replayed", "change")
    for part, was in before.items():
        now = after[part]
        change = f"{100 * (now / was - 1):+.1f} %" if was else ""
        made.add_row(part.removesuffix("_s").replace("_", " "), seconds(was), seconds(now), change)
    return made


def _methods(finished: ReplayResult) -> TextTable:
    """Share of the kernels' time by method."""
    made = TextTable(indent=2).words("kernels by").numbers("tasks", "share", "measured", "replayed")
    whole = sum(method.before_s for method in finished.methods) or 1.0
    for m in finished.methods:
        made.add_row(
            str(m.method), f"{m.tasks:,}", percent(m.before_s / whole), seconds(m.before_s), seconds(m.after_s)
        )
    return made

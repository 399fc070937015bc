"""Output of `replay`: times and bound, changes, measured and replayed time of each part, assumptions."""

from __future__ import annotations

from collections.abc import Iterator

from dlrmsim.cli.printing import text_console
from dlrmsim.verbs.replay import ReplayResult
from inputs.quantities import format_quantity
from reports.numbers import percent, seconds
from reports.replay_words import change_in_words, times_in_words
from reports.text_table import TextTable
from traces.replay.record import ReplayRecord

COLLECTIVES_SHOWN = 5
"""Number of collectives in the terminal; the page has more."""


def print_replay(finished: ReplayResult) -> None:
    """Print a replay for people."""
    from rich.text import Text

    console, record = text_console(), finished.record
    ranks = f"{finished.summary['ranks']:,} of {finished.before.world_size:,} ranks"
    console.print(Text(f"{finished.before.format}, {ranks}: {record.title}", style="bold"))
    for line in _answer(finished):
        console.print(Text(f"  {line}"))
    for line in record.changed:
        console.print(Text.assemble(("  changed  ", "dim"), line))
    if record.parts and finished.changes.any:
        console.print(_parts(record))
    if record.collectives and finished.changes.any:
        console.print(_collectives(record))
    if record.methods:
        console.print(_methods(record))
    for line in record.assumed:
        console.print(Text.assemble(("  assumed  ", "yellow"), line))
    gaps = len(finished.after.gaps) - len(record.assumed)
    if gaps > 0:
        where = "the page and --json list them" if finished.folder is not None else "--json lists them"
        console.print(
            Text.assemble(("  gaps     ", "yellow"), f"{gaps:,} kind{'s' if gaps > 1 else ''} in the traces: {where}")
        )
    if finished.folder is not None:
        console.print(Text.assemble(("  wrote    ", "dim"), str(finished.folder)), soft_wrap=True)


def _answer(finished: ReplayResult) -> Iterator[str]:
    """Replayed and measured time of the step, or the makespan; the bound; slower kernels."""
    record, found = finished.record, finished.summary
    if record.parts:
        yield times_in_words(record)
    elif finished.before.measured is not None:
        yield f"takes {seconds(found['makespan_s'])}, measured {seconds(found['measured_makespan_s'])}"  # type: ignore[arg-type]
    else:
        yield f"takes {seconds(found['makespan_s'])}"  # type: ignore[arg-type]
    if "largest_error_s" in found:
        yield f"largest difference of a task's end: {seconds(found['largest_error_s'])}"  # type: ignore[arg-type]
    if record.bound is not None:
        yield record.bound.finding
    yield from record.slower


def _parts(record: ReplayRecord) -> TextTable:
    """Parts of the mean step."""
    made = TextTable(indent=2).words("mean step").numbers("measured", "replayed", "change")
    for part in record.parts:
        name = part.name.replace("_", " ")
        made.add_row(name, *times_of(part.measured_s, part.replayed_s), change_in_words(part.change))
    return made


def times_of(measured_s: float | None, replayed_s: float | None) -> tuple[str, str]:
    """Measured and replayed time; a dash for a missing one."""
    return ("-" if measured_s is None else seconds(measured_s), "-" if replayed_s is None else seconds(replayed_s))


def _collectives(record: ReplayRecord) -> TextTable:
    """Transfers of the longest collectives."""
    made = TextTable(indent=2).words("collective, transfer").numbers("size", "measured", "replayed", "change")
    for row in record.collectives[:COLLECTIVES_SHOWN]:
        part, size = row.transfer, format_quantity(row.bytes, "bytes")
        made.add_row(row.name, size, *times_of(part.measured_s, part.replayed_s), change_in_words(part.change))
    if len(record.collectives) > COLLECTIVES_SHOWN:
        made.add_row(f"{len(record.collectives) - COLLECTIVES_SHOWN:,} more on the page")
    return made


def _methods(record: ReplayRecord) -> TextTable:
    """Share of the kernels' time by method."""
    made = TextTable(indent=2).words("kernels by").numbers("tasks", "share", "measured", "replayed")
    whole = sum(method.before_s for method in record.methods) or 1.0
    for m in record.methods:
        made.add_row(
            str(m.method), f"{m.tasks:,}", percent(m.before_s / whole), seconds(m.before_s), seconds(m.after_s)
        )
    return made

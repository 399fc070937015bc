"""Section of a replay: changes, and the measured and replayed time of every part of the step."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from inputs.quantities import format_quantity
from reports.markup import PageSection, TableRow, number, table
from reports.numbers import percent, seconds
from reports.replay_words import change_in_words
from traces.replay.record import Compared, ReplayRecord

PART_NAMES = {
    "step": "step", "compute": "computation", "exposed_comm": "exposed communication",
    "exposed_waiting": "of it waiting", "exposed_copy": "exposed copies", "idle": "idle",
    "idle_host": "of it for the host", "comm": "all communication", "copy": "all copies", "host": "host threads",
}  # fmt: skip
"""Parts of a step in words."""
SHOWN = 200
"""Maximum number of collectives in the table."""


def replay_section(record: ReplayRecord) -> PageSection:
    """Changes, parts of the step, collectives, kernels by method, assumptions."""
    return PageSection(
        anchor="replay",
        title="Replayed and measured",
        short="Replay",
        lede=f"The traces were {record.title.replace('; measured', ', and measured')}. Times are means over ranks and "
        "steps; transfers run from the last rank's arrival to the end.",
        body="".join(_pieces(record)),
    )


def _pieces(record: ReplayRecord) -> Iterator[str]:
    lines = [*record.changed, *(f"assumed: {line}" for line in record.assumed), *record.slower]
    if lines:
        yield f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
    if record.parts:
        rows = (_row((PART_NAMES[part.name],), part) for part in record.parts)
        head = ["part of the mean step", "measured", "replayed", "change"]
        yield "<h3>Parts of the step</h3>" + table(head, rows, numbers=(1, 2, 3))
    if record.collectives:
        rows = (_row((c.name, _bytes(c.bytes)), c.transfer) for c in record.collectives[:SHOWN])
        head = ["collective", "size", "measured transfer", "replayed transfer", "change"]
        yield "<h3>Collectives</h3>" + table(head, rows, numbers=(1, 2, 3, 4))
    if record.methods:
        yield "<h3>Kernels on the other GPU</h3>" + _methods(record)


def _bytes(size: float) -> str:
    return format_quantity(size, "bytes")


def _row(names: tuple[str, ...], times: Compared) -> TableRow:
    change = number(change_in_words(times.change), times.change or 0.0)
    cells = (number("-" if t is None else seconds(t), t or 0.0) for t in (times.measured_s, times.replayed_s))
    first, *others = names
    return TableRow((first, *(number(text, 0.0) for text in others), *cells, change))


def _methods(record: ReplayRecord) -> str:
    """Share of the kernels' time by method."""
    whole = sum(method.before_s for method in record.methods) or 1.0
    rows = (
        TableRow(
            (
                str(m.method),
                number(f"{m.tasks:,}", m.tasks),
                number(percent(m.before_s / whole), m.before_s / whole, share=100 * m.before_s / whole),
                number(seconds(m.before_s), m.before_s),
                number(seconds(m.after_s), m.after_s),
            )
        )
        for m in record.methods
    )
    head = ("kernels by", "tasks", "share", "measured, all ranks and steps", "replayed")
    return table(head, rows, numbers=(1, 2, 3, 4))

"""Section of the breakdown: the chosen ranks as bars, all ranks as a distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from reports.columns import encode_integers
from reports.findings import RunTimes, hidden_in_words
from reports.markup import Cell, PageSection, TableRow, number, strong, table
from reports.numbers import PS_PER_NS, percent, picoseconds
from simulator.analysis.breakdown import PARTS, TOTALS, Breakdown
from simulator.analysis.ranks import SLOWEST

_WORDS = {
    "compute": ("compute", "a compute kernel runs"),
    "exposed_comm": ("exposed communication", "a collective is open and nothing is computed"),
    "exposed_copy": ("exposed copy", "a copy runs, nothing is computed nor communicated"),
    "idle": ("idle", "none of these"),
    "comm": ("all communication", "durations of all collectives, hidden or not, from arrival to end"),
    "copy": ("all copies", "durations of all copies, hidden or not"),
    "host": ("host", "durations of all host tasks: kernel launches and the like"),
    "waiting": ("waiting for other ranks", "the part of communication before the last rank arrives"),
    "input_waiting": ("waiting for input", "the part of idle time in which only the next batch is missing"),
}

_PARTS = '<div class="card"><div class="plot" id="parts-chart"></div>{note}</div>'
_NOTE = f'<p class="note">The slowest rank {SLOWEST}; the fastest is at the other end of this order.</p>'
_RANKS = """<div class="card"><div class="controls"><h3 style="margin:0">All {count} ranks</h3>
<span class="spacer"></span>
<label>in order of <select id="ranks-order"><option value="rank">rank number</option>
<option value="compute">compute</option><option value="exposed_comm">exposed communication</option>
<option value="idle">idle</option></select></label></div>
<div class="plot" id="ranks-chart"></div><p class="note">Click a rank to see it in the timeline.</p></div>
<h3>Over all {ranks}</h3>"""
"""The distribution over ranks, for jobs of more than one."""


def breakdown_section(findings: RunTimes) -> PageSection:
    """Bars of mean, slowest, fastest and median rank, the distribution, and a table over all ranks."""
    hidden, numbers = hidden_in_words(findings.training)
    count = len(findings.breakdown.ranks)
    return PageSection(
        anchor="breakdown",
        title="Where the time goes",
        short="Breakdown",
        lede=strong(
            f"compute + exposed communication + exposed copy + idle = the iteration, on every rank.{hidden}", *numbers
        ),
        body="".join(
            [
                _PARTS.format(note=_NOTE if count > 1 else ""),
                _distribution(findings) if count > 1 else "",
                _table(findings),
                _roles(findings),
            ]
        ),
        payload={"breakdown": _bars(findings), "ranks": _columns(findings.breakdown)},
    )


def _distribution(findings: RunTimes) -> str:
    """The distribution over all ranks, and the heading of the table over those that train."""
    return _RANKS.format(count=f"{len(findings.breakdown.ranks):,}", ranks=findings.training_name)


def _bars(findings: RunTimes) -> list[dict[str, Any]]:
    """Parts in ns of the mean over ranks that train and of the chosen ranks; one bar where there is one rank."""
    breakdown, chosen = findings.training, findings.chosen
    bars = [
        {"label": f"mean of all {findings.training_name}"}
        | {p: float(_of(breakdown, p).mean()) / PS_PER_NS for p in PARTS}
    ]
    if len(breakdown.ranks) == 1:
        return [bars[0] | {"label": f"rank {breakdown.ranks[0]}"}]
    for role in ("slowest", "fastest", "median"):
        rank = getattr(chosen, role)
        place = int(np.flatnonzero(breakdown.ranks == rank)[0])
        parts = {p: float(_of(breakdown, p)[place]) / PS_PER_NS for p in PARTS}
        bars.append({"label": f"{role}: rank {rank}"} | parts)
    return bars


def _columns(breakdown: Breakdown) -> dict[str, str]:
    """Parts in ns of every rank, packed, in ascending order of rank."""
    order = np.argsort(breakdown.ranks)
    columns = {part: _of(breakdown, part)[order] // PS_PER_NS for part in PARTS}
    return {"rank": encode_integers(breakdown.ranks[order])} | {n: encode_integers(c) for n, c in columns.items()}


def _of(breakdown: Breakdown, name: str) -> Any:
    return getattr(breakdown, f"{name}_ps")


def _roles(findings: RunTimes) -> str:
    """Mean times of the ranks of each role; empty where all do the same."""
    if not findings.roles:
        return ""
    head = ("", "ranks", *(_words(findings, part)[0] for part in PARTS), "waiting for other ranks")
    rows = [
        TableRow(
            (name, number(f"{len(of.ranks):,}", len(of.ranks)), *(_mean(of, part) for part in (*PARTS, "waiting")))
        )
        for name, of in findings.roles.items()
    ]
    return f"<h3>By role, mean over its ranks</h3>{table(head, rows, numbers=range(1, 7))}"


def _mean(breakdown: Breakdown, name: str) -> Cell:
    """Mean over ranks as a share of the iteration."""
    mean = float(_of(breakdown, name).mean())
    share = mean / max(breakdown.window.length_ps, 1)
    return number(_share(share), mean, share=min(100.0 * share, 100.0))


def _share(share: float) -> str:
    """A share of the iteration; a mean number where several run at once, as total durations may be longer than it."""
    return percent(share) if share <= 1.0 else f"{share:.1f} at once"


def _words(findings: RunTimes, name: str) -> tuple[str, str]:
    """Label and meaning of a part or total; no kernel runs on a CPU while its framework works."""
    if name == "idle" and findings.on_cpus:
        return ("framework, idle", "none of these: the framework works between kernels, or nothing does")
    return _WORDS[name]


def _table(findings: RunTimes) -> str:
    breakdown = findings.training
    length = picoseconds(float(breakdown.window.length_ps))
    head = (
        "",
        "mean",
        f"of iteration {breakdown.window.iteration}, {length}",
        "lowest",
        "median",
        "highest",
        "on rank",
        "meaning",
    )
    rows = [_row(breakdown, name, _words(findings, name)) for name in (*PARTS, *TOTALS)]
    return table(head, rows, numbers=range(1, 7))


def _row(breakdown: Breakdown, name: str, words: tuple[str, str]) -> TableRow:
    values = _of(breakdown, name)
    mean = float(values.mean())
    label, meaning = words
    rank = int(breakdown.ranks[int(values.argmax())])
    spread = (values.min(), np.median(values), values.max())
    cells = (number(picoseconds(float(v)), float(v)) for v in spread)
    share = _mean(breakdown, name)
    return TableRow(
        (
            label,
            number(picoseconds(mean), mean),
            share,
            *cells,
            number("any" if values.min() == values.max() else str(rank), rank),
            meaning,
        )
    )

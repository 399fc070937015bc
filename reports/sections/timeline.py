"""The timeline: tasks of the chosen ranks and of a sample of the others."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from string import Template
from typing import Any

import numpy as np

from reports.columns import encode_integers
from reports.findings import RunTimes
from reports.markup import PageSection
from reports.numbers import PS_PER_NS, rounded_ns
from reports.operator_words import KIND_NAMES, describe, kind_of
from reports.page import asset
from simulator.analysis.critical_path import CriticalPath
from simulator.analysis.window import Window
from simulator.engine import EngineRun
from simulator.program import IntArray, Program

MAX_EMBEDDED_ROWS = 250_000
"""Rows (rank x iteration x task) a page holds at most, besides the chosen ranks: about 2 MB of text."""

_MORE = "timeline.parquet has the tasks of every recorded rank."


def timeline_section(findings: RunTimes) -> PageSection:
    """Every chosen rank, and as many evenly spaced others as the page may hold."""
    embedded, world_size = embedded_ranks(findings), len(findings.result.ranks)
    body = Template(asset("timeline.html")).substitute(
        options=_options(findings, embedded),
        last_rank=str(world_size - 1),
        legend=_legend(findings.programs),
        embedded=_embedded_words(findings, len(embedded)),
    )
    return PageSection(
        anchor="timeline",
        title="Timeline",
        short="Timeline",
        lede="One lane per stream of each rank (another where its tasks overlap), one iteration wide. Hatched: a rank "
        "has arrived at a collective and waits for the last one.",
        body=body,
        payload={"timeline": _payload(findings, embedded)},
    )


def embedded_ranks(findings: RunTimes, *, max_rows: int = MAX_EMBEDDED_ROWS) -> IntArray:
    """Global ranks whose tasks the page holds, ascending.

    All when they fit into ``max_rows`` rows; otherwise the chosen ones, those asked for, and an even sample.
    """
    ranks = np.sort(findings.result.ranks)
    rows_per_rank = max(p.task_count for p in findings.programs) * len(findings.result.records)
    most = max(max_rows // max(rows_per_rank, 1), 1)
    if len(ranks) <= most:
        return ranks
    sample = ranks[np.linspace(0, len(ranks) - 1, most).round().astype(np.int64)]
    wanted = np.array([*(rank for _, rank in _roles(findings)), *findings.asked_ranks], dtype=np.int64)
    return np.union1d(sample, np.intersect1d(wanted, ranks))


def _payload(findings: RunTimes, embedded: IntArray) -> dict[str, Any]:
    programs, result, window = findings.programs, findings.result, findings.breakdown.window
    group_of = _group_of(programs, embedded)
    return {
        "world_size": len(result.ranks),
        "ranks": embedded.tolist(),
        "group_of": group_of.tolist(),
        "groups": [_group(program) for program in programs],
        "roles": [{"role": role, "rank": rank} for role, rank in _roles(findings)],
        "shown": _shown(findings, embedded),
        "iterations": [
            {"index": r.iteration, "end": rounded_ns(int(result.iteration_end_ps[r.iteration]) - window.start_ps)}
            for r in result.records
        ],
        "window": [0, rounded_ns(window.length_ps)],
        "critical": _critical(findings.critical_path, embedded),
        "columns": _columns(programs, result, window, embedded, group_of),
        "more": _MORE,
    }


def _group_of(programs: Sequence[Program], ranks: IntArray) -> IntArray:
    """Number of the program group of each rank ``[R]``."""
    group = np.zeros(len(ranks), dtype=np.int64)
    for number, program in enumerate(programs):
        group[np.isin(ranks, program.ranks)] = number
    return group


def _group(program: Program) -> dict[str, Any]:
    return {
        "streams": [stream.name for stream in program.streams],
        "names": list(program.names),
        "sections": list(program.sections),
        "stream_of": program.stream_of.tolist(),
        "kinds": [kind_of(work) for work in program.work],
        "details": [describe(work) for work in program.work],
    }


def _columns(
    programs: Sequence[Program], result: EngineRun, window: Window, ranks: IntArray, group_of: IntArray
) -> dict[str, str]:
    """Start, duration and waiting in ns, rank by rank, iteration by iteration, task by task."""
    blocks = [
        _rank_block(result, group, int(np.searchsorted(programs[group].ranks, rank)))
        for rank, group in zip(ranks.tolist(), group_of.tolist(), strict=True)
    ]
    rows = np.concatenate(blocks, axis=1)
    start = (rows[0] - window.start_ps) // PS_PER_NS
    end = (rows[1] - window.start_ps) // PS_PER_NS
    waiting = rows[2] // PS_PER_NS
    columns = {"start": start, "duration": end - start, "waiting": np.minimum(waiting, end - start)}
    return {name: encode_integers(values) for name, values in columns.items()}


def _rank_block(result: EngineRun, group: int, column: int) -> IntArray:
    """Start, end and waiting in ps of one rank ``[3, iterations * T]``."""
    times = [record.groups[group].of(slice(column, column + 1)) for record in result.records]
    parts = ([getattr(t, name)[:, 0] for t in times] for name in ("start_ps", "end_ps", "waiting_ps"))
    return np.stack([np.concatenate(part) for part in parts])


def _critical(path: CriticalPath, embedded: IntArray) -> list[list[Any]]:
    """[rank, iteration, task] of the segments on embedded ranks."""
    present = set(embedded.tolist())
    return [[s.rank, s.iteration, s.task] for s in path.segments if s.rank in present]


def _roles(findings: RunTimes) -> list[tuple[str, int]]:
    """Ranks worth a look, with the reason."""
    chosen = findings.chosen
    return [
        ("slowest", chosen.slowest),
        ("fastest", chosen.fastest),
        ("median", chosen.median),
        ("first", chosen.first),
        ("critical path", _critical_rank(findings)),
    ]


def _shown(findings: RunTimes, embedded: IntArray) -> list[int]:
    """Ranks drawn first: those asked for, else the slowest, the fastest and the one the critical path is on."""
    asked = [rank for rank in findings.asked_ranks if rank in set(embedded.tolist())]
    chosen = findings.chosen
    return list(dict.fromkeys(asked or (chosen.slowest, chosen.fastest, _critical_rank(findings))))


def _critical_rank(findings: RunTimes) -> int:
    """The rank that most of the critical path is on; the lowest of equals."""
    lengths: dict[int, int] = {}
    for segment in findings.critical_path.segments:
        lengths[segment.rank] = lengths.get(segment.rank, 0) + segment.length_ps
    return max(sorted(lengths), key=lambda rank: lengths[rank], default=findings.chosen.slowest)


def _options(findings: RunTimes, embedded: IntArray) -> str:
    named = [f'<option value="{rank}">{rank} ({role})</option>' for role, rank in _roles(findings)]
    others = [f'<option value="{rank}">{rank}</option>' for rank in embedded.tolist()]
    groups = {"Chosen": named, "All in this file": others}
    return "".join(f'<optgroup label="{label}">{"".join(options)}</optgroup>' for label, options in groups.items())


def _legend(programs: Sequence[Program]) -> str:
    used = {kind_of(work) for program in programs for work in program.work}
    kinds = "".join(
        f'<span><i style="background:var(--{kind.replace("_", "-")})"></i>{escape(name)}</span>'
        for kind, name in KIND_NAMES.items()
        if kind in used
    )
    waiting = '<span><i class="waiting"></i>waiting for other ranks</span>'
    return f'{kinds}{waiting}<span><i class="critical"></i>on the critical path</span>'


def _embedded_words(findings: RunTimes, embedded: int) -> str:
    iterations = " and ".join(str(record.iteration) for record in findings.result.records)
    world_size = len(findings.result.ranks)
    what = f"This file holds the tasks of iterations {iterations}"
    if embedded == world_size:
        return f"{what} on all {world_size:,} ranks."
    return (
        f"{what} on {embedded:,} of {world_size:,} ranks: the chosen ones and an even sample; {_MORE} Breakdown and "
        "distribution are over all ranks."
    )

"""The page of a search for strategies: time against memory, and a table of all that were looked at."""

from __future__ import annotations

from html import escape
from typing import Any

from inputs.quantities import format_quantity
from reports.markup import PageSection, TableRow, number, options_marked, strong, table, terms, text, tile
from reports.numbers import percent, seconds
from reports.page import assemble
from reports.strategy_tables import CAPTION, cells, columns, command, extent, finding, time_in_words
from scenarios.strategies import StrategyStudy

MOST_ROWS = 500
"""Largest number of rows of a table."""


def render_strategies(study: StrategyStudy, version: str) -> str:
    """The page, self-contained and offline."""
    resolved, best = study.resolved, study.best
    found = [_sentence(words) for words in (finding(study), extent(study), command(study).strip())]
    headline = strong(
        "Fastest of {} strategies: {}, {} an iteration.",
        f"{study.count:,}",
        best.in_words(),
        seconds(best.iteration_time_s or 0.0),
    )
    return assemble(
        "page.html",
        styles=("page.css",),
        scripts=("payload.js", "format.js", "theme.js", "charts.js", "tables.js", "divisions.js"),
        sections=_sections(study),
        title=escape(f"{resolved.name}, strategies of layers"),
        version=escape(version),
        headline=headline.html,
        findings="".join(f'<p class="finding">{text(options_marked(words))}</p>' for words in found),
        tiles=_tiles(study),
        facts=terms(
            [
                ("Model", resolved.model.name),
                ("Cluster", resolved.cluster.name),
                ("GPUs", f"{resolved.world_size:,}, {resolved.cluster.node.ranks} per node"),
                (study.unit.capitalize(), f"{resolved.global_batch_size:,} an iteration"),
            ]
        ),
        footer=f"Planned by dlrmsim {escape(version)}.",
    )


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _tiles(study: StrategyStudy) -> str:
    best = study.best
    time, held = (
        seconds(best.iteration_time_s or 0.0).split(" "),
        format_quantity(best.memory_bytes, "bytes").split(" "),
    )
    share = percent(best.memory_bytes / study.capacity_bytes)
    return "".join(
        (
            tile("Iteration", time[0], time[1], "simulated with these strategies"),
            tile("Throughput", f"{study.rate(best):,.0f}", f"{study.unit}/s", "of each GPU"),
            tile("Fullest GPU", held[0], held[1], f"{share} of its memory"),
            tile("Exposed", percent(best.exposed_comm or 0.0), "", "communication without computation"),
        )
    )


def _sections(study: StrategyStudy) -> tuple[PageSection, ...]:
    chart = '<div class="card"><div class="plot" id="divisions-chart"></div></div>'
    lede = "Time against the memory of the fullest GPU, of runs that were not given up; the line is usable memory."
    words = _sentence(CAPTION)
    found = [
        PageSection("strategies", "Time and memory", "Time and memory", lede, chart, {"plan": _payload(study)}),
        PageSection("simulated", "Strategies that fit", "Strategies that fit", words, _simulated(study)),
    ]
    if study.bounded:
        title = f"Not simulated ({len(study.bounded):,})"
        lede = (
            "No iteration of theirs ends sooner: kernels and exchanges alone, links that they share, chains of tasks."
        )
        found.append(PageSection("bounded", title, "Not simulated", lede, _bounded(study)))
    if study.refused:
        title = f"Refused ({len(study.refused):,})"
        lede = "Strategies without room, and those that model or batch do not allow."
        found.append(PageSection("refused", title, "Refused", lede, _refused(study)))
    return tuple(found)


def _payload(study: StrategyStudy) -> dict[str, Any]:
    shown = [
        {
            "words": found.in_words(),
            "batches": f"{study.rate(found):,.0f} {study.unit}/s of each GPU",
            "short": found.in_words() if found is study.best else "",
            "s": found.iteration_time_s,
            "gb": found.memory_bytes / 1e9,
            "kind": "the fastest" if found is study.best else "the scenario's" if found.own else "others",
        }
        for found in study.simulated
        if found.iteration_time_s is not None
    ]
    return {"divisions": shown, "capacity": study.capacity_bytes / 1e9}


def _simulated(study: StrategyStudy) -> str:
    head, first = (*columns(study), "iteration", f"{study.unit}/s/GPU", "memory", "exposed", ""), len(columns(study))
    rows = []
    for found in study.simulated:
        time_s, exposed = found.iteration_time_s or found.slower_than_s or 0.0, found.exposed_comm or 0.0
        ran, rate = found.iteration_time_s is not None, study.rate(found)
        rows.append(
            TableRow(
                (
                    *cells(study, found),
                    number(time_in_words(found), time_s),
                    number(f"{rate:,.0f}" if ran else "", rate),
                    number(format_quantity(found.memory_bytes, "bytes"), found.memory_bytes),
                    number(percent(exposed) if ran else "", exposed),
                    "the scenario's" if found.own else "",
                )
            )
        )
    return table(head, rows, numbers=tuple(range(first, first + 4)))


def _bounded(study: StrategyStudy) -> str:
    names = columns(study)
    rows = [
        TableRow((*(words.get(name, "") for name in names), number(f"at least {seconds(least_s)}", least_s)))
        for least_s, words in study.bounded[:MOST_ROWS]
    ]
    return table((*names, "iteration"), rows, numbers=(len(names),))


def _refused(study: StrategyStudy) -> str:
    names = columns(study)
    rows = [
        TableRow(
            (
                *cells(study, found),
                number(format_quantity(found.memory_bytes, "bytes") if found.memory_bytes else "", found.memory_bytes),
                found.refusal,
            )
        )
        for found in study.refused[:MOST_ROWS]
    ]
    return table((*names, "memory", "why"), rows, numbers=(len(names),))

"""The page of a search for strategies: time against memory, and tables of all strategies of the search."""

from __future__ import annotations

from functools import partial

from inputs.quantities import format_quantity
from reports.markup import PageSection, TableRow, number, table
from reports.numbers import percent, seconds
from reports.plan_page import sentence
from reports.search_page import chart_section, page_of_search, search_tiles
from reports.strategy_tables import CAPTION, cells, columns, command, extent, finding, time_in_words
from scenarios.strategies import StrategyFound, StrategyStudy

MOST_ROWS = 500
"""Largest number of rows of a table."""


def render_strategies(study: StrategyStudy, version: str) -> str:
    """The page, self-contained and offline."""
    return page_of_search(
        study,
        version,
        title="strategies of layers",
        choices="strategies",
        best=study.best.in_words(),
        findings=(finding(study), extent(study), command(study)),
        tiles=search_tiles(study, "simulated with these strategies"),
        sections=_sections(study),
    )


def _sections(study: StrategyStudy) -> tuple[PageSection, ...]:
    lede = "Time against the memory of the fullest GPU for complete runs; the line is usable memory."
    title = "Strategies that fit"
    found = [
        chart_section(study, "strategies", lede, partial(_point, study)),
        PageSection("simulated", title, title, sentence(CAPTION), _simulated(study)),
    ]
    if study.bounded:
        title = f"Not simulated ({len(study.bounded):,})"
        lede = "Lower bounds of the iteration time: kernels and exchanges alone, shared links, chains of tasks."
        found.append(PageSection("bounded", title, "Not simulated", lede, _bounded(study)))
    if study.refused:
        title = f"Refused ({len(study.refused):,})"
        lede = "Strategies that do not fit into memory, and strategies that model, batch or `transform` do not allow."
        found.append(PageSection("refused", title, "Refused", lede, _refused(study)))
    return tuple(found)


def _point(study: StrategyStudy, found: StrategyFound) -> dict[str, str]:
    return {
        "words": found.in_words(),
        "batches": f"{study.rate(found):,.0f} {study.unit}/s of each GPU",
        "short": found.in_words() if found is study.best else "",
    }


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

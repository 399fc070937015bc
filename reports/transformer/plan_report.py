"""The page of a transformer's divisions: time against memory, and a table of all that were looked at."""

from __future__ import annotations

from inputs.quantities import format_quantity
from reports.markup import PageSection, TableRow, number, table, tile
from reports.numbers import percent, seconds
from reports.plan_page import sentence
from reports.search_page import chart_section, page_of_search, search_tiles
from reports.transformer.plan_tables import (
    CAPTION,
    HEAD,
    SIZES,
    cells,
    command,
    excess_in_words,
    extent,
    finding,
    has_sites,
    in_words,
    sites_in_words,
)
from scenarios.transformer.plan_study import TransformerPlanStudy
from scenarios.transformer.search import DivisionFound

MOST_REFUSED = 500
"""Largest number of rows in the page's table of divisions that do not fit; the nearest to fitting come first."""


def render_plan(study: TransformerPlanStudy, version: str) -> str:
    """The page, self-contained and offline."""
    bubble = tile("Bubble", percent(study.best.bubble), "", "of equal stages with free messages")
    return page_of_search(
        study,
        version,
        title="division among GPUs",
        choices="divisions",
        best=in_words(study.best),
        findings=(finding(study), extent(study), command(study)),
        tiles=search_tiles(study, "simulated with this division", bubble),
        sections=_sections(study),
    )


def _sections(study: TransformerPlanStudy) -> tuple[PageSection, ...]:
    lede = (
        "Each division that was simulated: its time against the memory of its fullest GPU; the line is usable memory."
    )
    title = "Divisions that fit"
    found = [
        chart_section(study, "divisions", lede, _point),
        PageSection("simulated", title, title, sentence(CAPTION), _simulated(study)),
    ]
    if study.refused:
        title = f"Divisions without room ({len(study.refused):,})"
        cut = "" if len(study.refused) <= MOST_REFUSED else f" The {MOST_REFUSED} nearest to fitting are listed."
        lede = f"They might be faster than the fastest that fits, by their kernels and exchanges alone.{cut}"
        found.append(PageSection("refused", title, "Divisions without room", lede, _refused(study)))
    return tuple(found)


def _point(found: DivisionFound) -> dict[str, str]:
    return {
        "words": in_words(found),
        "batches": f"{found.microbatches} micro-batches of {found.micro_batch}",
        "short": "x".join(str(getattr(found, name)) for name in SIZES),
    }


def _simulated(study: TransformerPlanStudy) -> str:
    sites = ("sites in order",) if has_sites(study) else ()
    head = (*HEAD, "memory", "iteration", "tokens/s/GPU", "bubble", "exposed", "", *sites)
    return table(head, [_row(study, found) for found in study.simulated], numbers=(*range(6), *range(8, 13)))


def _row(study: TransformerPlanStudy, found: DivisionFound) -> TableRow:
    time_s, exposed = found.iteration_time_s or 0.0, found.exposed_comm or 0.0
    rate = study.rate(found)
    return TableRow(
        (
            *cells(found),
            number(format_quantity(found.memory_bytes, "bytes"), found.memory_bytes),
            number(seconds(time_s), time_s),
            number(f"{rate:,.0f}", rate),
            number(percent(found.bubble), found.bubble),
            number(percent(exposed), exposed),
            "the scenario's" if found.own else "",
            *((sites_in_words(found),) if has_sites(study) else ()),
        )
    )


def _refused(study: TransformerPlanStudy) -> str:
    rows = [
        TableRow(
            (
                *cells(found),
                number(format_quantity(found.memory_bytes, "bytes"), found.memory_bytes),
                number(f"at least {seconds(found.least_time_s)}", found.least_time_s),
                excess_in_words(found),
            )
        )
        for found in study.refused[:MOST_REFUSED]
    ]
    head = (*HEAD, "memory", "iteration", "why it does not fit")
    return table(head, rows, numbers=(*range(6), 8, 9))

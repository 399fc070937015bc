"""The page of a transformer's divisions: time against memory, and a table of all that were looked at."""

from __future__ import annotations

from html import escape
from typing import Any

from inputs.quantities import format_quantity
from reports.markup import Markup, PageSection, TableRow, number, options_marked, strong, table, terms, text, tile
from reports.numbers import percent, seconds
from reports.page import assemble
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
"""Largest number of divisions that do not fit in the table of the page; the nearest to fitting come first."""


def render_plan(study: TransformerPlanStudy, version: str) -> str:
    """The page, self-contained and offline."""
    resolved = study.resolved
    found = [f"{finding(study).capitalize()}.", f"{extent(study)}.", f"{command(study).strip().capitalize()}."]
    return assemble(
        "page.html",
        styles=("page.css",),
        scripts=("payload.js", "format.js", "theme.js", "charts.js", "tables.js", "divisions.js"),
        sections=_sections(study),
        title=escape(f"{resolved.name}, division among GPUs"),
        version=escape(version),
        headline=_headline(study).html,
        findings="".join(f'<p class="finding">{text(options_marked(words))}</p>' for words in found),
        tiles=_tiles(study),
        facts=terms(
            [
                ("Model", resolved.model.name),
                ("Cluster", resolved.cluster.name),
                ("GPUs", f"{resolved.world_size:,}, {resolved.cluster.node.ranks} per node"),
                ("Tokens", f"{resolved.global_batch_size:,} an iteration"),
            ]
        ),
        footer=f"Planned by dlrmsim {escape(version)}.",
    )


def _headline(study: TransformerPlanStudy) -> Markup:
    return strong(
        "Fastest of {} divisions: {}, {} an iteration.",
        f"{study.count:,}",
        in_words(study.best),
        seconds(study.best.iteration_time_s or 0.0),
    )


def _tiles(study: TransformerPlanStudy) -> str:
    best = study.best
    time, held = (
        seconds(best.iteration_time_s or 0.0).split(" "),
        format_quantity(best.memory_bytes, "bytes").split(" "),
    )
    return "".join(
        (
            tile("Iteration", time[0], time[1], "simulated with this division"),
            tile("Throughput", f"{study.rate(best):,.0f}", "tokens/s", "of each GPU"),
            tile("Fullest GPU", held[0], held[1], f"{percent(best.memory_bytes / study.capacity_bytes)} of its memory"),
            tile("Bubble", percent(best.bubble), "", "of equal stages with free messages"),
            tile("Exposed", percent(best.exposed_comm or 0.0), "", "communication without computation"),
        )
    )


def _sections(study: TransformerPlanStudy) -> tuple[PageSection, ...]:
    chart = '<div class="card"><div class="plot" id="divisions-chart"></div></div>'
    lede = (
        "Each division that was simulated: its time against the memory of its fullest GPU; the line is usable memory."
    )
    found = [
        PageSection("divisions", "Time and memory", "Time and memory", lede, chart, {"plan": _payload(study)}),
        PageSection("simulated", "Divisions that fit", "Divisions that fit", _sentence(CAPTION), _simulated(study)),
    ]
    if study.refused:
        title = f"Divisions without room ({len(study.refused):,})"
        cut = "" if len(study.refused) <= MOST_REFUSED else f" The {MOST_REFUSED} nearest to fitting are listed."
        lede = f"They might be faster than the fastest that fits, by their kernels and exchanges alone.{cut}"
        found.append(PageSection("refused", title, "Divisions without room", lede, _refused(study)))
    return tuple(found)


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _payload(study: TransformerPlanStudy) -> dict[str, Any]:
    shown = [
        {
            "words": in_words(found),
            "batches": f"{found.microbatches} micro-batches of {found.micro_batch}",
            "short": "x".join(str(getattr(found, name)) for name in SIZES),
            "s": found.iteration_time_s,
            "gb": found.memory_bytes / 1e9,
            "kind": "the fastest" if found is study.best else "the scenario's" if found.own else "others",
        }
        for found in study.simulated
    ]
    return {"divisions": shown, "capacity": study.capacity_bytes / 1e9}


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

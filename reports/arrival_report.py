"""The page of arriving jobs: blocking of each choice of nodes against the time of a job, and tables."""

from __future__ import annotations

from html import escape
from math import isfinite
from typing import Any

from reports.arrival_words import arrival_sentences, arrival_warnings, choices_table, kinds_table
from reports.markup import Cell, PageSection, TableRow, strong, table, terms, tile
from reports.numbers import counted, percent
from reports.page import assemble
from reports.text_table import TextTable
from scenarios.arrivals.choices import MOST
from scenarios.arrivals.study import ArrivalAdvice, ChoiceResult

S_PER_HOUR = 3600.0


def render_arrivals(advice: ArrivalAdvice, version: str) -> str:
    """The page, self-contained and offline."""
    first, *others = arrival_sentences(advice)
    jobs = advice.jobs
    return assemble(
        "page.html",
        styles=("page.css",),
        scripts=("payload.js", "format.js", "theme.js", "charts.js", "tables.js", "arrivals.js"),
        sections=_sections(advice),
        title=escape(f"{advice.name}, arriving jobs"),
        version=escape(version),
        headline=strong("{}", first.removeprefix(f"{advice.name}: ").capitalize()).html,
        findings="".join(f'<p class="finding">{escape(words)}</p>' for words in others),
        tiles=_tiles(advice.best),
        facts=terms(
            [
                ("Jobs", jobs.title or advice.name),
                ("Cluster", f"{jobs.cluster}, {counted(jobs.nodes, 'nodes')}"),
                ("Arrivals", f"{jobs.arrivals_per_hour:g} an hour (Poisson, seed {jobs.seed})"),
                ("Queue", "none: a job that finds too few free nodes is blocked" if jobs.queue is None else "yes"),
            ]
        ),
        footer=f"Simulated by dlrmsim {escape(version)}.",
    )


def _tiles(best: ChoiceResult) -> str:
    found = best.statistics
    if found is None:
        return ""
    made = [
        tile("Blocked", percent(found.blocking.value), "", "of the jobs, with the best choice"),
        tile("Used", percent(found.utilisation.value), "", "of the nodes' time"),
        tile("Finished", f"{S_PER_HOUR * found.finished_per_s.value:.3g}", "jobs/h", "that start; each of them ends"),
    ]
    return "".join(made)


def _sections(advice: ArrivalAdvice) -> tuple[PageSection, ...]:
    chart = '<div class="card"><div class="plot" id="arrivals-chart"></div></div>'
    lede = "Each point is a choice of nodes for the same jobs; bars are one standard error. Below and left is better."
    choices, kinds = choices_table(advice), kinds_table(advice)
    found = [
        PageSection("choices", "Blocking and time", "Blocking", lede, chart, {"choices": _payload(advice)}),
        PageSection("table", "All choices", "All choices", _sentence(choices.title), _html(choices)),
        PageSection("times", "Jobs", "Jobs", _sentence(kinds.title), _html(kinds)),
    ]
    warnings = arrival_warnings(advice)
    if warnings:
        items = "".join(f"<li>{escape(words)}</li>" for words in warnings)
        found.append(PageSection("warnings", "Warnings", "Warnings", "", f"<ul>{items}</ul>"))
    return tuple(found)


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _html(made: TextTable) -> str:
    """A table of the terminal as one of the page."""
    numbers = tuple(place for place, column in enumerate(made.columns) if not column.words)
    rows = [TableRow(tuple(Cell(cell, style="number" * (place in numbers)) for place, cell in enumerate(cells)))
            for cells, _ in made.rows]  # fmt: skip
    return table([column.name for column in made.columns], rows, numbers=numbers)


def _payload(advice: ArrivalAdvice) -> list[dict[str, Any]]:
    """Choices with jobs that finish: completion in hours, blocking in per cent, each with its standard error."""
    shown = []
    for result in advice.results:
        found = result.statistics
        if found is None or not isfinite(found.completion_s.value):
            continue
        kind = "the best" if result is advice.best else MOST if result is advice.most else "others"
        shown.append(
            {
                "name": result.choice.name,
                "kind": kind,
                "h": found.completion_s.value / S_PER_HOUR,
                "h_error": found.completion_s.standard_error / S_PER_HOUR,
                "blocked": 100 * found.blocking.value,
                "blocked_error": 100 * found.blocking.standard_error,
            }
        )
    return shown

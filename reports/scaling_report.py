"""The page of a sweep: throughput, efficiency, breakdown and bound against the number of ranks or another key."""

from __future__ import annotations

from html import escape
from typing import Any

from reports.markup import Cell, Markup, PageSection, TableRow, number, table, terms
from reports.numbers import percent, rate_in_words, seconds, singular, usd
from reports.page import assemble
from reports.scaling_study import ObjectiveCurve, ScalingPoint, ScalingStudy, fastest
from reports.scaling_words import findings, headline, kept, rate, tiles
from reports.sections.provenance import warnings_section
from reports.size_notes import DOUBTFUL
from simulator.analysis.breakdown import PARTS

_BAND = "Band: 8 in 10 such jobs."
_BARS = "Thin lines: 8 in 10 such jobs."
_HOLLOW = f"Hollow: a warning concerns {DOUBTFUL:.0%} of the task time or more."
_STATUS = {"ok": "ran", "infeasible": "does not fit", "refused": "refused", "error": "failed"}


def render_scaling(study: ScalingStudy) -> str:
    """The page of a sweep, self-contained and offline."""
    return assemble(
        "page.html",
        styles=("page.css",),
        scripts=("payload.js", "format.js", "theme.js", "charts.js", "tables.js", "scaling.js"),
        sections=scaling_sections(study),
        title=escape(study.name),
        version=escape(study.version),
        headline=headline(study).html,
        findings="".join(f'<p class="finding">{s.html}</p>' for s in findings(study)),
        tiles=tiles(study),
        facts=terms([("Model", study.model), ("Cluster", study.cluster), *study.facts.items()]),
        footer=f"Simulated by dlrmsim {escape(study.version)}.",
    )


def scaling_sections(study: ScalingStudy) -> tuple[PageSection, ...]:
    """The sections of the page."""
    several, sized, rank = len(study.lines) > 1, not study.over, singular(study.rank_name)
    ideal = f"Dotted: as if every {rank} trained as fast as at the smallest size. " if sized and not several else ""
    cross = "Crosses: no result; they name the reason. " * (several and len(study.results) < len(study.points))
    curve = study.objective
    shown = [] if curve is None else [_chart("objective", curve.title, "Each size that ran, by the objective.")]
    shown += [
        _chart("throughput", "Throughput", f"{ideal}{cross}{_BAND} {_HOLLOW}" if study.numeric else f"{cross}{_BARS}")
    ]
    first = "the first point of the line that ran" if several else "the smallest size that ran"
    if sized:
        shown.append(_chart("efficiency", "Efficiency", f"Throughput per {rank}, divided by its value at {first}."))
    if several or not sized:
        shown.append(
            _chart("speedup", "Speedup", "Throughput, divided by its value at the first point of the line that ran.")
        )
    saved = "Fraction of the iteration time that a class saves when it is 10 % better."
    shown.append(_chart("breakdown", "Where the time goes", "The mean rank's iteration at each point.", study))
    shown.append(_chart("bound", "What bounds it", saved, study))
    lede = f"{study.scaling.capitalize()} scaling: {kept(study)}. " if study.scaling else ""
    noun = "points" if several or not sized else "sizes"
    lede += f"{noun.capitalize()} without a result are gaps."
    all_points = PageSection("points", f"All {noun}", f"All {noun}", lede, _table(study), {"scaling": _payload(study)})
    lines = [
        PageSection(
            "lines", "Lines", "Lines", f"Each line has its own {' and '.join(study.beside)}.", _lines_table(study)
        )
    ] * several
    return (*lines, *shown, all_points, warnings_section(warnings_of(study)))


def warnings_of(study: ScalingStudy) -> list[str]:
    """Warnings on all points; a warning of some of several lines has their names in front."""
    lines: dict[str, list[str]] = {}
    for line, alone in study.by_line.items():
        for note in alone.notes:
            lines.setdefault(note.words(), []).append(line)
    return [
        words if len(named) == len(study.lines) else f"{'; '.join(named)}: {words}" for words, named in lines.items()
    ]


def _chart(anchor: str, title: str, lede: str, study: ScalingStudy | None = None) -> PageSection:
    """A chart of all lines, or with ``study`` one of each line."""
    names = study.lines if study is not None and len(study.lines) > 1 else ()
    cards = "".join(_card(f"{anchor}-chart-{place}", name) for place, name in enumerate(names))
    body = f'<div class="cards">{cards}</div>' if cards else _card(f"{anchor}-chart")
    return PageSection(anchor, title, title, lede, body)


def _card(anchor: str, title: str = "") -> str:
    head = f"<h3>{escape(title)}</h3>" if title else ""
    return f'<div class="card">{head}<div class="plot" id="{anchor}"></div></div>'


def _payload(study: ScalingStudy) -> dict[str, Any]:
    return {
        "over": study.over,
        "numeric": study.numeric,
        "unit": study.unit,
        "rank_name": study.rank_name,
        "marks": [{"place": place, "words": words} for place, words in study.marks.items()],
        "objective": None if study.objective is None else _curve(study.objective),
        "lines": [{"name": line, "points": _points(alone)} for line, alone in study.by_line.items()],
    }


def _curve(curve: ObjectiveCurve) -> dict[str, Any]:
    places = [{"place": place, "value": value} for place, value in curve.values.items()]
    return {"unit": curve.unit, "places": places}


def _points(study: ScalingStudy) -> list[dict[str, Any]]:
    """Points of a line."""
    doubtful = {tick for note in study.notes for tick, share in note.shares.items() if (share or 0.0) >= DOUBTFUL}
    return [
        {
            "place": p.position,
            "tick": p.tick,
            "at": study.at(p.tick),
            "world_size": p.world_size,
            "status": p.status,
            "words": _STATUS[p.status],
            "iteration_s": p.iteration_time_s,
            "throughput": p.throughput_per_s,
            "throughput_p10": p.throughput_p10_per_s,
            "throughput_p90": p.throughput_p90_per_s,
            "efficiency": p.efficiency,
            "speedup": p.speedup,
            "shares": {part: p.shares.get(part, 0.0) for part in PARTS},
            "gains": dict(p.gains),
            "message": p.message,
            "doubtful": p.tick in doubtful,
            "warnings": list(p.warnings),
        }
        for p in study.ordered
    ]


def _lines_table(study: ScalingStudy) -> str:
    """A row for each line: its fastest and its last point."""
    sized = not study.over
    head = ("line", "ran", "highest throughput", "at", *["efficiency at the last"] * sized, "bound at the last")
    return table(head, (_line_row(line, alone) for line, alone in study.by_line.items()), numbers=range(1, 4 + sized))


def _line_row(line: str, study: ScalingStudy) -> TableRow:
    results, sized = study.results, not study.over
    ran = number(f"{len(results)} of {len(study.points)}", len(results))
    if not results:
        return TableRow((line, ran, *("",) * (2 + sized), "-"))
    best, last = fastest(results), results[-1]
    speed = number(rate(best, study.unit), best.throughput_per_s or 0.0)
    efficiency = number(f"{percent(last.efficiency or 0.0)} at {last.tick}", last.efficiency or 0.0)
    return TableRow(
        (line, ran, speed, number(best.tick, best.position), *[efficiency] * sized, last.bound or "nothing")
    )


def _table(study: ScalingStudy) -> str:
    priced, several = any(p.million_usd is not None for p in study.results), len(study.lines) > 1
    head: tuple[str, ...] = (study.rank_name, "nodes", "global batch", "iteration", "8 in 10", "throughput")
    head += (*["efficiency"] * (not study.over), *["speedup"] * bool(several or study.over), "exposed comm")
    head += (f"$ per M {study.unit}",) * priced
    names = (*["line"] * several, *[study.over] * bool(study.over))
    rows = (_row(point, study, several=several, priced=priced) for point in study.ordered)
    return table((*names, *head, "bound", "status"), rows, numbers=range(len(names), len(names) + len(head)))


def _row(point: ScalingPoint, study: ScalingStudy, *, several: bool, priced: bool) -> TableRow:
    sized = not study.over
    batch = point.global_batch_size
    cells: list[Cell | str] = [*[point.line] * several, *[Cell(point.tick, point.position)] * (not sized)]
    cells += [number(f"{size:,}", size) for size in (point.world_size, point.nodes)]
    cells.append("" if batch is None else number(f"{batch:,}", batch))
    if point.status != "ok":
        return TableRow(
            (*cells, *("",) * (5 + sized + (several or not sized) + priced), Cell(_why(point), style="wide"))
        )
    exposed, price = point.shares.get("exposed_comm", 0.0), point.million_usd or 0.0
    speeds = [number(percent(point.efficiency or 0.0), point.efficiency or 0.0)] * sized
    speeds += [number(f"{point.speedup or 0.0:.3g}", point.speedup or 0.0)] * (several or not sized)
    return TableRow(
        (
            *cells,
            number(seconds(point.iteration_time_s or 0.0), point.iteration_time_s or 0.0),
            number(*_span(point)),
            number(" ".join(rate_in_words(point.throughput_per_s or 0.0, study.unit)), point.throughput_per_s or 0.0),
            *speeds,
            number(percent(exposed), exposed),
            *([number(usd(price), price)] * priced),
            point.bound or "nothing",
            _STATUS["ok"],
        )
    )


def _span(point: ScalingPoint) -> tuple[str, float]:
    """Ends of the iteration time in words, and the upper one; a dash without them."""
    low, high = point.iteration_time_p10_s, point.iteration_time_p90_s
    return ("-", 0.0) if low is None or high is None else (f"{seconds(low)} to {seconds(high)}", high)


def _why(point: ScalingPoint) -> Markup:
    """Reason of a missing result; its numbers and settings that help are folded."""
    words = escape(f"{_STATUS[point.status]}: {point.message}")
    if not point.details:
        return Markup(words)
    lines = "".join(f"<li>{escape(line)}</li>" for line in point.details)
    return Markup(f"{words}<details><summary>Numbers, and settings that help</summary><ul>{lines}</ul></details>")

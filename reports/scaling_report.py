"""The page of a scaling study: throughput, efficiency, breakdown and bound against world_size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

from reports.markup import Cell, Markup, Row, Section, number, strong, table, terms, tile
from reports.numbers import percent, rate_in_words, seconds, usd
from reports.page import assemble
from reports.sections.provenance import warnings_section
from reports.size_notes import DOUBTFUL, SizeNote, size_notes
from simulator.analysis.breakdown import PARTS


@dataclass(frozen=True, slots=True)
class ScalingPoint:
    """One size of a scaling study; results are None unless the status is ``ok``.

    Attributes:
        world_size: ranks.
        nodes: nodes they fill.
        global_batch_size: samples per iteration.
        status: ``ok``, ``infeasible`` (does not fit) or ``error``.
        throughput_per_s: throughput, in the unit of the study, per second.
        efficiency: throughput per rank over that of the smallest size that ran.
        million_usd: price of a million of the unit, USD; None without a price of GPUs.
        shares: each part of the iteration (`simulator.analysis.breakdown.PARTS`) as a share, mean over ranks.
        bound: joint class that bounds the iteration, and its main resource; None without a bound.
        gains: gain of each joint class when it is 10 % better.
        warnings: warnings on the results.
        message: reason of a missing result, one line.
        details: further lines of the reason: memory tiers, and settings that help.
        throughput_p10_per_s: a tenth of such jobs is slower.
        throughput_p90_per_s: a tenth of such jobs is faster.
        iteration_time_p10_s: a tenth of such iterations is shorter, seconds.
        iteration_time_p90_s: a tenth of such iterations is longer, seconds.
    """

    world_size: int
    nodes: int
    global_batch_size: int
    status: Literal["ok", "infeasible", "error"]
    iteration_time_s: float | None = None
    throughput_per_s: float | None = None
    efficiency: float | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    bound: str | None = None
    gains: Mapping[str, float] = field(default_factory=dict)
    million_usd: float | None = None
    warnings: Sequence[str] = ()
    message: str = ""
    details: Sequence[str] = ()
    throughput_p10_per_s: float | None = None
    throughput_p90_per_s: float | None = None
    iteration_time_p10_s: float | None = None
    iteration_time_p90_s: float | None = None


@dataclass(frozen=True, slots=True)
class ScalingStudy:
    """Results of a sweep.

    Attributes:
        name: name of the scenario.
        model: name of the model.
        cluster: name of the cluster.
        scaling: ``weak`` keeps the local batch, ``strong`` the global one.
        points: one per size, in any order.
        facts: further (name, value) pairs.
        version: version of this tool.
        unit: unit of throughput, a plural noun.
    """

    name: str
    model: str
    cluster: str
    scaling: Literal["weak", "strong"]
    points: Sequence[ScalingPoint]
    facts: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    unit: str = "samples"

    @property
    def ordered(self) -> list[ScalingPoint]:
        """The points by ascending world_size."""
        return sorted(self.points, key=lambda p: p.world_size)

    @property
    def notes(self) -> list[SizeNote]:
        """Warnings of all sizes."""
        return size_notes({p.world_size: p.warnings for p in self.ordered})

    @property
    def results(self) -> list[ScalingPoint]:
        """The points that ran, by ascending world_size."""
        return [p for p in self.ordered if p.status == "ok"]


_KEPT = {"weak": "the batch of each GPU stays the same", "strong": "the global batch stays the same"}
_BAND = "Band: 8 in 10 such jobs."
_HOLLOW = f"Hollow: a warning concerns {DOUBTFUL:.0%} of the task time or more."
_STATUS = {"ok": "ran", "infeasible": "does not fit", "error": "failed"}


def render_scaling(study: ScalingStudy) -> str:
    """The page of a scaling study, self-contained and offline."""
    return assemble(
        "page.html",
        styles=("page.css",),
        scripts=("payload.js", "format.js", "theme.js", "charts.js", "tables.js", "scaling.js"),
        sections=scaling_sections(study),
        title=escape(study.name),
        version=escape(study.version),
        headline=headline(study).html,
        findings="".join(f'<p class="finding">{s.html}</p>' for s in findings(study)),
        tiles=_tiles(study),
        facts=terms([("Model", study.model), ("Cluster", study.cluster), *study.facts.items()]),
        footer=f"Simulated by dlrmsim {escape(study.version)}.",
    )


def headline(study: ScalingStudy) -> Markup:
    """The fastest size, the largest size, and the efficiency of scaling."""
    what, results = escape(f"{study.model}, {study.scaling} scaling"), study.results
    if not results:
        return Markup(f"{what}: none of the {len(study.points)} sizes ran.")
    best, last = fastest(study), results[-1]
    claim = strong(" to {} GPUs: {}", f"{last.world_size:,}", _speed(best, study.unit))
    turn = strong(", the most, and {}", _speed(last, study.unit)) if best is not last else Markup("")
    return Markup(f"{what} from {results[0].world_size:,}{claim.html}{turn.html}.")


def fastest(study: ScalingStudy) -> ScalingPoint:
    """The smallest of the sizes with the highest throughput."""
    return max(study.results, key=lambda p: p.throughput_per_s or 0.0)


def _speed(point: ScalingPoint, unit: str) -> str:
    rate = " ".join(rate_in_words(point.throughput_per_s or 0.0, unit))
    return f"{rate} at {point.world_size:,} ({percent(point.efficiency or 0.0)} efficiency)"


def findings(study: ScalingStudy) -> tuple[Markup, ...]:
    """The bound at each size, warnings that concern much of the time, and the sizes that did not run."""
    missing = [p for p in study.ordered if p.status != "ok"]
    sentences = [Markup(escape(_bounds(study.results)))] if study.results else []
    sentences += [Markup(f"<em>Warning</em> {escape(note.words())}.") for note in study.notes if note.doubtful]
    if missing:
        sizes = ", ".join(f"{p.world_size:,}" for p in missing)
        sentences.append(strong("No result at {} GPUs: see the table for the numbers.", sizes))
    return tuple(sentences)


def _bounds(results: Sequence[ScalingPoint]) -> str:
    """Runs of sizes with the same bound, as a sentence."""
    runs: list[tuple[str, int, int]] = []
    for point in results:
        name = point.bound or "nothing"
        if runs and runs[-1][0] == name:
            runs[-1] = (name, runs[-1][1], point.world_size)
        else:
            runs.append((name, point.world_size, point.world_size))
    spans = [f"{name} {'at' if a == b else 'from'} {a:,}{'' if a == b else f' to {b:,}'} GPUs" for name, a, b in runs]
    return f"The iteration is bound by {'; '.join(spans)}."


def _tiles(study: ScalingStudy) -> str:
    results = study.results
    if not results:
        return ""
    best = fastest(study)
    value, unit = rate_in_words(best.throughput_per_s or 0.0, study.unit)
    efficient = [p for p in results if (p.efficiency or 0.0) >= 0.8]
    first, last = results[0], results[-1]
    exposed = [p.shares.get("exposed_comm", 0.0) for p in (first, last)]
    return "".join(
        (
            tile("Highest throughput", value, unit, f"at {best.world_size:,} GPUs"),
            tile(
                "Efficient up to",
                f"{efficient[-1].world_size:,}" if efficient else "-",
                "GPUs",
                f"80 % of the throughput per GPU at {first.world_size:,}",
            ),
            tile(
                "Exposed communication",
                f"{100 * exposed[1]:.1f}",
                "%",
                f"at {last.world_size:,} GPUs; {percent(exposed[0])} at {first.world_size:,}",
            ),
            *_price_tile(results, study.unit),
            tile("Sizes that ran", f"{len(results)}", f"of {len(study.points)}", _KEPT[study.scaling]),
        )
    )


def _price_tile(results: Sequence[ScalingPoint], unit: str) -> list[str]:
    """The size with the cheapest samples, where GPUs have a price."""
    prices = {p.world_size: p.million_usd for p in results if p.million_usd is not None}
    if not prices:
        return []
    size = min(prices, key=lambda world_size: prices[world_size])
    return [tile(f"Cheapest {unit}", usd(prices[size]), "per million", f"at {size:,} GPUs")]


def scaling_sections(study: ScalingStudy) -> tuple[Section, ...]:
    """The sections of the page."""
    charts = (
        (
            "throughput",
            "Throughput",
            f"Dotted: as if every GPU trained as fast as at the smallest size. {_BAND} {_HOLLOW}",
        ),
        ("efficiency", "Efficiency", "Throughput per GPU over that of the smallest size that ran."),
        ("breakdown", "Where the time goes", "The mean rank's iteration at each size."),
        ("bound", "What bounds it", "Fraction of the iteration time that a class saves when it is 10 % better."),
    )
    sections = [Section(a, title, title, lede, _card(f"{a}-chart")) for a, title, lede in charts]
    lede = f"{study.scaling.capitalize()} scaling: {_KEPT[study.scaling]}. Sizes without a result are gaps."
    points = Section("points", "All sizes", "All sizes", lede, _table(study), {"scaling": _payload(study)})
    return (*sections, points, warnings_section([note.words() for note in study.notes]))


def _card(anchor: str) -> str:
    return f'<div class="card"><div class="plot" id="{anchor}"></div></div>'


def _payload(study: ScalingStudy) -> list[dict[str, Any]]:
    doubtful = {size for note in study.notes for size, share in note.shares.items() if (share or 0.0) >= DOUBTFUL}
    return [
        {
            "world_size": p.world_size,
            "status": p.status,
            "words": _STATUS[p.status],
            "iteration_s": p.iteration_time_s,
            "unit": study.unit,
            "throughput": p.throughput_per_s,
            "throughput_p10": p.throughput_p10_per_s,
            "throughput_p90": p.throughput_p90_per_s,
            "efficiency": p.efficiency,
            "shares": {part: p.shares.get(part, 0.0) for part in PARTS},
            "gains": dict(p.gains),
            "message": p.message,
            "doubtful": p.world_size in doubtful,
            "warnings": list(p.warnings),
        }
        for p in study.ordered
    ]


def _table(study: ScalingStudy) -> str:
    priced = any(p.million_usd is not None for p in study.results)
    head: tuple[str, ...] = (
        "GPUs",
        "nodes",
        "global batch",
        "iteration",
        "8 in 10",
        "throughput",
        "efficiency",
        "exposed comm",
    )
    head += (f"$ per M {study.unit}",) * priced
    rows = (_row(point, study.unit, priced=priced) for point in study.ordered)
    return table((*head, "bound", "status"), rows, numbers=range(len(head)))


def _row(point: ScalingPoint, unit: str, *, priced: bool) -> Row:
    sizes = (point.world_size, point.nodes, point.global_batch_size)
    cells = [number(f"{size:,}", size) for size in sizes]
    if point.status != "ok":
        return Row((*cells, *("",) * (6 + priced), Cell(_why(point), style="wide")))
    exposed, price = point.shares.get("exposed_comm", 0.0), point.million_usd or 0.0
    return Row(
        (
            *cells,
            number(seconds(point.iteration_time_s or 0.0), point.iteration_time_s or 0.0),
            number(*_span(point)),
            _rate(point.throughput_per_s or 0.0, unit),
            number(percent(point.efficiency or 0.0), point.efficiency or 0.0),
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


def _rate(rate: float, unit: str) -> Cell:
    return number(" ".join(rate_in_words(rate, unit)), rate)

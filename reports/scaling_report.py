"""The page of a scaling study: throughput, efficiency, breakdown and bound against world_size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

from reports.markup import Cell, Markup, Row, Section, number, strong, table, terms, tile
from reports.numbers import percent, samples_per_s, seconds
from reports.page import assemble
from simulator.analysis.breakdown import PARTS


@dataclass(frozen=True, slots=True)
class ScalingPoint:
    """One size of a scaling study; results are None unless the status is ``ok``.

    Attributes:
        world_size: ranks.
        nodes: nodes they fill.
        global_batch_size: samples per iteration.
        status: ``ok``, ``infeasible`` (does not fit) or ``error``.
        throughput_samples_per_s: samples trained per second.
        efficiency: throughput per rank over that of the smallest size that ran.
        shares: each part of the iteration (`simulator.analysis.breakdown.PARTS`) as a share, mean over ranks.
        bound: joint class that bounds the iteration, and the resource that it mostly is; None when none does.
        gains: gain of each joint class when it is 10 % better.
        message: why there is no result, with numbers.
    """

    world_size: int
    nodes: int
    global_batch_size: int
    status: Literal["ok", "infeasible", "error"]
    iteration_time_s: float | None = None
    throughput_samples_per_s: float | None = None
    efficiency: float | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    bound: str | None = None
    gains: Mapping[str, float] = field(default_factory=dict)
    message: str = ""


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
    """

    name: str
    model: str
    cluster: str
    scaling: Literal["weak", "strong"]
    points: Sequence[ScalingPoint]
    facts: Mapping[str, str] = field(default_factory=dict)
    version: str = ""

    @property
    def ordered(self) -> list[ScalingPoint]:
        """The points by ascending world_size."""
        return sorted(self.points, key=lambda p: p.world_size)

    @property
    def results(self) -> list[ScalingPoint]:
        """The points that ran, by ascending world_size."""
        return [p for p in self.ordered if p.status == "ok"]


_KEPT = {"weak": "the batch of each GPU stays the same", "strong": "the global batch stays the same"}
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
    """First and last size, and how well the job scales."""
    what, results = escape(f"{study.model}, {study.scaling} scaling"), study.results
    if not results:
        return Markup(f"{what}: none of the {len(study.points)} sizes ran.")
    last = results[-1]
    claim = strong(
        " to {} at {} GPUs, with {} efficiency.",
        " ".join(samples_per_s(last.throughput_samples_per_s or 0.0)),
        f"{last.world_size:,}",
        percent(last.efficiency or 0.0),
    )
    return Markup(f"{what} from {results[0].world_size:,} GPUs{claim.html}")


def findings(study: ScalingStudy) -> tuple[Markup, ...]:
    """The bound at each size, and the sizes that did not run."""
    missing = [p for p in study.ordered if p.status != "ok"]
    sentences = [Markup(escape(_bounds(study.results)))] if study.results else []
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
    fastest = max(results, key=lambda p: p.throughput_samples_per_s or 0.0)
    value, unit = samples_per_s(fastest.throughput_samples_per_s or 0.0)
    efficient = [p for p in results if (p.efficiency or 0.0) >= 0.8]
    first, last = results[0], results[-1]
    exposed = [p.shares.get("exposed_comm", 0.0) for p in (first, last)]
    return "".join(
        (
            tile("Highest throughput", value, unit, f"at {fastest.world_size:,} GPUs"),
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
            tile("Sizes that ran", f"{len(results)}", f"of {len(study.points)}", _KEPT[study.scaling]),
        )
    )


def scaling_sections(study: ScalingStudy) -> tuple[Section, ...]:
    """The sections of the page."""
    charts = (
        ("throughput", "Throughput", "Dotted: as if every GPU trained as fast as at the smallest size."),
        ("efficiency", "Efficiency", "Throughput per GPU over that of the smallest size that ran."),
        ("breakdown", "Where the time goes", "The mean rank's iteration at each size."),
        ("bound", "What bounds it", "How much of the iteration is saved when all of a class is 10 % better."),
    )
    sections = [Section(a, title, title, lede, _card(f"{a}-chart")) for a, title, lede in charts]
    lede = f"{study.scaling.capitalize()} scaling: {_KEPT[study.scaling]}. Sizes without a result are gaps."
    points = Section("points", "All sizes", "All sizes", lede, _table(study), {"scaling": _payload(study)})
    return (*sections, points)


def _card(anchor: str) -> str:
    return f'<div class="card"><div class="plot" id="{anchor}"></div></div>'


def _payload(study: ScalingStudy) -> list[dict[str, Any]]:
    return [
        {
            "world_size": p.world_size,
            "status": p.status,
            "words": _STATUS[p.status],
            "iteration_s": p.iteration_time_s,
            "throughput": p.throughput_samples_per_s,
            "efficiency": p.efficiency,
            "shares": {part: p.shares.get(part, 0.0) for part in PARTS},
            "gains": dict(p.gains),
            "message": p.message,
        }
        for p in study.ordered
    ]


def _table(study: ScalingStudy) -> str:
    head = ("GPUs", "nodes", "global batch", "iteration", "throughput", "efficiency", "exposed comm", "bound", "status")
    return table(head, (_row(point) for point in study.ordered), numbers=range(7))


def _row(point: ScalingPoint) -> Row:
    sizes = (point.world_size, point.nodes, point.global_batch_size)
    cells = [number(f"{size:,}", size) for size in sizes]
    if point.status != "ok":
        return Row((*cells, *("",) * 5, Cell(f"{_STATUS[point.status]}: {point.message}", style="wide")))
    exposed = point.shares.get("exposed_comm", 0.0)
    return Row(
        (
            *cells,
            number(seconds(point.iteration_time_s or 0.0), point.iteration_time_s or 0.0),
            _rate(point.throughput_samples_per_s or 0.0),
            number(percent(point.efficiency or 0.0), point.efficiency or 0.0),
            number(percent(exposed), exposed),
            point.bound or "nothing",
            _STATUS["ok"],
        )
    )


def _rate(samples: float) -> Cell:
    return number(" ".join(samples_per_s(samples)), samples)

"""Sentences and figures on top of the page of a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from reports.markup import Markup, strong, tile
from reports.numbers import counted, percent, rate_in_words, singular, usd
from reports.scaling_study import ScalingPoint, ScalingStudy, fastest, fastest_line, rivals

EFFICIENT = 0.8
"""Efficiency up to which a size counts as efficient."""


def kept(study: ScalingStudy) -> str:
    """Constant quantity of a sweep in words."""
    if study.scaling is None:
        return "the scenario or the swept key sets the batch"
    of = f"batch of each {singular(study.rank_name)}" if study.scaling == "weak" else "global batch"
    return f"the {of} stays the same"


def headline(study: ScalingStudy) -> Markup:
    """Sentences on the fastest point, the last point and the efficiency, of the fastest line; a claim comes first."""
    what, results = _what(study), study.results
    if study.claims:
        return Markup(escape(study.claims[0]))
    if not results:
        noun = "points" if study.over or len(study.lines) > 1 else "sizes"
        return Markup(f"{escape(what)}: none of {counted(len(study.points), noun)} ran.")
    if len(study.lines) > 1:
        return _of_lines(study)
    best, last = fastest(results), results[-1]
    if study.over:
        slow = min(results, key=lambda p: p.throughput_per_s or 0.0)
        claim = strong(": fastest at {}", f"{study.at(best.tick)}: {rate(best, study.unit)}")
        more = "" if best is slow else f", {ratio(best, slow)} times {study.at(slow.tick)}"
        return Markup(f"{escape(what)}{claim.html}{escape(more)}.")
    claim = strong(" to {}: {}", study.at(last.tick), _speed(best, study))
    turn = strong(", the most, and {}", _speed(last, study)) if best is not last else Markup("")
    return Markup(f"{escape(what)} from {results[0].tick}{claim.html}{turn.html}.")


def _what(study: ScalingStudy) -> str:
    return f"{study.model}, {study.scaling} scaling" if study.scaling else f"{study.model}, over {study.axis}"


def _of_lines(study: ScalingStudy) -> Markup:
    """The fastest and the slowest line at the last value on the axis that several lines have a result at."""
    points = compared(study)
    best, slow = fastest(points), min(points, key=lambda p: p.throughput_per_s or 0.0)
    claim = strong(" {} is the fastest at {}: {}", best.line, study.at(best.tick), rate(best, study.unit))
    size = "" if study.over or best.efficiency is None else f" ({percent(best.efficiency)} efficiency)"
    more = "" if best is slow else f", {ratio(best, slow)} times {slow.line}"
    if rivals(points):
        more += f"; {fastest_line(points)}"
    return Markup(f"{escape(_what(study))}:{claim.html}{escape(size + more)}.")


def compared(study: ScalingStudy) -> list[ScalingPoint]:
    """Points that ran at one value on the axis: the last that several lines share, or the fastest point's value."""
    results = study.results
    shared = [p for p in results if sum(q.position == p.position for q in results) > 1]
    chosen = max(shared, key=lambda p: p.position) if shared and study.numeric else fastest(shared or results)
    return [p for p in results if p.position == chosen.position]


def rate(point: ScalingPoint, unit: str) -> str:
    """Throughput of a point in words."""
    return " ".join(rate_in_words(point.throughput_per_s or 0.0, unit))


def ratio(one: ScalingPoint, other: ScalingPoint) -> str:
    """Ratio of the throughputs of two points, in words."""
    return f"{(one.throughput_per_s or 0.0) / (other.throughput_per_s or 1.0):.3g}"


def _speed(point: ScalingPoint, study: ScalingStudy) -> str:
    return f"{rate(point, study.unit)} at {point.tick} ({percent(point.efficiency or 0.0)} efficiency)"


def findings(study: ScalingStudy) -> tuple[Markup, ...]:
    """The fastest line and the bound along the axis, warnings on much of the time, and points that did not run."""
    several, sentences = len(study.lines) > 1, [Markup(escape(claim)) for claim in study.claims[1:]]
    if several and study.results:
        sentences.append(Markup(escape(_winners(study))))
    for line, alone in study.by_line.items():
        head = strong("{}: ", line).html if several else ""
        if alone.results:
            sentences.append(Markup(f"{head}{escape(_bounds(alone))}"))
        doubtful = [note for note in alone.notes if note.doubtful]
        sentences += [Markup(f"<em>Warning</em> {head}{escape(note.words())}.") for note in doubtful]
        missing = [p.tick for p in alone.ordered if p.status != "ok"]
        if missing:
            gap = strong("No result at {}: see the table for the reasons.", study.at(", ".join(missing)))
            sentences.append(Markup(f"{head}{gap.html}"))
    return tuple(sentences)


def _winners(study: ScalingStudy) -> str:
    """Values on the axis with the same fastest line, as a sentence."""
    positions = sorted({p.position for p in study.results})
    here = [[p for p in study.results if p.position == position] for position in positions]
    return f"Fastest: {_runs(study, ((fastest_line(points), points[0].tick) for points in here))}."


def _bounds(study: ScalingStudy) -> str:
    """Values on the axis with the same bound, as a sentence."""
    return f"The iteration is bound by {_runs(study, ((p.bound or 'nothing', p.tick) for p in study.results))}."


def _runs(study: ScalingStudy, named: Iterable[tuple[str, str]]) -> str:
    """Runs of values on the axis with the same name."""
    runs: list[tuple[str, list[str]]] = []
    for name, tick in named:
        if runs and runs[-1][0] == name:
            runs[-1][1].append(tick)
        else:
            runs.append((name, [tick]))
    return "; ".join(f"{name} {study.span(ticks)}" for name, ticks in runs)


def tiles(study: ScalingStudy) -> str:
    """Figures below the headline."""
    results = study.results
    if not results:
        return ""
    best = fastest(results)
    value, unit = rate_in_words(best.throughput_per_s or 0.0, study.unit)
    where = f"{best.line}, {study.at(best.tick)}" if best.line else f"at {study.at(best.tick)}"
    noun = "Points" if study.over or len(study.lines) > 1 else "Sizes"
    ran = tile(f"{noun} that ran", f"{len(results)}", f"of {len(study.points)}", kept(study))
    own = _several_tiles(study) if len(study.lines) > 1 else _size_tiles(study)
    return "".join((tile("Highest throughput", value, unit, where), *own, *_price_tile(study), ran))


def _size_tiles(study: ScalingStudy) -> list[str]:
    """Efficient sizes of one line, and its exposed communication at the last size or of the fastest value."""
    first, last = study.results[0], study.results[-1]
    if study.over:
        first, last = min(study.results, key=lambda p: p.throughput_per_s or 0.0), fastest(study.results)
    exposed = [p.shares.get("exposed_comm", 0.0) for p in (first, last)]
    note = f"at {study.at(last.tick)}; {percent(exposed[0])} at {first.tick}"
    found = [tile("Exposed communication", f"{100 * exposed[1]:.1f}", "%", note)]
    if not study.over:
        efficient = [p for p in study.results if (p.efficiency or 0.0) >= EFFICIENT]
        each = f"per {singular(study.rank_name)} at {first.tick}"
        note = f"{percent(EFFICIENT).replace('.0', '')} of the throughput {each}"
        found.insert(0, tile("Efficient up to", efficient[-1].tick if efficient else "-", study.rank_name, note))
    return found


def _several_tiles(study: ScalingStudy) -> list[str]:
    """The fastest line over the slowest, and the efficiency of the fastest, at one value on the axis."""
    points = compared(study)
    best, slow = fastest(points), min(points, key=lambda p: p.throughput_per_s or 0.0)
    note = f"{best.line} over {slow.line}, {study.at(best.tick)}"
    found = [tile("Fastest over slowest", ratio(best, slow), "times", note)] if best is not slow else []
    exposed = best.shares.get("exposed_comm", 0.0)
    note = f"of {best.line}, {study.at(best.tick)}; {percent(slow.shares.get('exposed_comm', 0.0))} of {slow.line}"
    return [*found, tile("Exposed communication", f"{100 * exposed:.1f}", "%", note)]


def _price_tile(study: ScalingStudy) -> list[str]:
    """The point with the cheapest samples, where ranks have a price."""
    priced: Sequence[ScalingPoint] = [p for p in study.results if p.million_usd is not None]
    if not priced:
        return []
    best = min(priced, key=lambda p: p.million_usd or 0.0)
    where = f"{best.line}, {study.at(best.tick)}" if best.line else f"at {study.at(best.tick)}"
    return [tile(f"Cheapest {study.unit}", usd(best.million_usd or 0.0), "per million", where)]

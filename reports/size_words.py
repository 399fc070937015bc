"""Advice on the number of devices: sentences, the table of the terminal, and the marks of the page."""

from __future__ import annotations

from dataclasses import replace

from reports.numbers import counted, long_time, percent, rate_in_words, singular, usd
from reports.scaling_study import ObjectiveCurve, ScalingStudy
from reports.text_table import TextTable
from scenarios.size_advice import SizeAdvice, SizeResult


def size_sentences(advice: SizeAdvice) -> tuple[str, ...]:
    """Sentences on the best size, its neighbours, the largest size, and the knee."""
    return (_best(advice), *_beside(advice), _largest(advice), _knee(advice))


def size_table(advice: SizeAdvice) -> TextTable:
    """A row for each size that ran."""
    nodes = advice.axis == "nodes"
    made = TextTable().numbers(*["nodes"] * nodes, advice.rank_name, "throughput", objective_words(advice), "behind")
    made.words("")
    for found in advice.results:
        sizes = (*[f"{found.size:,}"] * nodes, f"{found.world_size:,}")
        rate, value = " ".join(rate_in_words(found.throughput_per_s, advice.unit)), _value(found, advice)
        behind = "-" if found is advice.best else percent(advice.behind(found))
        made.add_row(*sizes, rate, value, behind, _mark(found, advice))
    return made


def size_gaps(advice: SizeAdvice) -> list[str]:
    """A line for each size without a result: the reason."""
    return [f"{at_size(gap.size, advice)}: {gap.reason.splitlines()[0]}" for gap in advice.gaps]


def with_size_advice(study: ScalingStudy, advice: SizeAdvice) -> ScalingStudy:
    """The page of the sweep with the advice: sentences, marks at the knee and the best size, curve of the objective."""
    marks: dict[float, str] = {}
    for found, words in ((advice.knee, "knee"), (advice.best, "best")):
        place = float(found.world_size)
        marks[place] = f"{marks[place]} and {words}" if place in marks else words
    better = "more" if advice.objective == "throughput_per_gpu" else "less"
    title = f"{objective_words(advice).capitalize().replace('gpu', 'GPU')} ({better} is better)"
    factor, unit = _curve_unit(advice)
    curve = ObjectiveCurve(title, unit, {float(found.world_size): found.value / factor for found in advice.results})
    return replace(study, claims=size_sentences(advice), marks=marks, objective=curve)


def objective_words(advice: SizeAdvice) -> str:
    """The objective as a noun."""
    if advice.objective == "throughput_per_gpu":
        return f"throughput of a {singular(advice.rank_name)}"
    if advice.objective == "cost":
        return f"price of a million {advice.unit}"
    return f"time to {_amount(advice.target or 0.0)} {advice.unit}"


def at_size(size: int, advice: SizeAdvice) -> str:
    """A size in a sentence: ``16 nodes``."""
    return counted(size, "nodes" if advice.axis == "nodes" else advice.rank_name)


def _amount(target: float) -> str:
    """An amount in short form: ``90,000`` or ``4e+09``."""
    return f"{target:,.0f}" if target < 1e9 and target.is_integer() else f"{target:g}"


def _curve_unit(advice: SizeAdvice) -> tuple[float, str]:
    """Factor and unit of the chart of the objective."""
    if advice.objective == "throughput_per_gpu":
        return 1.0, f"{advice.unit}/s of a {singular(advice.rank_name)}"
    if advice.objective == "cost":
        return 1.0, f"USD per million {advice.unit}"
    longest = max(found.value for found in advice.results)
    return next(
        ((factor, unit) for factor, unit in ((3600.0, "h"), (60.0, "min")) if longest >= 2 * factor), (1.0, "s")
    )


def _value(found: SizeResult, advice: SizeAdvice) -> str:
    if advice.objective == "throughput_per_gpu":
        return " ".join(rate_in_words(found.value, advice.unit))
    return usd(found.value) if advice.objective == "cost" else long_time(found.value)


def _mark(found: SizeResult, advice: SizeAdvice) -> str:
    words = ["best"] if found is advice.best else ["equal to the best within the interval"] * advice.within(found)
    return ", ".join([*words, *["knee"] * (found is advice.knee)])


def _best(advice: SizeAdvice) -> str:
    best = advice.best
    verb = "is" if best.size == 1 else "are"
    how = f", {advice.scaling} scaling" if advice.scaling else ""
    return (
        f"{advice.name}{how}: {at_size(best.size, advice)} {verb} best by {objective_words(advice)}: "
        f"{_value(best, advice)}."
    )


def _beside(advice: SizeAdvice) -> list[str]:
    """Sentences on the neighbours of the best size with their margins, and on equal sizes within the interval."""
    if not advice.neighbours:
        return ["No other size ran."]
    margins = [f"{at_size(beside.size, advice)} {percent(beside.behind)}" for beside in advice.neighbours]
    found = [f"Behind it: {' and '.join(margins)}."]
    equal = [at_size(each.size, advice) for each in advice.results if each is not advice.best and advice.within(each)]
    if equal:
        best = at_size(advice.best.size, advice)
        found.append(f"Equal to {best} within the interval of the prediction: {', '.join(equal)}.")
    return found


def _largest(advice: SizeAdvice) -> str:
    largest = advice.largest
    words = f"The largest size that ran, {at_size(largest.size, advice)},"
    if largest is advice.best:
        return f"{words} is the best: a larger one may be better still."
    return f"{words} is not the best: it is {percent(advice.behind(largest))} behind."


def _knee(advice: SizeAdvice) -> str:
    knee, device = advice.knee, singular(advice.rank_name)
    if knee is advice.largest:
        return f"No knee up to {at_size(knee.size, advice)}: speedup times efficiency still rises."
    return (
        f"The knee of throughput is at {at_size(knee.size, advice)}: beyond it speedup times efficiency falls, "
        f"as where 1 % more {device}s add less than half a per cent."
    )

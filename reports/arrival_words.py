"""Advice on the nodes of arriving jobs: sentences, warnings and tables of the terminal."""

from __future__ import annotations

from math import isnan

from reports.numbers import counted, long_time, percent
from reports.text_table import TextTable
from scenarios.arrivals.choices import MOST
from scenarios.arrivals.study import DISTINCT_ERRORS, ArrivalAdvice, ChoiceResult
from simulator.queueing.estimates import TAIL, Sampled


def arrival_sentences(advice: ArrivalAdvice) -> tuple[str, ...]:
    """Sentences on the best choice, and on its reduction of blocking against maximum parallelism."""
    best = advice.best
    blocked = "" if best.statistics is None else f", {_fraction(best.statistics.blocking)} of the jobs are blocked"
    found = [f"{advice.name}: best with {best.choice.name} ({_sizes(best, advice)}){blocked}."]
    reduction = advice.reduction
    if best is advice.most:
        found.append(f"No choice is better than {MOST}.")
    elif reduction is not None:
        found.append(f"Its blocking rate is {_fraction(reduction)} lower than with {MOST}.")
    if advice.equal:
        named = ", ".join(result.choice.name for result in advice.equal)
        found.append(f"Equal to it within {DISTINCT_ERRORS:g} standard errors: {named}.")
    return tuple(found)


def arrival_warnings(advice: ArrivalAdvice) -> list[str]:
    """Warnings on offered load above the capacity, deadlines that no size meets, and sizes that do not run."""
    load, nodes = advice.least_offered, advice.jobs.nodes
    found = []
    if load >= 1:
        found.append(
            f"jobs offer {load:.3g} times the time of the {counted(nodes, 'nodes')}, each at the size that takes "
            f"least: at least {percent(1 - 1 / load)} of it is refused whatever their sizes"
        )
    found += [
        f"{name}: {percent(share)} of its jobs have a deadline that none of its sizes meets"
        for name, share in advice.unmet.items()
    ]
    for kind in advice.kinds:
        found += [
            f"{kind.name} on {counted(size, 'nodes')}: {reason.splitlines()[0]}" for size, reason in kind.gaps.items()
        ]
    return found


def kinds_table(advice: ArrivalAdvice) -> TextTable:
    """Table of the time of each kind of job at each of its sizes."""
    sizes = sorted({size for kind in advice.kinds for size in kind.run_s})
    made = TextTable(title="time of a job, by nodes").words("job").numbers(*map(str, sizes))
    for kind in advice.kinds:
        made.add_row(kind.name, *(long_time(kind.run_s[size]) if size in kind.run_s else "-" for size in sizes))
    return made


def choices_table(advice: ArrivalAdvice) -> TextTable:
    """Table with a row for each choice, values with their standard errors."""
    exact = any(result.exact_blocking is not None for result in advice.results)
    made = TextTable(
        title=f"{counted(advice.jobs.simulated_jobs, 'jobs')} with each choice; standard errors in brackets"
    )
    made.words("choice").numbers(
        "offered", "blocked", *["closed form"] * exact, "completion", f"p{TAIL}", "used", "jobs/h"
    )
    for result in advice.results:
        made.add_row(*_choice_row(result, exact=exact))
    return made


def _choice_row(result: ChoiceResult, *, exact: bool) -> list[str]:
    found = result.statistics
    formula = [percent(result.exact_blocking or 0.0)] * exact
    head = [result.choice.name, percent(result.offered)]
    if found is None:
        return [*head, "grows", *formula, "-", "-", "-", "-"]
    times = [_time(found.completion_s), _time(found.completion_tail_s)]
    hourly = Sampled(*(3600 * part for part in (found.finished_per_s.value, found.finished_per_s.standard_error)))
    jobs = f"{hourly.value:.3g} ({hourly.standard_error:.1g})"
    return [*head, _fraction(found.blocking), *formula, *times, _fraction(found.utilisation), jobs]


def _fraction(sampled: Sampled) -> str:
    """A fraction with its standard error in brackets, both in per cent."""
    return f"{100 * sampled.value:.1f} % ({100 * sampled.standard_error:.1f})"


def _time(sampled: Sampled) -> str:
    """A time with its relative standard error; a dash where no job ran."""
    if isnan(sampled.value):
        return "-"
    return f"{long_time(sampled.value)} ({percent(sampled.standard_error / sampled.value)})"


def _sizes(result: ChoiceResult, advice: ArrivalAdvice) -> str:
    """Nodes of each kind under a choice, in words."""
    if result.choice.sizes is None:
        return "as few for each job as meet its deadline"
    named = zip(advice.kinds, result.choice.sizes, strict=True)
    return ", ".join(f"{kind.name} {size}" for kind, size in named)

"""Advice on the nodes of arriving jobs: every choice has the same draws; the best has the lowest blocking rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inputs.errors import InfeasibleError
from scenarios.arrivals.choices import (
    LEAST,
    NodeChoice,
    Rank,
    Sizes,
    exact_blocking,
    fixed_choices,
    least_offered,
    offered,
    searched_choice,
    unmet_share,
)
from scenarios.arrivals.jobs_file import JobsFile, load_jobs
from scenarios.arrivals.times import TimedKind, timed_kinds
from scenarios.mapping import Map
from scenarios.progress import Progress, Silent
from simulator.queueing.arriving_jobs import ArrivingJobs, served, sustained_per_s
from simulator.queueing.estimates import QueueStatistics, Sampled, ratio_of, statistics_of

DISTINCT_ERRORS = 2.0
"""Smallest difference of two different choices, in standard errors: the 95 % interval of a mean."""


@dataclass(frozen=True, slots=True)
class ChoiceResult:
    """Result of a choice of nodes.

    Attributes:
        offered: load of all jobs that meet their deadlines, as a fraction of the cluster.
        statistics: None where the queue grows without bound.
        exact_blocking: blocking rate by closed form; None with a queue.
    """

    choice: NodeChoice
    offered: float
    statistics: QueueStatistics | None
    exact_blocking: float | None

    @property
    def rank(self) -> tuple[float, float]:
        """Blocking rate and mean completion time; they order the choices."""
        if self.statistics is None:
            return math.inf, math.inf
        completion = self.statistics.completion_s.value
        return self.statistics.blocking.value, math.inf if math.isnan(completion) else completion


@dataclass(frozen=True, slots=True)
class ArrivalAdvice:
    """Advice on the nodes of arriving jobs.

    Attributes:
        name: name of the file.
        kinds: kinds of jobs with their times.
        results: one for each choice; maximum parallelism is `most`.
        least_offered: smallest offered load, each job at the size with the least node time.
    """

    name: str
    jobs: JobsFile
    kinds: tuple[TimedKind, ...]
    results: tuple[ChoiceResult, ...]
    most: ChoiceResult
    least_offered: float

    @property
    def unmet(self) -> dict[str, float]:
        """Fraction of jobs whose deadline no size meets, by kind of job; kinds without such jobs are left out."""
        asked = zip(self.kinds, self.jobs.jobs, strict=True)
        return {kind.name: share for kind, of in asked if (share := unmet_share(kind, of)) > 0}

    @property
    def best(self) -> ChoiceResult:
        """The choice with the least blocking; among equal choices the shortest mean completion time."""
        return min(self.results, key=lambda result: result.rank)

    @property
    def equal(self) -> tuple[ChoiceResult, ...]:
        """Other choices that differ from the best by fewer than `DISTINCT_ERRORS` standard errors."""
        best = self.best.statistics
        others = [result for result in self.results if result is not self.best and result.statistics is not None]
        return tuple(each for each in others if best and each.statistics and _equal(each.statistics, best))

    @property
    def reduction(self) -> Sampled | None:
        """Relative reduction of blocking by the best choice against maximum parallelism; None without any blocking."""
        best, most = self.best.statistics, self.most.statistics
        if best is None or most is None or not most.blocked.sum():
            return None
        ratio = ratio_of(best.blocked, most.blocked)
        return Sampled(1 - ratio.value, ratio.standard_error)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        reduction = self.reduction
        return {
            "schema": 1,
            "name": self.name,
            "cluster": self.jobs.cluster,
            "nodes": self.jobs.nodes,
            "arrivals_per_hour": self.jobs.arrivals_per_hour,
            "simulated_jobs": self.jobs.simulated_jobs,
            "least_offered_utilisation": self.least_offered,
            "unmet_deadlines": self.unmet,
            "kinds": [_kind_dict(kind) for kind in self.kinds],
            "choices": [_result_dict(result, self.kinds) for result in self.results],
            "best": self.best.choice.name,
            "equal": [result.choice.name for result in self.equal],
            "reduction": None if reduction is None else reduction.to_dict(),
        }


def advise_arrivals(
    name: str | Path, run_all: Map, progress: Progress | None = None, settings: Sequence[str] = ()
) -> ArrivalAdvice:
    """Simulate the jobs of a file at every size, and the cluster with every choice of sizes.

    Args:
        settings: ``KEY=VALUE`` each, for keys of the file.

    Raises:
        InputError: the file or one of its scenarios is wrong.
        InfeasibleError: a kind fits at none of its sizes, or the queue grows without bound with every choice.
    """
    document, jobs = load_jobs(name, settings)
    kinds = timed_kinds(document, jobs, run_all, progress)
    return compared(document.file.stem, jobs, kinds, progress)


def compared(name: str, jobs: JobsFile, kinds: Sequence[TimedKind], progress: Progress | None = None) -> ArrivalAdvice:
    """Simulate the cluster with every choice of sizes.

    Raises:
        InfeasibleError: the queue grows without bound with every choice.
    """
    progress = progress or Silent()
    drawn = Draws.of(jobs, kinds)
    fixed = fixed_choices(kinds)
    searched = searched_choice(kinds, [choice.sizes for choice in fixed if choice.sizes], _rank(jobs, kinds, drawn))
    choices = [*fixed[:-1], searched, *_least(jobs), fixed[-1]]
    results = []
    for done, choice in enumerate(choices, start=1):
        results.append(_simulated(choice, jobs, kinds, drawn))
        progress.stage("simulating choices", done, len(choices))
    least = least_offered(kinds, jobs)
    if all(result.statistics is None for result in results):
        raise InfeasibleError(_growing(name, jobs, least))
    return ArrivalAdvice(name, jobs, tuple(kinds), tuple(results), results[-1], least)


def _least(jobs: JobsFile) -> list[NodeChoice]:
    """The choice of the fewest nodes that meet each deadline; without deadlines the choice of the smallest sizes."""
    return [NodeChoice(LEAST, None)] if any(kind.deadline for kind in jobs.jobs) else []


def _rank(jobs: JobsFile, kinds: Sequence[TimedKind], drawn: Draws) -> Rank:
    """Order of sizes for the search: by closed form without a queue, else by simulation."""
    if jobs.queue is None:
        return lambda sizes: exact_blocking(kinds, jobs, sizes)
    return lambda sizes: _simulated(NodeChoice("", sizes), jobs, kinds, drawn).rank


def _growing(name: str, jobs: JobsFile, least: float) -> str:
    """Error message for a queue that grows with every choice."""
    hint = "fewer arrivals, more nodes, or queue.longest_wait"
    if least >= 1:
        return (
            f"{name}: the queue grows without bound: jobs offer {least:.3g} times the time of the {jobs.nodes} nodes, "
            f"each at the size that takes the least of it; expected less than 1: {hint}"
        )
    return (
        f"{name}: the queue grows without bound with every choice: jobs offer {least:.3g} times the time of the "
        f"{jobs.nodes} nodes at least, and nodes stay free behind a job that waits for more; expected {hint}"
    )


@dataclass(frozen=True, slots=True)
class Draws:
    """Random draws that all choices share.

    Attributes:
        arrival_s: `[J]` ascending.
        kind: `[J]` place of the kind of job.
        length: `[J]` amount of the job, divided by its kind's mean.
        deadline: `[J]` longest acceptable completion time as a fraction of the job's time at its smallest size.
    """

    arrival_s: NDArray[np.float64]
    kind: NDArray[np.int64]
    length: NDArray[np.float64]
    deadline: NDArray[np.float64]

    @staticmethod
    def of(jobs: JobsFile, kinds: Sequence[TimedKind]) -> Draws:
        """Random draws of a file, from its seed."""
        generator, count = np.random.default_rng(jobs.seed), jobs.simulated_jobs
        weights = np.array([kind.weight for kind in jobs.jobs])
        arrival_s = np.cumsum(generator.exponential(3600.0 / jobs.arrivals_per_hour, count))
        kind = generator.choice(len(kinds), count, p=weights / weights.sum())
        exponential, uniform = generator.exponential(1.0, count), generator.uniform(0.0, 1.0, count)
        varied = np.array([asked.length == "exponential" for asked in jobs.jobs])[kind]
        low = np.array([asked.deadline.low if asked.deadline else math.inf for asked in jobs.jobs])[kind]
        width = np.array([asked.deadline.high - asked.deadline.low if asked.deadline else 0.0 for asked in jobs.jobs])
        return Draws(arrival_s, kind, np.where(varied, exponential, 1.0), low + width[kind] * uniform)

    def jobs(self, kinds: Sequence[TimedKind], sizes: Sizes | None, longest_wait_s: float) -> ArrivingJobs:
        """The jobs with their nodes under a choice; None: the fewest nodes that meet the deadline."""
        count = len(self.kind)
        devices, ratio, unit_s = np.zeros(count, np.int64), np.zeros(count), np.zeros(count)
        for number, kind in enumerate(kinds):
            here = np.flatnonzero(self.kind == number)
            unit_s[here] = kind.run_s[kind.smallest]
            allowed = sorted(kind.run_s) if sizes is None else [sizes[number]]
            ratios = np.array([kind.run_s[nodes] for nodes in allowed]) / kind.run_s[kind.smallest]
            meets = ratios[np.newaxis, :] <= self.deadline[here, np.newaxis]
            chosen = np.where(meets.any(axis=1), meets.argmax(axis=1), len(allowed) - 1)
            devices[here], ratio[here] = np.array(allowed)[chosen], ratios[chosen]
        spare_s = (self.deadline - ratio) * unit_s * self.length
        patience_s = np.where(spare_s < 0, -1.0, np.minimum(spare_s, longest_wait_s))
        return ArrivingJobs(self.arrival_s, devices, ratio * unit_s * self.length, patience_s)


def _simulated(choice: NodeChoice, jobs: JobsFile, kinds: Sequence[TimedKind], drawn: Draws) -> ChoiceResult:
    """Result of a choice; it has no statistics if its queue grows without bound."""
    longest = 0.0 if jobs.queue is None else math.inf if jobs.queue.longest_wait is None else jobs.queue.longest_wait
    arriving, load = drawn.jobs(kinds, choice.sizes, longest), offered(kinds, jobs, choice.sizes)
    exact = exact_blocking(kinds, jobs, choice.sizes)[0] if jobs.queue is None else None
    if _grows(arriving, jobs):
        return ChoiceResult(choice, load, None, exact)
    statistics = statistics_of(arriving, served(arriving, jobs.nodes), jobs.nodes)
    return ChoiceResult(choice, load, statistics, exact)


def _grows(arriving: ArrivingJobs, jobs: JobsFile) -> bool:
    """Whether jobs that wait without limit arrive faster than the nodes serve them."""
    patient = np.isinf(arriving.patience_s)
    if not patient.any():
        return False
    alone = ArrivingJobs(
        arriving.arrival_s[patient], arriving.devices[patient], arriving.run_s[patient], arriving.patience_s[patient]
    )
    rate = jobs.arrivals_per_hour / 3600.0 * patient.mean()
    return bool(rate >= sustained_per_s(alone, jobs.nodes))


def _equal(one: QueueStatistics, other: QueueStatistics) -> bool:
    """Whether two choices differ by less than the error for the same jobs: in blocking, or without any in times."""
    if one.blocked.any() or other.blocked.any():
        difference = ratio_of(one.blocked - other.blocked, one.arrived)
        return abs(difference.value) <= DISTINCT_ERRORS * difference.standard_error
    times = one.completion_s, other.completion_s
    error = math.hypot(*(time.standard_error for time in times))
    return abs(times[0].value - times[1].value) <= DISTINCT_ERRORS * error


def _kind_dict(kind: TimedKind) -> dict[str, Any]:
    gaps = [{"nodes": nodes, "reason": reason} for nodes, reason in kind.gaps.items()]
    times = [{"nodes": nodes, "run_s": time} for nodes, time in kind.run_s.items()]
    return {"name": kind.name, "unit": kind.unit, "amount": kind.amount, "sizes": times, "gaps": gaps}


def _result_dict(result: ChoiceResult, kinds: Sequence[TimedKind]) -> dict[str, Any]:
    sizes, found = result.choice.sizes, result.statistics
    names = ("blocking", "completion_s", "completion_tail_s", "utilisation", "finished_per_s")
    return {
        "name": result.choice.name,
        "nodes": None if sizes is None else {kind.name: size for kind, size in zip(kinds, sizes, strict=True)},
        "offered_utilisation": result.offered,
        "exact_blocking": result.exact_blocking,
        **{name: None if found is None else getattr(found, name).to_dict() for name in names},
    }

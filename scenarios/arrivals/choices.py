"""Choices of the nodes of arriving jobs, and their blocking rates by closed form for clusters without a queue.

A choice fixes a size for each kind of job, or takes for each job the fewest nodes that meet its deadline. A job whose
size misses its deadline is turned away at its arrival. The other jobs form Poisson streams of one size each, so the
formula of Kaufman and Roberts holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scenarios.arrivals.jobs_file import ArrivingKind, Deadline, JobsFile
from scenarios.arrivals.times import TimedKind
from simulator.queueing.closed_forms import kaufman_roberts

MOST = "maximum parallelism"
"""Name of the choice with the largest size for each job."""
LEAST = "fewest nodes"
"""Name of the choice with the fewest nodes that meet each job's deadline."""
SEARCHED = "size for each kind"
"""Name of the choice that the search finds."""

Sizes = tuple[int, ...]
Rank = Callable[[Sizes], tuple[float, float]]
"""Blocking rate and mean completion time of sizes; less is better, and the blocking rate counts first."""


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """A choice of nodes.

    Attributes:
        sizes: `[K]` nodes of each kind of job; None: the fewest nodes that meet the deadline of each job.
    """

    name: str
    sizes: Sizes | None


@dataclass(frozen=True, slots=True)
class JobStream:
    """Jobs of a kind that have the same size.

    Attributes:
        kind: place of the kind of job.
        share: fraction of the jobs of that kind.
        nodes: nodes of each of these jobs; 0: no size meets the deadline.
    """

    kind: int
    share: float
    nodes: int


def fixed_choices(kinds: Sequence[TimedKind]) -> list[NodeChoice]:
    """Choices of one size for all kinds, for each size that any kind has; maximum parallelism is last.

    A kind without this size takes its next smaller size, or its smallest.
    """
    known = sorted({nodes for kind in kinds for nodes in kind.run_s})
    common = {tuple(_up_to(kind, nodes) for kind in kinds): nodes for nodes in reversed(known)}
    most = tuple(max(kind.run_s) for kind in kinds)
    found = [NodeChoice(_common_name(nodes), sizes) for sizes, nodes in reversed(common.items()) if sizes != most]
    return [*found, NodeChoice(MOST, most)]


def _common_name(nodes: int) -> str:
    return f"{nodes} node{'s' if nodes > 1 else ''} each"


def _up_to(kind: TimedKind, nodes: int) -> int:
    """The largest size of a kind up to a number of nodes, or else its smallest size."""
    return max((size for size in kind.run_s if size <= nodes), default=kind.smallest)


def searched_choice(kinds: Sequence[TimedKind], starts: Sequence[Sizes], rank: Rank) -> NodeChoice:
    """A size for each kind: from each start, improve the size of one kind at a time until no change improves."""
    known: dict[Sizes, tuple[float, float]] = {}

    def ranked(sizes: Sizes) -> tuple[float, float]:
        if sizes not in known:
            known[sizes] = rank(sizes)
        return known[sizes]

    for sizes in starts:
        _improved(sizes, kinds, ranked)
    return NodeChoice(SEARCHED, min(sorted(known), key=lambda sizes: known[sizes]))


def _improved(best: Sizes, kinds: Sequence[TimedKind], ranked: Rank) -> Sizes:
    """Sizes that no change of one kind's size improves."""
    while True:
        others = [
            (*best[:place], nodes, *best[place + 1 :]) for place, kind in enumerate(kinds) for nodes in kind.run_s
        ]
        found = min(others, key=ranked)
        if ranked(found) >= ranked(best):
            return best
        best = found


def streams_of(kinds: Sequence[TimedKind], jobs: JobsFile, sizes: Sizes | None) -> list[JobStream]:
    """Streams of jobs of one size each under a choice; shares of a kind sum to 1."""
    found = []
    for number, (kind, asked) in enumerate(zip(kinds, jobs.jobs, strict=True)):
        allowed = tuple(sorted(kind.run_s)) if sizes is None else (sizes[number],)
        met_before = 0.0
        for nodes in allowed:
            met = met_share(asked.deadline, kind.run_s[nodes] / kind.run_s[kind.smallest])
            if met > met_before:
                found.append(JobStream(number, met - met_before, nodes))
                met_before = met
        if met_before < 1:
            found.append(JobStream(number, 1 - met_before, 0))
    return found


def met_share(deadline: Deadline | None, ratio: float) -> float:
    """Fraction of jobs whose deadline a time meets; the time is a ratio to the time at the smallest size."""
    if deadline is None:
        return 1.0
    if deadline.high == deadline.low:
        return float(ratio <= deadline.high)
    return min(1.0, max(0.0, (deadline.high - ratio) / (deadline.high - deadline.low)))


def unmet_share(kind: TimedKind, asked: ArrivingKind) -> float:
    """Fraction of the jobs of a kind whose deadline none of its sizes meets."""
    return 1 - met_share(asked.deadline, min(kind.run_s.values()) / kind.run_s[kind.smallest])


def rates_of(jobs: JobsFile) -> list[float]:
    """Arrivals of each kind of job, per second."""
    total = sum(kind.weight for kind in jobs.jobs)
    return [jobs.arrivals_per_hour / 3600.0 * kind.weight / total for kind in jobs.jobs]


def exact_blocking(kinds: Sequence[TimedKind], jobs: JobsFile, sizes: Sizes | None) -> tuple[float, float]:
    """Blocking rate, and mean run time of started jobs, of a cluster without a queue (Kaufman and Roberts)."""
    rates, streams = rates_of(jobs), streams_of(kinds, jobs, sizes)
    held = [stream for stream in streams if stream.nodes]
    run_s = [kinds[stream.kind].run_s[stream.nodes] for stream in held]
    arrive = [stream.share * rates[stream.kind] for stream in held]
    loads = [(stream.nodes, rate * time) for stream, rate, time in zip(held, arrive, run_s, strict=True)]
    started = [rate * (1 - lost) for rate, lost in zip(arrive, kaufman_roberts(jobs.nodes, loads), strict=True)]
    total = sum(started)
    mean_s = sum(rate * time for rate, time in zip(started, run_s, strict=True)) / total if total else 0.0
    return 1 - total / sum(rates), mean_s


def offered(kinds: Sequence[TimedKind], jobs: JobsFile, sizes: Sizes | None) -> float:
    """Offered load: node-seconds of all jobs that meet their deadlines, per node-second of the cluster."""
    rates = rates_of(jobs)
    held = (
        stream.share * rates[stream.kind] * stream.nodes * kinds[stream.kind].run_s[stream.nodes]
        for stream in streams_of(kinds, jobs, sizes)
        if stream.nodes
    )
    return sum(held) / jobs.nodes


def least_offered(kinds: Sequence[TimedKind], jobs: JobsFile) -> float:
    """Smallest offered load, without deadlines: each job at the size with the least node time."""
    cheapest = (min(nodes * time for nodes, time in kind.run_s.items()) for kind in kinds)
    return sum(rate * cost for rate, cost in zip(rates_of(jobs), cheapest, strict=True)) / jobs.nodes

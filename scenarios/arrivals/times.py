"""Times of arriving jobs at each of their sizes, from simulated runs with the batch of their scenario."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inputs.errors import InfeasibleError, InputError
from inputs.keys import KeyPath, parse_key
from inputs.yaml_lines import Document
from scenarios.arrivals.jobs_file import ArrivingKind, JobsFile
from scenarios.family import family_of
from scenarios.library import CATALOG
from scenarios.mapping import Map
from scenarios.progress import Progress, Silent
from scenarios.resolve import load_scenario
from scenarios.runner import simulation_of
from scenarios.sweep_plan import SweepPlan, SweepPoint, plan_sweep


@dataclass(frozen=True, slots=True)
class TimedKind:
    """A kind of job with its times.

    Attributes:
        name: name of its scenario, with a number if several kinds have the same scenario.
        unit: unit of its amount, a plural noun.
        amount: mean amount that a job trains.
        run_s: mean time of a job by number of nodes, ascending, seconds; only sizes that run.
        gaps: reason why a size does not run, by number of nodes.
    """

    name: str
    unit: str
    amount: float
    run_s: Mapping[int, float]
    gaps: Mapping[int, str]

    @property
    def smallest(self) -> int:
        """Smallest number of nodes on which the job runs."""
        return min(self.run_s)


@dataclass(frozen=True, slots=True)
class TimedSize:
    """Result of a kind of job at a size.

    Attributes:
        throughput_per_s: throughput in the unit of the job's headline; 0 if the size does not run.
        per_iteration: amount of an iteration, in the same unit.
        reason: reason why the size does not run; empty: it runs.
    """

    throughput_per_s: float = 0.0
    per_iteration: float = 0.0
    reason: str = ""


def timed_kinds(document: Document, jobs: JobsFile, run_all: Map, progress: Progress | None = None) -> list[TimedKind]:
    """Simulate each kind of job at each of its sizes.

    Raises:
        InputError: the cluster, a scenario or a changed key is wrong; with file, line and key.
        InfeasibleError: a kind fits at none of its sizes.
    """
    progress = progress or Silent()
    plans = size_plans(document, jobs)
    points = points_of(plans)
    found: dict[SweepPoint, TimedSize] = {}
    progress.stage("simulating jobs at each size", 0, len(points))
    for position, result in run_all(timed_size, points):
        found[points[position]] = result
        progress.stage("simulating jobs at each size", len(found), len(points))
    return kinds_of(jobs, plans, found)


def size_plans(document: Document, jobs: JobsFile) -> list[SweepPlan]:
    """The sizes of each kind of job as a sweep with strong scaling.

    Raises:
        InputError: the cluster, a scenario or a changed key is wrong; with file, line and key.
    """
    return [_plan(document, jobs, number) for number in range(len(jobs.jobs))]


def points_of(plans: Sequence[SweepPlan]) -> list[SweepPoint]:
    """Points of the plans that can be simulated, without duplicates."""
    return list(dict.fromkeys(point for plan in plans for point in plan.points if not point.refusal))


def kinds_of(jobs: JobsFile, plans: Sequence[SweepPlan], found: Mapping[SweepPoint, TimedSize]) -> list[TimedKind]:
    """Kinds of jobs with their times.

    Raises:
        InfeasibleError: a kind fits at none of its sizes.
    """
    names = [plan.base.name for plan in plans]
    kinds = enumerate(zip(jobs.jobs, plans, strict=True))
    return [_timed(kind, plan, found, _name(names, number)) for number, (kind, plan) in kinds]


def timed_size(point: SweepPoint) -> TimedSize:
    """Simulate a kind of job at a size."""
    try:
        done = simulation_of(load_scenario(point.scenario, point.settings), Silent())
    except (InfeasibleError, InputError) as error:
        return TimedSize(reason=str(error))
    amount = done.prepared.workload.headline.per_iteration
    return TimedSize(done.analysis.iteration.throughput_per_s(amount), float(amount))


def _plan(document: Document, jobs: JobsFile, number: int) -> SweepPlan:
    """The sizes of a kind of job as a sweep with strong scaling; errors have the place in the file of jobs."""
    kind, place = jobs.jobs[number], ("jobs", number)
    scenario = CATALOG.find(kind.scenario, origin=document, key=f"jobs[{number}].scenario")
    taken = next((key for key in kind.set if parse_key(key)[0] in ("cluster", "nodes", "world_size")), None)
    if taken is not None:
        expected = "the cluster at the top of the file, and sizes under nodes"
        raise document.error(
            (*place, "set", taken), "arriving jobs share their cluster", given=taken, expected=expected
        )
    cluster = _cluster(document, jobs)
    settings = [f"cluster={cluster}", *(f"{key}={json.dumps(value)}" for key, value in kind.set.items())]
    try:
        return plan_sweep(scenario, f"nodes={','.join(map(str, kind.nodes))}", "strong", settings)
    except InputError as error:
        raise _placed(document, (*place, "set"), kind, error) from None


def _cluster(document: Document, jobs: JobsFile) -> str:
    """The cluster as ``--set`` takes it: paths start at the file of jobs.

    Raises:
        InputError: no cluster has this name.
    """
    from hardware_specs.catalogs import CATALOGS

    return str(CATALOGS["cluster"].find(jobs.cluster, origin=document, key="cluster"))


def _placed(document: Document, place: KeyPath, kind: ArrivingKind, error: InputError) -> InputError:
    """The error of a changed key, with the key's place in the file of jobs; other errors stay the same."""
    for key in kind.set:
        if str(error.file).startswith(f"--set {key}="):
            return document.error(
                (*place, key), error.message, given=error.given, expected=error.expected, nearest=error.nearest
            )
    return error


def _name(names: Sequence[str], number: int) -> str:
    """Name of a kind, with its number among kinds of the same scenario."""
    same = [place for place, name in enumerate(names) if name == names[number]]
    return names[number] if len(same) == 1 else f"{names[number]} ({same.index(number) + 1})"


def _timed(kind: ArrivingKind, plan: SweepPlan, found: Mapping[SweepPoint, TimedSize], name: str) -> TimedKind:
    """Times of a kind at the sizes that run, and reasons of the sizes that do not run."""
    results = {kind.nodes[point.place]: found.get(point) or TimedSize(reason=point.refusal) for point in plan.points}
    ran = {nodes: result for nodes, result in results.items() if not result.reason}
    gaps = {nodes: result.reason for nodes, result in results.items() if result.reason}
    if not ran:
        reasons = "\n".join(f"  {nodes} nodes: {reason.splitlines()[0]}" for nodes, reason in gaps.items())
        raise InfeasibleError(f"{name} runs at none of its sizes:\n{reasons}")
    batch = next(iter(ran.values())).per_iteration
    amount = kind.amount if kind.amount is not None else (kind.iterations or 0.0) * batch
    seconds = {nodes: amount / result.throughput_per_s for nodes, result in ran.items()}
    return TimedKind(name, family_of(plan.base).unit, amount, seconds, gaps)

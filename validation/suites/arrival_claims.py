"""Cases of a suite about jobs that arrive at a cluster: their sizes are predicted with the other jobs of the suite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inputs.errors import InputError, nearest_name
from scenarios.arrivals.jobs_file import JobsFile, load_jobs
from scenarios.arrivals.study import compared
from scenarios.arrivals.times import TimedSize, kinds_of, points_of, size_plans
from scenarios.sweep_plan import SweepPlan
from validation.suites.claim_rows import claim_row
from validation.suites.predict import Prediction, SuiteJob
from validation.suites.suite import ArrivalClaim, Suite


@dataclass(frozen=True, slots=True)
class PlannedClaim:
    """A claim with its file of jobs.

    Attributes:
        runs: runs of its jobs at each size, by place in `scenarios.arrivals.times.points_of`.
    """

    asked: ArrivalClaim
    name: str
    jobs: JobsFile
    plans: list[SweepPlan]
    runs: list[SuiteJob]


def planned_claim(asked: ArrivalClaim) -> PlannedClaim:
    """Read the file of a claim.

    Raises:
        InputError: it, or a scenario that it names, is wrong.
    """
    document, jobs = load_jobs(asked.jobs)
    plans = size_plans(document, jobs)
    runs = [SuiteJob(str(point.scenario), point.settings) for point in points_of(plans)]
    return PlannedClaim(asked, document.file.stem, jobs, plans, runs)


def arrival_case(suite: Suite, claim: PlannedClaim, predictions: Mapping[SuiteJob, Prediction]) -> dict[str, Any]:
    """A case: a number of the advice on a file of arriving jobs.

    Raises:
        InputError: the advice has no such number.
        InfeasibleError: a kind of job fits at none of its sizes, or the queue grows without bound.
    """
    sizes = [_size(predictions[run]) for run in claim.runs]
    kinds = kinds_of(claim.jobs, claim.plans, dict(zip(points_of(claim.plans), sizes, strict=True)))
    found = compared(claim.name, claim.jobs, kinds).to_dict()
    metric = claim.asked.metric
    value: Any = found
    for key in metric.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, int | float):
        expected = "a key of a number in `advise --arrivals --json`, such as reduction.value"
        near = nearest_name(metric, found)
        raise InputError("no such metric", key="metric", given=metric, expected=expected, nearest=near)
    inputs = {key: found[key] for key in ("name", "cluster", "nodes", "best")}
    return claim_row(suite, claim.asked, metric, inputs, float(value))


def _size(prediction: Prediction) -> TimedSize:
    if prediction.problem:
        return TimedSize(reason=prediction.problem)
    return TimedSize(prediction.throughput or 0.0, float(prediction.summary["global_batch_size"]))

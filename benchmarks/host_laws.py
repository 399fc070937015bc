"""Contribution of each law of the host model: half of a record's jobs fit the spec, the other half is predicted.

Each row sets one fitted constant to nothing and prints the errors of the predicted jobs without refitting. A law whose
row is as good as the first one is removed (docs/decisions).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.rows import Row
from hardware_specs.types import Cluster
from scenarios.progress import Silent
from validation.host.calibrate import fit_alone, fit_host
from validation.host.machine import with_constants
from validation.host.prediction import predict
from validation.host.record import HostRecord, JobRecord, undisturbed
from validation.host.usual_times import slowness
from validation.suites.errors import statistics

SEED = 0
"""Seed of the split of jobs into halves."""
LEAST_COLLECTIVES = 0.05
"""Smallest fraction of the iteration with which a job's collectives count."""
LAWS: Mapping[str, Mapping[str, float]] = {
    "all": {},
    "posting_s": {"posting_s": 0.0},
    "collective_wait_s": {"collective_wait_s": 0.0, "shared_wait_s": 0.0},
    "collective_cores": {"collective_cores": 0.0},
    "collective_slower": {"collective_slower": 1.0},
}
"""Constants of `hardware_specs.cpu_kernels.CpuKernels` and their values without the law."""


@dataclass(frozen=True, slots=True)
class Halves:
    """A record whose jobs are split at random within each number of ranks."""

    fitted: HostRecord
    predicted: Sequence[JobRecord]

    @staticmethod
    def of(record: HostRecord, seed: int = SEED) -> Halves:
        """The halves of a record."""
        random = np.random.default_rng(seed)
        fitted: list[JobRecord] = []
        predicted: list[JobRecord] = []
        for ranks in sorted({job.ranks for job in record.jobs}):
            jobs = [job for job in record.jobs if job.ranks == ranks]
            order = random.permutation(len(jobs)).tolist()
            fitted += [jobs[number] for number in order[: len(jobs) // 2]]
            predicted += undisturbed([jobs[number] for number in order[len(jobs) // 2 :]])
        return Halves(replace(record, jobs=fitted), predicted)


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of predicted jobs, 100 (predicted / measured - 1): of iterations, and of collectives that count."""

    iterations_pct: Sequence[float]
    collectives_pct: Sequence[float]


def errors(jobs: Sequence[JobRecord], cluster: Cluster) -> Errors:
    """Errors of a cluster's predictions of jobs, measured times divided by the slowness of the machine meanwhile."""
    iterations: list[float] = []
    collectives: list[float] = []
    for job in jobs:
        times = predict(job.on(cluster))
        slower = [slowness(rank.yardstick_s, times.yardstick_s) for rank in job.trained]
        wall_s = np.mean([rank.wall_s / by for rank, by in zip(job.trained, slower, strict=True)])
        exposed_s = np.mean([rank.collectives_s / by for rank, by in zip(job.trained, slower, strict=True)])
        iterations.append(100.0 * (times.iteration_s / float(wall_s) - 1.0))
        if exposed_s >= LEAST_COLLECTIVES * wall_s:
            collectives.append(100.0 * (times.classes_s["collectives"] / float(exposed_s) - 1.0))
    return Errors(iterations, collectives)


def errors_by_law(name: str) -> Iterator[tuple[str, str, Sequence[float]]]:
    """Law that is left out (``all``: none), ``iterations`` or ``collectives``, and errors of the predicted jobs.

    Args:
        name: a shipped host, or a file of a record.
    """
    halves = Halves.of(HostRecord.read(name))
    fitted = halves.fitted
    cluster = fit_host(fitted, fit_alone(fitted.facts, fitted.rows, Silent())).cluster
    for law, changes in LAWS.items():
        found = errors(halves.predicted, with_constants(cluster, changes))
        yield law, "iterations", found.iterations_pct
        yield law, "collectives", found.collectives_pct


def rows(name: str) -> Iterator[Row]:
    """Rows of each law: mean and geometric mean of absolute errors, and bias, of iterations and of collectives.

    Args:
        name: a shipped host, or a file of a record.
    """
    for law, part, errors_pct in errors_by_law(name):
        label, of = "all laws" if law == "all" else f"without {law}", statistics(errors_pct)
        yield Row(f"{label}: {part}, mean of {len(errors_pct)}", of["mape_pct"], "%")
        yield Row(f"{label}: {part}, geometric mean", of["geomean_pct"], "%")
        yield Row(f"{label}: {part}, bias", of["bias_pct"], "%")

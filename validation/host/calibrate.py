"""Fit of a host's spec to its record: costs of kernels and collectives.

In order: kernels and collectives alone; costs of kernels from parts of iterations; levels, so that the median job is
predicted right; then constants of collectives within iterations, fitted to whole jobs by the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import yaml

from hardware_specs.bounds import Latency, clipped
from hardware_specs.cpu_kernels import MOST_SLOWER, CpuKernels, KernelClass, KernelCosts
from hardware_specs.types import Cluster
from scenarios.prepare import Prepared, prepare
from scenarios.progress import Progress, Silent
from simulator.compute.cpu_amounts import caches_of
from simulator.lowering import lower
from simulator.operators import FloatArray
from validation.host.collective_costs import (
    CollectiveWork,
    cores_while_moving,
    issue_byte_s,
    issue_s,
    measured_collectives,
    thread_costs,
    with_issue,
)
from validation.host.iteration_parts import PartRow, alone, collective_count, copied_bytes, parts
from validation.host.kernel_costs import expected_s, fit, with_effective_cache
from validation.host.machine import HostFacts, host_cluster, reported, shared_cache, with_constants, with_kernels
from validation.host.prediction import CLASS_OF, predict_prepared, ranks_alone_s, with_kernels_of
from validation.host.record import HostRecord, JobRecord, undisturbed
from validation.host.timed_kernels import KERNELS, KernelRow, Row
from validation.host.usual_times import slowness, weighted_median
from validation.suites.collectives import Predictor

USUAL_COSTS = Path(str(files("validation") / "hosts" / "usual_costs.yaml"))
"""Costs of a well-known CPU, towards which costs lean that few rows determine."""
MOST_WAIT_S = 2e-2
"""Upper bound of a collective's waiting time, seconds."""
MOST_POSTING_S = 1e-3
"""Upper bound of the core time that posting a collective takes, seconds."""
ROBUST_BEYOND = 0.1
"""Relative error beyond which a job's residual counts by its size instead of its square."""
COLLECTIVES_WEIGHT = 0.4
"""Weight of a relative error of collectives beside one of iterations: collectives are two to three times as noisy."""
LEAST_WAITING = 0.05
"""Smallest fraction of the iteration to which an error of collectives is relative."""
MOST_FITTED = 24
"""Largest number of jobs to which constants of collectives are fitted; jobs are random draws, the first ones count."""
MOST_EVALUATIONS = 5
"""Largest number of steps of such a fit, each of which simulates every job once per constant and once more."""
OWN = {"posting_s": MOST_POSTING_S, "collective_wait_s": MOST_WAIT_S}
"""Constants of ranks with cores of their own that are fitted to whole jobs, with their upper bounds."""
SHARED = {"shared_wait_s": MOST_WAIT_S}
"""Constants of ranks that share cores, likewise."""


@dataclass(frozen=True, slots=True)
class TrainedJob:
    """A job as the fits use it, per iteration and without the slowness of the machine meanwhile.

    Attributes:
        prepared: its task graph on the machine as it is alone.
        iteration_s: time, the mean over ranks.
        thread_s: CPU time of a rank's own thread, the mean over ranks.
        collectives_s: time in calls that issue collectives and in waits for them, the mean over ranks.
        parts: parts of all ranks.
        work: CPU time of its collectives; None with one rank.
        issuing_s: CPU time per collective of the calls that issue them, copies aside; None with one rank.
    """

    prepared: Prepared
    iteration_s: float
    thread_s: float
    collectives_s: float
    parts: Sequence[PartRow]
    work: CollectiveWork | None
    issuing_s: float | None

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.prepared.resolved.world_size


@dataclass(frozen=True, slots=True)
class HostFit:
    """A fitted host.

    Attributes:
        cluster: its spec.
        parts: the parts of iterations that costs were fitted to, by threads of a rank.
    """

    cluster: Cluster
    parts: Mapping[int, Sequence[PartRow]]


def rank_counts(cores: int) -> dict[int, int]:
    """Numbers of ranks that kernels are fitted for, by threads of a rank: one rank on all cores, one on each core."""
    return {max(1, cores // ranks): ranks for ranks in sorted({1, cores})}


def fit_alone(facts: HostFacts, rows: Sequence[Row], progress: Progress) -> Cluster:
    """The host with kernels and collectives as they are alone.

    Args:
        rows: kernels and collectives timed alone.
    """
    progress.stage("fitting kernels and collectives alone")
    kernels = [_kernels(rows, threads, facts, ()) for threads in sorted(rank_counts(facts.cores))]
    return host_cluster(rows, facts, kernels, progress)


def fit_host(record: HostRecord, cluster: Cluster) -> HostFit:
    """The spec of a host.

    Args:
        cluster: `fit_alone` of its rows.

    Raises:
        InputError: a job of the record cannot run on it.
    """
    cores, threads_by_ranks = record.facts.cores, {ranks: t for t, ranks in rank_counts(record.facts.cores).items()}
    by_ranks = {
        ranks: undisturbed([job for job in record.jobs if job.ranks == ranks])
        for ranks in sorted({job.ranks for job in record.jobs})
    }
    references = {ranks: _yardstick_s(jobs) for ranks, jobs in by_ranks.items()}
    byte_s = issue_byte_s(record.rows)
    trained = {
        ranks: [_trained(job, cluster, references[min(ranks, cores)], byte_s) for job in jobs]
        for ranks, jobs in by_ranks.items()
    }
    kernels = [
        _kernels(record.rows, threads, record.facts, trained.get(ranks, ()), references.get(ranks))
        for ranks, threads in threads_by_ranks.items()
    ]
    cluster = with_kernels(cluster, kernels)
    for ranks, threads in threads_by_ranks.items():
        cluster = _with_levels(cluster, threads, trained.get(ranks, ()))
    own = [job for ranks, jobs in trained.items() for job in jobs if 1 < ranks <= cores]
    shared = [job for ranks, jobs in trained.items() for job in jobs if ranks > cores]
    cluster = _fitted(cluster, own, OWN)
    cluster = _fitted(cluster, shared, SHARED)
    used = {
        threads: [part for job in trained.get(ranks, ()) for part in job.parts]
        for ranks, threads in threads_by_ranks.items()
    }
    return HostFit(cluster, used)


def errors_pct(rows: Sequence[Row], cluster: Cluster) -> list[float | None]:
    """Error of each timed row, 100 (predicted / measured - 1).

    None for collectives between ranks that share cores, and for kernels of other numbers of threads than were fitted.
    """
    kernels = {known.threads: known for known in cluster.node.cpu.kernels}
    timed = [row for row in rows if row["kind"] not in KERNELS and row["times_s"] and row["alone"]]
    measured = measured_collectives(rows, timed)
    seconds = iter(Predictor(cluster).seconds(measured) / np.array([row.time_s for row in measured]) if timed else ())
    found: list[float | None] = []
    for row in rows:
        if row["kind"] in KERNELS:
            part, known = alone(KernelRow.of(row), row["ranks"]), kernels.get(row["threads"])
            found.append(None if known is None else 100.0 * (expected_s(part, known) / part.seconds - 1.0))
        else:
            found.append(100.0 * (float(next(seconds)) - 1.0) if row["alone"] and row["times_s"] else None)
    return [error for row, error in zip(rows, found, strict=True) if row["times_s"]]


def _yardstick_s(jobs: Sequence[JobRecord]) -> float | None:
    """Median of the yardstick over jobs and ranks."""
    found = [rank.yardstick_s for job in jobs for rank in job.trained if rank.yardstick_s is not None]
    return float(np.median(found)) if found else None


def _trained(job: JobRecord, cluster: Cluster, reference_s: float | None, byte_s: float) -> TrainedJob:
    prepared = prepare(job.on(cluster), Silent())
    (program,) = prepared.graph.programs
    slower = np.array([slowness(rank.yardstick_s, reference_s) for rank in job.trained])
    columns = ("wall_s", "cpu_s", "others_s", "collectives_s", "collectives_cpu_s")
    taken_s = np.array([[getattr(rank, name) for name in columns] for rank in job.trained]) / slower[:, None]
    wall_s, cpu_s, others_s, collectives_s, calling_s = taken_s.mean(axis=0).tolist()
    timed = job.timed if job.ranks <= int(cluster.node.cpu.cores.value) else ()  # costs come from ranks with own cores
    found = [
        part
        for rank, times in enumerate(timed)
        for part in parts(prepared, times, rank, job.trained[rank], float(slower[rank]))
    ]
    calls = collective_count(program)
    if not calls:
        return TrainedJob(prepared, wall_s, cpu_s, collectives_s, found, None, None)
    moving_s = sum(each.moving_s for each in lower(prepared.graph, prepared.machine).collectives)
    issuing_s = max(0.0, calling_s - copied_bytes(program) * byte_s) / calls
    return TrainedJob(
        prepared, wall_s, cpu_s, collectives_s, found, CollectiveWork(moving_s, others_s, calls), issuing_s
    )


def _kernels(
    rows: Sequence[Row],
    threads: int,
    facts: HostFacts,
    jobs: Sequence[TrainedJob],
    yardstick_s: float | None = None,
) -> CpuKernels:
    """Costs for a number of threads; without jobs, kernels cost what they cost alone and the host nothing."""
    kernel_rows = [row for row in rows if row["threads"] == threads and row["kind"] in KERNELS]
    timed = [alone(KernelRow.of(row), row["ranks"]) for row in kernel_rows]
    timed += [part for job in jobs for part in job.parts]
    if jobs:
        facts = with_effective_cache(facts, timed)
    costs = fit(timed, facts.caches, _usual_costs(threads))
    share, works = cores_while_moving(rows, threads), [job.work for job in jobs if job.work]
    posting_s, moving = thread_costs(works) if works else (0.0, 0.0)
    if jobs:
        issuing_s = [job.issuing_s for job in jobs if job.issuing_s is not None]
        each_s = float(np.median(issuing_s)) if issuing_s else issue_s(rows)
        costs["host"] = with_issue(costs.get("host"), each_s, issue_byte_s(rows))
    return CpuKernels.model_validate(
        {
            "threads": threads,
            "source": facts.source,
            "grade": "derived",
            "note": "fitted to iterations of the reference trainer and to its kernels alone",
            "core_cache_bytes": reported(f"{int(facts.core_cache_bytes)} B"),
            "shared_cache_bytes": shared_cache(facts),
            "collective_cores": share,
            "collective_slower": round(min(max(1.0, moving / share), MOST_SLOWER), 3) if share else 1.0,
            "posting_s": f"{clipped(posting_s, Latency):.3g} s",
            "yardstick_s": None if yardstick_s is None else f"{yardstick_s:.4g} s",
            "costs": {kind: costs[kind] for kind in sorted(costs)},
        }
    )


def _usual_costs(threads: int) -> Mapping[str, Mapping[str, float | None]]:
    """`USUAL_COSTS` for the nearest number of threads, seconds by kind and amount."""
    known: dict[int, dict[str, dict[str, float | None]]] = yaml.safe_load(USUAL_COSTS.read_text(encoding="utf-8"))
    return known[min(known, key=lambda each: abs(np.log(each / threads)))]


def _with_levels(cluster: Cluster, threads: int, jobs: Sequence[TrainedJob]) -> Cluster:
    """The cluster with costs scaled so that classes of operators, then whole jobs, are right in the median.

    The fit is right in the median of each part; a few parts take much longer, so sums exceed the sum of medians.
    """
    if not jobs:
        return cluster
    cluster = _scaled(cluster, threads, _class_levels(cluster, threads, jobs), "classes")
    prepared = [with_kernels_of(job.prepared, cluster) for job in jobs]
    if threads == 1:
        ratios = [float(ranks_alone_s(each).mean()) / job.thread_s for each, job in zip(prepared, jobs, strict=True)]
    else:
        ratios = [
            predict_prepared(each).iteration_s / job.iteration_s for each, job in zip(prepared, jobs, strict=True)
        ]
    level = 1.0 / float(np.median(ratios))
    (known,) = (kernels for kernels in cluster.node.cpu.kernels if kernels.threads == threads)
    return _scaled(cluster, threads, dict.fromkeys(known.costs, level), "whole iterations")


def _class_levels(cluster: Cluster, threads: int, jobs: Sequence[TrainedJob]) -> dict[KernelClass, float]:
    """Factor of each kind's costs: measured over predicted of its operator class, the median over jobs by share."""
    (known,) = (kernels for kernels in cluster.node.cpu.kernels if kernels.threads == threads)
    found: dict[KernelClass, float] = {}
    for name in dict.fromkeys(CLASS_OF.get(kind, "rest") for kind in known.costs):
        taken = np.array([_class_times(job.parts, name, known) for job in jobs])
        expected, seconds, shares = taken[np.all(taken > 0.0, axis=1)].T
        if len(shares):
            level = 1.0 / weighted_median(expected / seconds, shares)
            found |= {kind: level for kind in known.costs if CLASS_OF.get(kind, "rest") == name}
    return found


def _class_times(parts: Sequence[PartRow], name: str, kernels: CpuKernels) -> tuple[float, float, float]:
    """Predicted and measured seconds of the parts that are mostly of a class, and their share of all parts."""
    expected = seconds = 0.0
    for part in parts:
        by_class: dict[str, float] = {}
        for (kind, amount), count in part.counts(caches_of(kernels)).items():
            if kind in kernels.costs:
                of = CLASS_OF.get(kind, "rest")
                by_class[of] = by_class.get(of, 0.0) + count * kernels.costs[kind].seconds_per.get(amount, 0.0)
        if by_class and max(by_class, key=lambda of: by_class[of]) == name:
            expected += sum(by_class.values())
            seconds += part.seconds
    return expected, seconds, seconds / max(sum(part.seconds for part in parts), 1e-12)


def _scaled(cluster: Cluster, threads: int, levels: Mapping[KernelClass, float], why: str) -> Cluster:
    """The cluster with the costs of kernels of so many threads times a factor by kind; the note names the factors."""

    def scaled(kind: KernelClass, of: KernelCosts) -> KernelCosts:
        level = levels.get(kind, 1.0)
        seconds = {name: f"{clipped(level * each, Latency):.5g} s" for name, each in of.seconds_per.items()}
        return KernelCosts.model_validate({**of.model_dump(), "seconds_per": seconds})

    factors = ", ".join(f"{kind} {level:.3f}" for kind, level in levels.items())
    if len({*levels.values()}) == 1:
        factors = f"{next(iter(levels.values())):.3f}"
    kernels = [
        known.model_copy(
            update={
                "costs": {kind: scaled(kind, of) for kind, of in known.costs.items()},
                "note": f"{known.note}; {why} times {factors}",
            }
        )
        if known.threads == threads
        else known
        for known in cluster.node.cpu.kernels
    ]
    return with_kernels(cluster, kernels)


def _fitted(cluster: Cluster, jobs: Sequence[TrainedJob], bounds: Mapping[str, float]) -> Cluster:
    """The cluster with the constants in ``bounds`` that minimise the errors of iterations and of collectives.

    A job has two residuals: its iteration's, and that of its collectives, relative to themselves. The time that a rank
    works beside collectives counts as it was measured: an error of kernels is no reason to wait.
    """
    from scipy.optimize import least_squares

    jobs = jobs[:MOST_FITTED]
    if not jobs:
        return cluster
    most = np.array([*bounds.values()])
    per_core = max(1.0, jobs[0].ranks / int(cluster.node.cpu.cores.value * cluster.node.sockets.value))

    def machine(values: FloatArray) -> Cluster:
        return with_constants(cluster, {name: float(f"{v:.3g}") for name, v in zip(bounds, values * most, strict=True)})

    def residuals(values: FloatArray) -> FloatArray:
        on = machine(values)
        found = []
        for job in jobs:
            times = predict_prepared(with_kernels_of(job.prepared, on))
            more_s = per_core * (job.thread_s - (times.thread_s or 0.0))
            found.append((times.iteration_s + more_s) / job.iteration_s - 1.0)
            waited_s = max(job.collectives_s, LEAST_WAITING * job.iteration_s)
            found.append(COLLECTIVES_WEIGHT * (times.classes_s["collectives"] - job.collectives_s) / waited_s)
        return np.array(found)

    start = np.full(len(most), 0.1)
    result = least_squares(
        residuals,
        start,
        bounds=(0.0, 1.0),
        loss="soft_l1",
        f_scale=ROBUST_BEYOND,
        diff_step=[0.05] * len(most),
        max_nfev=MOST_EVALUATIONS,
    )
    return machine(np.asarray(result.x))

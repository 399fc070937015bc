"""What is fitted to whole iterations of trained jobs, once kernels and collectives are known.

Levels of classes of kernels and of all of them, then what collectives wait and what ranks lose that take turns. Each is
a number for the machine, such that jobs are predicted right in the middle: what it comes to in each follows from the
model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linprog

from hardware_specs.cpu_kernels import MOST_OVERLAP, MOST_SPREAD, CpuKernels, KernelClass, KernelCosts
from hardware_specs.types import Cluster
from scenarios.prepare import Prepared, prepare
from scenarios.progress import Silent
from scenarios.resolve import ResolvedScenario
from simulator.compute.cpu import caches_of
from simulator.operators import FloatArray
from validation.in_situ import PartRow
from validation.measured import Times
from validation.measured_prediction import class_told, predict_prepared, predict_thread_s, with_kernels_of

MOST_WAIT_S = 4e-3
"""Up to where it is looked for what a collective waits, seconds."""
WAITS = {
    "collective_wait_s": (MOST_WAIT_S, 8), "shared_wait_s": (MOST_WAIT_S, 8), "work_spread": (MOST_SPREAD, 2),
    "shared_overlap": (MOST_OVERLAP, 2),
}  # fmt: skip
"""The most of each, and parts of that which slopes are looked at over: a spread below what ranks differ by anyway makes
nobody wait."""
MOST_HALVED = 3
"""Times that a turn is halved at most in looking for how long turns are in iterations."""
ROUNDS = 5
"""Times that they are mended."""
LEAST_WAITING = 0.05
"""Of an iteration: errors of shorter waits, and of less work, are relative to that, as validation counts no smaller
part of one."""


@dataclass(frozen=True, slots=True)
class TrainedJob:
    """A job that was trained.

    Attributes:
        resolved: its scenario.
        iteration_s: time per iteration.
        thread_s: what a rank's own thread worked in one, the mean over ranks.
        parts: of an iteration, of all ranks (`validation.in_situ`).
        collectives_s: in which own threads issued collectives and waited for them, the mean over ranks; None in records
            from before it was told.
    """

    resolved: ResolvedScenario
    iteration_s: float
    thread_s: float
    parts: Sequence[PartRow] = ()
    collectives_s: float | None = None

    @property
    def ranks(self) -> int:
        """Ranks that trained it."""
        return self.resolved.world_size


def with_kernels(cluster: Cluster, kernels: Sequence[CpuKernels]) -> Cluster:
    """The cluster with other costs of kernels."""
    cpu = cluster.node.cpu.model_copy(update={"kernels": tuple(kernels)})
    return cluster.model_copy(update={"node": cluster.node.model_copy(update={"cpu": cpu})})


def with_classes(cluster: Cluster, threads: int, jobs: Sequence[TrainedJob]) -> Cluster:
    """The cluster with the costs of each class of kernels of so many threads scaled to what it takes in the jobs.

    Of a fit to parts, each part is right in the middle, not the sum of a class's parts, of which a few are long. The
    middle is that of jobs, each with the weight that the class has in it.
    """
    known = next(kernels for kernels in cluster.node.cpu.kernels if kernels.threads == threads)
    by: dict[KernelClass, float] = {}
    for name in dict.fromkeys(map(class_told, known.costs)):
        taken = np.array([_of_class(job.parts, name, known) for job in jobs]).reshape(-1, 3)
        expected, seconds, shares = taken[np.all(taken > 0.0, axis=1)].T
        if len(shares):
            level = 1.0 / _weighted_median(expected / seconds, shares)
            by |= {kind: level for kind in known.costs if class_told(kind) == name}
    if not by:
        return cluster
    why = "classes times " + ", ".join(f"{kind} {level:.3f}" for kind, level in by.items())
    scaled = _scaled(known, by, why)
    return with_kernels(cluster, [scaled if each is known else each for each in cluster.node.cpu.kernels])


def _of_class(parts: Sequence[PartRow], name: str, kernels: CpuKernels) -> tuple[float, float, float]:
    """Seconds expected and measured of the parts that are mostly of a class, and their share of what all took."""
    expected = seconds = 0.0
    for part in parts:
        took: dict[str, float] = {}
        for (kind, amount), count in part.counts(caches_of(kernels)).items():
            if kind in kernels.costs:
                of_class = class_told(kind)
                each_s = kernels.costs[kind].seconds_per.get(amount, 0.0)
                took[of_class] = took.get(of_class, 0.0) + count * each_s
        if took and max(took, key=lambda of_class: took[of_class]) == name:
            expected += sum(took.values())
            seconds += part.seconds
    return expected, seconds, seconds / max(sum(part.seconds for part in parts), 1e-12)


def _weighted_median(values: FloatArray, weights: FloatArray) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])


def with_level(cluster: Cluster, threads: int, jobs: Sequence[TrainedJob]) -> Cluster:
    """The cluster with the costs of kernels of so many threads scaled to the jobs.

    The fit to parts of iterations (`validation.in_situ`) goes through the middle of each; where a few take much longer,
    the sum is more than the sum of middles. Ranks of one thread are scaled to what that worked, others to iterations.
    """
    if not jobs:
        return cluster
    own = threads == 1
    ratios = _thread_ratios(cluster, jobs) if own else _Jobs.on(cluster, jobs).ratios(cluster, _iteration_ratio)
    level = 1.0 / float(np.median(ratios))
    kernels = cluster.node.cpu.kernels
    return with_kernels(
        cluster,
        [
            _scaled(known, dict.fromkeys(known.costs, level), f"times {level:.3f} for whole iterations")
            if known.threads == threads
            else known
            for known in kernels
        ],
    )


def with_waits(cluster: Cluster, jobs: Sequence[TrainedJob]) -> Cluster:
    """The cluster with what collectives take longer in iterations than alone.

    That is ``collective_wait_s`` and ``work_spread``.

    Args:
        cluster: with all else that jobs of ranks with cores of their own need.
        jobs: of such ranks.
    """
    return _with_waits(cluster, [job for job in jobs if job.ranks > 1], ["collective_wait_s", "work_spread"])


def with_turns(
    cluster: Cluster,
    turn_s: float,
    jobs: Sequence[TrainedJob],
    latency_cores: float | None = None,
    call_lost: tuple[float, float] = (0.0, 0.0),
) -> Cluster:
    """The cluster with what ranks lose that take turns on cores, from jobs with more ranks than cores.

    First by how much longer their kernels take, then how long their turns are, then, for what is still missing of the
    iterations, how long collectives wait and how much of them is over when their last member has come:
    ``shared_wait_s``, ``shared_overlap``. Cores differ as they do for other ranks (`docs/decisions/102`).

    Args:
        cluster: with all else.
        turn_s: how long a turn is of two processes that are busy all the time.
        jobs: of such ranks.
        latency_cores: what their threads work for each second of latency; None: as those of other ranks.
        call_lost: what calls that issue collectives lose, each and for each second in which data would move alone.
    """
    if not jobs:
        return cluster
    lost_s, lost_share = (float(f"{value:.3g}") for value in call_lost)
    cluster = _told(
        cluster,
        turn_s=float(f"{turn_s:.3g}"),
        shared_latency_cores=latency_cores,
        shared_call_lost_s=lost_s,
        shared_call_lost_share=lost_share,
    )
    slower = round(max(1.0, 1.0 / float(np.median(_thread_ratios(cluster, jobs)))), 3)
    cluster = _with_turn(_told(cluster, shared_slower=slower), [job for job in jobs if job.collectives_s is not None])
    return _with_waits(cluster, jobs, ["shared_wait_s", "shared_overlap"])


def _with_turn(cluster: Cluster, jobs: Sequence[TrainedJob]) -> Cluster:
    """The cluster with the part of a busy process's turn with which kernels take as long on the wall as in the jobs.

    Threads of collectives that wake up cut turns short (`docs/decisions/112`). Where no job tells what its collectives
    took, turns stay as they are.
    """
    (whole_s,) = {known.turn_s for known in cluster.node.cpu.kernels}
    if not jobs or not whole_s:
        return cluster
    tried = [_told(cluster, turn_s=float(f"{whole_s / 2**halved:.3g}")) for halved in range(MOST_HALVED + 1)]
    on_it = _Jobs.on(cluster, jobs)
    off = [float(np.mean(np.abs(np.log(on_it.ratios(each, _kernels_ratio))))) for each in tried]
    return tried[int(np.argmin(off))]


def _kernels_ratio(predicted: Times, job: TrainedJob) -> float:
    """Of what kernels take on the wall, interruptions included, with the measured work in place of the predicted."""
    working_s = predicted.iteration_s - predicted.classes_s["collectives"]
    measured_s = max(job.iteration_s - (job.collectives_s or 0.0), LEAST_WAITING * job.iteration_s)
    return working_s / max(predicted.thread_s or 0.0, 1e-12) * job.thread_s / measured_s


def _with_waits(cluster: Cluster, jobs: Sequence[TrainedJob], names: Sequence[str]) -> Cluster:
    """The cluster with those numbers of `WAITS` for which waits are off least.

    That is by the sum of errors relative to the predicted waits, at least `LEAST_WAITING` of the iteration: a job that
    something held up bends neither, and noise, which multiplies, does not pull waits down (first the measured ones are
    taken, then what the round before predicted). They are looked for as if iterations grew in a straight line with
    them, then again from there, with lines that meet both points. What ranks work counts as it was measured: how far
    kernels are off in a job says nothing of waiting. Where jobs tell what their collectives took (`docs/decisions/109`)
    that is what counts, and other jobs do not; else it is what iterations are longer than work.
    """
    jobs = [job for job in jobs if job.collectives_s is not None] or jobs
    if not jobs:
        return cluster
    per_core = max(1.0, jobs[0].ranks / int(cluster.node.cpu.cores.value * cluster.node.sockets.value))
    waiting = np.array([_waited(job, per_core) for job in jobs])
    weights = 1.0 / np.maximum(waiting, LEAST_WAITING)

    def ratio(predicted: Times, job: TrainedJob) -> float:
        """Of iterations, with the measured work of the ranks that share a core in place of the predicted."""
        more_s = per_core * (job.thread_s - (predicted.thread_s or 0.0))
        if job.collectives_s is None:
            return (predicted.iteration_s + more_s) / job.iteration_s
        others_s = (1.0 - 1.0 / per_core) * more_s  # a rank waits for those that have its core
        return 1.0 + (predicted.classes_s["collectives"] + others_s - job.collectives_s) / job.iteration_s

    def told(values: FloatArray) -> Cluster:
        return _told(cluster, **{name: float(f"{value:.3g}") for name, value in zip(names, values, strict=True)})

    on_it = _Jobs.on(cluster, jobs)
    most, parts = np.array([WAITS[name] for name in names]).T
    steps = most / parts
    start = on_it.ratios(told(np.zeros(len(names))), ratio)
    slopes = np.stack([on_it.ratios(told(step), ratio) - start for step in np.diag(steps)], 1) / steps
    for again in range(ROUNDS + 1):
        found = _least_off(start - 1.0, slopes, weights, most)
        if not np.any(found) or again == ROUNDS:
            break
        missed = on_it.ratios(told(found), ratio) - start - slopes @ found
        slopes += missed[:, None] * (found / steps) / steps / np.sum((found / steps) ** 2)
        weights = 1.0 / np.maximum(waiting + start - 1.0 + slopes @ found, LEAST_WAITING)
    return told(found)


def _waited(job: TrainedJob, per_core: float) -> float:
    """What share of its iteration a rank waited, of ranks that so many of work on a core."""
    if job.collectives_s is None:
        return 1.0 - per_core * job.thread_s / job.iteration_s
    return job.collectives_s / job.iteration_s


def _least_off(start: FloatArray, slopes: FloatArray, weights: FloatArray, most: FloatArray) -> FloatArray:
    """Values ``[N]``, 0 to ``most [N]``, of the least ``weights [J] @ |start [J] + slopes [J, N] @ values|``."""
    size = np.eye(len(start))  # of each error, at least the error and its negative
    found = linprog(
        np.concatenate([np.zeros(len(most)), weights]),
        A_ub=np.block([[slopes, -size], [-slopes, -size]]),
        b_ub=np.concatenate([-start, start]),
        bounds=[*((0.0, limit) for limit in most.tolist()), *((0.0, None) for _ in start)],
    )
    return np.asarray(found.x, dtype=np.float64)[: len(most)]


@dataclass(frozen=True, slots=True)
class _Jobs:
    """Jobs on a machine, each with its task graph, which is made once."""

    jobs: Sequence[TrainedJob]
    prepared: Sequence[Prepared]

    @staticmethod
    def on(cluster: Cluster, jobs: Sequence[TrainedJob]) -> _Jobs:
        return _Jobs(jobs, [prepare(replace(job.resolved, cluster=cluster), Silent()) for job in jobs])

    def ratios(self, cluster: Cluster, ratio: Callable[[Times, TrainedJob], float]) -> FloatArray:
        """Of predicted to measured times ``[J]`` on a machine that differs in its kernels alone."""
        predicted = (predict_prepared(with_kernels_of(prepared, cluster)) for prepared in self.prepared)
        return np.array([ratio(times, job) for times, job in zip(predicted, self.jobs, strict=True)])


def _iteration_ratio(predicted: Times, job: TrainedJob) -> float:
    return predicted.iteration_s / job.iteration_s


def _thread_ratios(cluster: Cluster, jobs: Sequence[TrainedJob]) -> FloatArray:
    return np.array([predict_thread_s(replace(job.resolved, cluster=cluster)) / job.thread_s for job in jobs])


def _told(cluster: Cluster, **changes: float | None) -> Cluster:
    return with_kernels(cluster, [known.model_copy(update=changes) for known in cluster.node.cpu.kernels])


def _scaled(kernels: CpuKernels, by: Mapping[KernelClass, float], why: str) -> CpuKernels:
    """Costs of each kind of kernel times its factor; a note says why."""
    costs = {
        kind: KernelCosts.model_validate(
            {
                **of.model_dump(exclude={"seconds_per"}),
                "seconds_per": {
                    name: f"{by.get(kind, 1.0) * seconds:.5g} s" for name, seconds in of.seconds_per.items()
                },
            }
        )
        for kind, of in kernels.costs.items()
    }
    return kernels.model_copy(update={"costs": costs, "note": f"{kernels.note}; {why}"})

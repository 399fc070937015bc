"""What ranks wait, fitted to whole iterations of trained jobs: what kernels take is known then.

What collectives take longer than alone, how far cores differ, and what ranks lose that take turns. Each is a number for
the machine, such that jobs are predicted right in the middle: what it comes to in each follows from the model.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog

from hardware_specs.cpu_kernels import MOST_OVERLAP, MOST_SPREAD
from hardware_specs.types import Cluster
from simulator.operators import FloatArray
from validation.host_iterations import JobsOn, TrainedJob, thread_ratios, with_kernels
from validation.measured import Times

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
    slower = round(max(1.0, 1.0 / float(np.median(thread_ratios(cluster, jobs)))), 3)
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
    on_it = JobsOn.of(cluster, jobs)
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

    on_it = JobsOn.of(cluster, jobs)
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


def _told(cluster: Cluster, **changes: float | None) -> Cluster:
    return with_kernels(cluster, [known.model_copy(update=changes) for known in cluster.node.cpu.kernels])

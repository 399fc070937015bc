"""What interrupts ranks and what they wait, fitted to whole iterations of trained jobs whose work is known.

What else has their cores, what collectives take longer than alone, how far cores differ, and what ranks lose that take
turns. Each is a number for the machine, such that jobs are predicted right in the middle: what it comes to in each
follows from the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog, lsq_linear

from hardware_specs.cpu_kernels import MOST_OVERLAP, MOST_SPREAD, MOST_SYSTEM, Followed, of_longer
from hardware_specs.types import Cluster
from simulator.operators import FloatArray
from validation.host_iterations import JobsOn, TrainedJob, thread_ratios, with_kernels
from validation.measured import Times
from validation.yardstick import FULLY

MOST_WAIT_S = 4e-3
"""Up to where it is looked for what a collective waits, seconds."""
MOST_POSTING_S = 1e-3
"""The same for what a collective's threads take of a core when it is issued."""
MOST_AFTER_S = 2e-3
"""The same for what interrupts a rank right after it has issued one."""
FITTED = {
    "posting_s": (MOST_POSTING_S, 4), "system_share": (MOST_SYSTEM, 10), "collective_wait_s": (MOST_WAIT_S, 8),
    "shared_wait_s": (MOST_WAIT_S, 8), "work_spread": (MOST_SPREAD, 2), "overlap": (MOST_OVERLAP, 2),
    "shared_overlap": (MOST_OVERLAP, 2), "after_call_s": (MOST_AFTER_S, 4), "shared_after_call_s": (MOST_AFTER_S, 4),
}  # fmt: skip
"""The most of each, and parts of that which slopes are looked at over: a spread below what ranks differ by anyway makes
nobody wait."""
WAITS = ("collective_wait_s", "work_spread", "overlap")
"""What ranks wait that have cores of their own."""
LEAST_TELLING = 8
"""Jobs of ranks of equal work that tell how far these were apart: with fewer that is fitted to what they wait."""
LEAST_SPREAD = 1e-4
"""Cores that differ less are alike."""
SPREAD_DIGITS = 6
"""Of spreads: what is less is a zero of the solver's."""
OF_ONE = frozenset({"posting_s", "system_share"})
"""Numbers of ranks of one thread, whose costs are CPU time; of several they are time, interruptions included."""
MOST_HALVED = 3
"""Times that a turn is halved at most in looking for how long turns are in iterations."""
IN_TURN = 4
"""Times that each kind's numbers are looked for in a round, where there are several kinds of errors."""
ROUNDS = 5
"""Times that they are mended."""
MEAN_ROUNDS = 3
"""Times that they are after that, where it is the mean that is to be right."""
HELD_UP, FAR_OFF = 1.0, 5.0 / 0.6745
"""Of what is predicted, and of what the middle job is off by (five standard deviations of normal errors): a job that is
off by more than one of them was held up, or its model is wrong; no mean has it."""
LEAST_WAITING = 0.05
"""Of an iteration: errors of shorter waits, and of less work, are relative to that, as validation counts no smaller
part of one."""


def with_waits(cluster: Cluster, jobs: Sequence[TrainedJob]) -> Cluster:
    """The cluster with what interrupts kernels, and what collectives take longer in iterations than alone.

    That is ``posting_s`` and ``system_share`` such that kernels are off least on the wall, where jobs tell it, and
    ``collective_wait_s``, ``overlap`` and ``work_spread`` such that waits are right; the last, and ``threads_spread``,
    are how far ranks of equal work were apart, where jobs tell that (`docs/decisions/124`). Threads of collectives work
    as long as their CPU time says, but what the system does for them, such as moving data between sockets, is in
    nobody's (`docs/decisions/113`).

    Args:
        cluster: with all else that jobs of ranks with cores of their own need.
        jobs: of such ranks.
    """
    jobs = [job for job in jobs if job.ranks > 1]
    spread = spread_of(jobs)
    names = WAITS if spread is None else [name for name in WAITS if name != "work_spread"]
    if spread is not None:
        cluster = _told(cluster, threads_spread=spread[0], work_spread=spread[1])
    telling = _telling(jobs)
    if telling:
        interrupted = _Errors(["posting_s", "system_share"], _kernels_ratio, np.ones(len(telling)))
        return _fitted(cluster, telling, [interrupted, _of_waits(cluster, telling, names)])
    return _with_waits(cluster, jobs, names)


def spread_of(jobs: Sequence[TrainedJob]) -> tuple[float, float] | None:
    """``threads_spread`` and ``work_spread``: how far the work of ranks that had the same to do was apart.

    The parts of what threads of collectives and own threads worked with which errors are least, then those that are
    right in the mean, as waits are (`_fitted`): the middle job is less apart. None where too few jobs tell.

    Args:
        jobs: of ranks with cores of their own.
    """
    told = [(job.others_s, job.thread_s, job.apart_s, job.ranks) for job in jobs if job.apart_s]
    if len(told) < LEAST_TELLING:
        return None
    others_s, work_s, apart_s, ranks = np.array(told).T
    of_chance = np.sqrt(2.0 / np.pi * (1.0 - 1.0 / ranks))  # the mean distance from the mean of so many normal numbers
    measured_s = apart_s / of_chance
    works = np.stack([others_s, work_s * [of_longer(each_s) for each_s in work_s]], 1)
    weights, most = 1.0 / measured_s, np.array([1.0, MOST_SPREAD])
    for _ in range(ROUNDS):
        found = _least_off(-measured_s, works, weights, most)
        weights = 1.0 / np.sqrt(measured_s * np.maximum(works @ found, LEAST_SPREAD * work_s))
    for _ in range(MEAN_ROUNDS):
        relative = 1.0 / np.maximum(works @ found, LEAST_SPREAD * work_s)
        found = _least_squares(-measured_s, works, relative, most, found)
    of_threads, of_work = np.round(found, SPREAD_DIGITS).tolist()
    return float(f"{of_threads:.3g}"), float(f"{of_work:.3g}")


def with_turns(
    cluster: Cluster,
    turn_s: float,
    jobs: Sequence[TrainedJob],
    posting_s: float | None = None,
    call_lost: tuple[float, float] = (0.0, 0.0),
    followed: Followed = FULLY,
) -> Cluster:
    """The cluster with what ranks lose that take turns on cores, from jobs with more ranks than cores.

    First by how much longer their kernels take, then how long their turns are, then, for what is still missing of the
    iterations, how long collectives wait and how much of them is over when their last member has come:
    ``shared_wait_s``, ``shared_overlap``. Cores differ as they do for other ranks (`docs/decisions/102`).

    Args:
        cluster: with all else.
        turn_s: how long a turn is of two processes that are busy all the time.
        jobs: of such ranks.
        posting_s: what their threads work for each collective, data that move aside; None: as those of other ranks.
        call_lost: what calls that issue collectives lose, each and for each second in which data would move alone.
        followed: how closely they go with the yardstick.
    """
    if not jobs:
        return cluster
    lost_s, lost_share = (float(f"{value:.3g}") for value in call_lost)
    cluster = _told(
        cluster,
        turn_s=float(f"{turn_s:.3g}"),
        shared_posting_s=None if posting_s is None else float(f"{posting_s:.3g}"),
        shared_call_lost_s=lost_s,
        shared_call_lost_share=lost_share,
        shared_followed=followed,
    )
    slower = round(max(1.0, 1.0 / float(np.median(thread_ratios(cluster, jobs)))), 3)
    cluster = _with_turn(_told(cluster, shared_slower=slower), _telling(jobs))
    return _with_waits(cluster, jobs, ["shared_wait_s", "shared_overlap"])


def with_calls(cluster: Cluster, jobs: Sequence[TrainedJob], name: str) -> Cluster:
    """The cluster with how much of what interrupts ranks does so right after they issue a collective.

    That is, such that what is no kernel has the part of their work that it had in traced iterations.

    Args:
        cluster: with all else.
        jobs: of ranks that all have a core of their own, or of ranks that take turns.
        name: of the number that these ranks have for it.
    """
    jobs = [job for job in jobs if job.ranks > 1 and job.rest_share is not None]
    return _fitted(cluster, jobs, [_Errors([name], _rest_ratio, np.ones(len(jobs)))]) if jobs else cluster


def _rest_ratio(predicted: Times, job: TrainedJob) -> float:
    """Of the predicted to the measured part that is no kernel."""
    own_s = sum(predicted.classes_s.values()) - predicted.classes_s["collectives"]
    return predicted.classes_s["rest"] / own_s / max(job.rest_share or 0.0, LEAST_WAITING)


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
    """The cluster with those numbers of `FITTED` for which waits are off least.

    Where jobs tell what their collectives took (`docs/decisions/109`) that is what counts, and other jobs do not; else
    it is what iterations are longer than work.
    """
    jobs = _telling(jobs) or jobs
    return _fitted(cluster, jobs, [_of_waits(cluster, jobs, names)]) if jobs else cluster


@dataclass(frozen=True, slots=True)
class _Errors:
    """What some numbers are fitted to.

    Attributes:
        names: of the numbers.
        ratio: of a prediction of a job to the job; right is 1.
        share: what errors are relative to, where ratios are right ``[J]``; at least `LEAST_WAITING` counts.
        mean: whether it is their mean that is to be 0, not that of their sizes that is to be least.
    """

    names: Sequence[str]
    ratio: Callable[[Times, TrainedJob], float]
    share: FloatArray
    mean: bool = False


def _of_waits(cluster: Cluster, jobs: Sequence[TrainedJob], names: Sequence[str]) -> _Errors:
    """Errors of waits, relative to waits.

    A job is few iterations, some of which stall: the middle job waits less than jobs do in the mean. What ranks work
    counts as it was measured: how far kernels are off in a job says nothing of waiting.
    """
    per_core = max(1.0, jobs[0].ranks / int(cluster.node.cpu.cores.value * cluster.node.sockets.value))

    def ratio(predicted: Times, job: TrainedJob) -> float:
        """Of iterations, with the measured work of the ranks that share a core in place of the predicted."""
        thread_s, collectives_s = predicted.thread_s or 0.0, predicted.classes_s["collectives"]
        more_s = job.thread_s - thread_s
        if job.collectives_s is None:
            return (predicted.iteration_s + per_core * more_s) / job.iteration_s
        # the iteration is longer by what all on the core work, by its part of that what a rank does beside waiting
        beside_s = (predicted.iteration_s - collectives_s) / max(thread_s, 1e-12)
        others_s = max(0.0, per_core - beside_s) * more_s
        return 1.0 + (collectives_s + others_s - job.collectives_s) / job.iteration_s

    return _Errors(names, ratio, np.array([_waited(job, per_core) for job in jobs]), mean=True)


def _fitted(cluster: Cluster, jobs: Sequence[TrainedJob], kinds: Sequence[_Errors]) -> Cluster:
    """The cluster with those numbers of `FITTED` for which the sum of each one's errors of jobs is least.

    A job that something held up bends no number. Errors are relative to the geometric mean of what was measured and
    what the round before predicted (in the first round, to what was measured): noise multiplies, and relative to what
    was measured alone it would pull numbers down, relative to what is predicted up. Numbers are looked for as if ratios
    grew in a straight line with them, then again from there, with lines that meet both points; where there are several
    kinds of errors, each kind's numbers in turn, while the others are as they were found. Where the mean is to be
    right, squares of errors relative to what is predicted are least at last, of jobs not `HELD_UP` or `FAR_OFF`.

    Args:
        cluster: with all else.
        jobs: at least one.
        kinds: of errors, with their numbers.
    """
    names = [name for errors in kinds for name in errors.names]
    kind_of = np.repeat(np.arange(len(kinds)), [len(errors.names) for errors in kinds])
    shares, on_it = np.stack([errors.share for errors in kinds]), JobsOn.of(cluster, jobs)

    def machine_with(values: FloatArray) -> Cluster:
        return _told(cluster, **{name: float(f"{value:.3g}") for name, value in zip(names, values, strict=True)})

    def errors_with(values: FloatArray) -> FloatArray:
        return on_it.ratios(machine_with(values), *(errors.ratio for errors in kinds)) - 1.0

    most, parts = np.array([FITTED[name] for name in names]).T
    steps = most / parts
    found = np.zeros(len(names))
    start = errors_with(found)
    slopes = np.stack([errors_with(step) - start for step in np.diag(steps)], 2) / steps
    measured = np.maximum(shares, LEAST_WAITING)
    weights = 1.0 / measured
    last = ROUNDS + (MEAN_ROUNDS if any(errors.mean for errors in kinds) else 0)
    for again in range(last + 1):
        for kind in [*range(len(kinds))] * (IN_TURN if len(kinds) > 1 else 1):
            mine = kind_of == kind
            others = start[kind] + slopes[kind][:, ~mine] @ found[~mine]
            if kinds[kind].mean and again > ROUNDS:
                relative = 1.0 / np.maximum(shares[kind] + others + slopes[kind][:, mine] @ found[mine], LEAST_WAITING)
                found[mine] = _least_squares(others, slopes[kind][:, mine], relative, most[mine], found[mine])
            else:
                found[mine] = _least_off(others, slopes[kind][:, mine], weights[kind], most[mine])
        if not np.any(found) or again == last:
            break
        missed = errors_with(found) - start - slopes @ found
        slopes += missed[..., None] * (found / steps) / steps / np.sum((found / steps) ** 2)
        weights = 1.0 / np.sqrt(measured * np.maximum(shares + start + slopes @ found, LEAST_WAITING))
    return machine_with(found)


def _telling(jobs: Sequence[TrainedJob]) -> list[TrainedJob]:
    """Those whose records tell what their collectives took."""
    return [job for job in jobs if job.collectives_s is not None]


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


def _least_squares(
    start: FloatArray, slopes: FloatArray, weights: FloatArray, most: FloatArray, before: FloatArray
) -> FloatArray:
    """Values as `_least_off`, with the least squares of errors of jobs that were in neither way off by too much.

    Those before, where too few jobs are left for others.
    """
    off = np.abs(weights * (start + slopes @ before))
    counted = off < min(HELD_UP, FAR_OFF * float(np.median(off)))
    if counted.sum() < len(before):
        return before
    scaled = (weights[:, None] * slopes)[counted]
    found = lsq_linear(scaled, -(weights * start)[counted], bounds=(0.0, most))
    return np.asarray(found.x, dtype=np.float64)


def _told(cluster: Cluster, **changes: float | Followed | None) -> Cluster:
    """The cluster with other numbers; those `OF_ONE` thread for kernels of one thread."""
    of_several = {name: value for name, value in changes.items() if name not in OF_ONE}
    kernels = cluster.node.cpu.kernels
    return with_kernels(
        cluster, [known.model_copy(update=changes if known.threads == 1 else of_several) for known in kernels]
    )

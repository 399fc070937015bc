"""From what was measured on a machine to the cluster that it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hardware_specs.cpu_kernels import PASSING, CpuKernels, Followed
from hardware_specs.types import Cluster
from scenarios.prepare import Prepared, prepare
from scenarios.progress import Progress, Silent
from simulator.compute import CpuModel
from simulator.lowering import lower
from validation.collective_work import CollectiveWork, calls_lost, thread_costs
from validation.cpu_fit import Row
from validation.host_fit import HostFacts, Trained, fit_kernels, host_cluster, issue_byte_s, issue_s
from validation.host_iterations import TrainedJob, thread_ratios, with_classes, with_kernels, with_level
from validation.host_record import HostRecord, JobRecord, undisturbed
from validation.host_waits import with_calls, with_turns, with_waits
from validation.in_situ import Beside, PartRow, copied_in, issued_in, parts
from validation.kernel_costs import expected_s
from validation.measured_prediction import predict_beside, ranks_alone_s
from validation.own_cache import with_own_cache
from validation.timed import ISSUE, LOOKUP
from validation.together import LookedUp, fit_together, near_and_far_s
from validation.yardstick import (
    FEWEST,
    FULLY,
    followed_by,
    lookups_slowness,
    slowness,
    usual_of_all,
)

EVEN = 0.01
"""Ranks whose work differs by less of it have the same to do."""


@dataclass(frozen=True, slots=True)
class HostFit:
    """A machine that is fitted.

    Attributes:
        cluster: what it is.
        parts: of iterations, those that costs were fitted to, by threads of a rank.
    """

    cluster: Cluster
    parts: Mapping[int, Sequence[PartRow]]


def rank_counts(cores: int) -> dict[int, int]:
    """Ranks that kernels are fitted for by their threads: one with all cores, and one on each."""
    return {max(1, cores // ranks): ranks for ranks in sorted({1, cores})}


def as_alone(facts: HostFacts, rows: Sequence[Row], progress: Progress) -> Cluster:
    """The machine with kernels and collectives as they are alone, and a host that takes no time.

    Args:
        facts: of the machine.
        rows: kernels and collectives that were timed alone.
        progress: told what is being done.
    """
    kernels = [fit_kernels(rows, threads, facts) for threads in sorted(rank_counts(facts.cores))]
    return host_cluster(rows, facts, kernels, progress)


def fit_host(record: HostRecord, alone: Cluster) -> HostFit:
    """The machine as a record tells it.

    Args:
        record: of the machine.
        alone: what `as_alone` makes of its rows.

    Raises:
        InputError: a job of the record cannot run on it.
    """
    cores = record.facts.cores
    by_ranks = jobs_alone(record, alone)
    trained = {threads: by_ranks[ranks] for threads, ranks in rank_counts(cores).items()}
    own = trained[min(trained)].jobs
    cluster = with_calls(with_waits(_with_costs(record, alone, trained), own), own, "after_call_s")
    for ranks, of in by_ranks.items():
        if ranks > cores:
            posting_s = thread_costs(of.collectives)[0] if of.collectives else None
            cluster = with_turns(cluster, record.turn_s, of.jobs, posting_s, calls_lost(of.collectives), of.followed)
            cluster = with_calls(cluster, of.jobs, "shared_after_call_s")
    return HostFit(cluster, {threads: of.parts for threads, of in trained.items()})


def jobs_alone(record: HostRecord, alone: Cluster) -> dict[int, Trained]:
    """Undisturbed jobs of a record by number of ranks, with parts as if nothing of other ranks had been beside them.

    How much longer collectives, and other ranks' lookups, made them is told by a simulation with costs that are fitted
    to the parts as they were.

    Args:
        record: of the machine.
        alone: what `as_alone` makes of its rows.

    Raises:
        InputError: a job cannot run on it.
    """
    by_ranks, counts = trained_jobs(record, alone), rank_counts(record.facts.cores)
    known = _with_costs(record, alone, {threads: by_ranks[ranks] for threads, ranks in counts.items()})
    followed = {ranks: followed_of(of, known) for ranks, of in by_ranks.items()}
    by_ranks = trained_jobs(record, alone, known, followed)
    own = min(counts)
    if counts[own] == 1:
        return by_ranks
    looked_up = [job.looked_up for job in by_ranks[counts[own]].jobs if job.looked_up]
    passing_s = near_and_far_s([job.passing_s for job in looked_up])
    kernels = _own_kernels(known).model_copy(update={"passing_s": passing_s})
    together = fit_together(looked_up, kernels)
    if together > 1.0:
        known = _with_kernels(known, kernels.model_copy(update={"lookups_together": together}))
        by_ranks = trained_jobs(record, alone, known, followed)
    return by_ranks | {counts[own]: replace(by_ranks[counts[own]], together=together, passing_s=passing_s)}


def followed_of(trained: Trained, known: Cluster) -> Followed:
    """How closely jobs, told as if they went with the yardstick, do so: own threads' work, and lookups.

    Where lookups are not told, they go as all else.
    """
    jobs = trained.jobs
    longer = [job.slower / ratio for job, ratio in zip(jobs, thread_ratios(known, jobs), strict=True)]
    work = followed_by([job.slower for job in jobs], longer, [1.0] * len(jobs))
    told_of = [(job, _lookups_longer(job, known)) for job in jobs]
    lookups = [(job.lookups_slower, longer_by, share) for job, (longer_by, share) in told_of if share]
    return Followed(work, followed_by(*zip(*lookups, strict=True)) if len(lookups) >= FEWEST else work)


def _lookups_longer(job: TrainedJob, known: Cluster) -> tuple[float, float]:
    """What a job's lookups took over what is expected of them, and the part of its iteration that they were."""
    kernels = CpuModel.of(known.node, job.ranks).kernels
    lookups = [part for part in job.parts if part.name.endswith(LOOKUP)]
    seconds = sum(part.seconds for part in lookups)
    expected = sum(expected_s(part, kernels) for part in lookups)
    if not seconds or not expected:
        return 1.0, 0.0
    return job.lookups_slower * seconds / expected, seconds / (job.ranks * job.iteration_s)


def _own_kernels(cluster: Cluster) -> CpuKernels:
    """Those of ranks with the fewest cores of their own."""
    return min(cluster.node.cpu.kernels, key=lambda of: of.threads)


def _with_kernels(cluster: Cluster, kernels: CpuKernels) -> Cluster:
    known = cluster.node.cpu.kernels
    return with_kernels(cluster, [kernels if of.threads == kernels.threads else of for of in known])


def _with_costs(record: HostRecord, alone: Cluster, trained: Mapping[int, Trained]) -> Cluster:
    """The machine with costs of kernels as its jobs tell them, by threads of a rank."""
    kernels = []
    for threads, of in trained.items():
        facts = with_own_cache(record.facts, record.rows, threads, of)
        kernels.append(fit_kernels(record.rows, threads, facts, of))
    cluster = with_kernels(alone, kernels)
    for threads, of in trained.items():
        cluster = with_level(with_classes(cluster, threads, of.jobs), threads, of.jobs)
    return cluster


def trained_jobs(
    record: HostRecord,
    alone: Cluster,
    known: Cluster | None = None,
    followed: Mapping[int, Followed] | None = None,
) -> dict[int, Trained]:
    """Undisturbed jobs of a record by number of ranks; all with one thread have one reference of the yardstick.

    Args:
        record: of the machine.
        alone: what `as_alone` makes of its rows.
        known: the machine that tells how much longer collectives beside them make parts of iterations; None: all alike.
        followed: how closely jobs go with the yardstick, by their number of ranks; None: all do as it says.

    Raises:
        InputError: a job cannot run on it.
    """
    counts = sorted({job.ranks for job in record.jobs})
    by_ranks = {ranks: undisturbed([job for job in record.jobs if job.ranks == ranks]) for ranks in counts}
    usual_s = {ranks: _usual(jobs) for ranks, jobs in by_ranks.items()}
    issuing = _issuing_s(record, alone), issue_byte_s(record.rows)
    return {
        ranks: _found(
            jobs, usual_s[min(ranks, record.facts.cores)], alone, issuing, known, (followed or {}).get(ranks, FULLY)
        )
        for ranks, jobs in by_ranks.items()
    }


def _found(
    jobs: Sequence[JobRecord],
    usual_s: Mapping[str, float],
    alone: Cluster,
    issuing: tuple[float, float],
    known: Cluster | None,
    followed: Followed,
) -> Trained:
    """What ranks recorded of jobs, as if the machine had been as fast as usual all the time.

    ``issuing``: what it takes to issue a collective, and for each byte that is copied for that, seconds.
    """
    issuing_s, issuing_byte_s = issuing
    collectives: list[CollectiveWork] = []
    known_jobs: list[TrainedJob] = []
    for job in jobs:
        resolved = job.on(alone)
        prepared = prepare(resolved, Silent())
        slower = [slowness(rank.yardstick_s, usual_s, followed) for rank in job.trained]
        of_lookups = [lookups_slowness(rank.yardstick_s, usual_s, followed) for rank in job.trained]
        turns = isinstance(prepared.machine.compute, CpuModel) and prepared.machine.compute.takes_turns
        traced = [] if turns else job.timed  # costs come from ranks that have cores of their own
        beside = predict_beside(job.on(_as_in(job, known))) if known and traced and job.ranks > 1 else None
        found = [
            part
            for rank, timed in enumerate(traced)
            for part in parts(
                prepared, timed, rank, job.trained[rank], usual_s, issuing_s, beside, issuing_byte_s, followed
            )
        ]
        taken_s = np.array([[rank.wall_s, rank.cpu_s, rank.others_s] for rank in job.trained])
        iteration_s, thread_s, others_s = (taken_s / np.array(slower)[:, None]).mean(axis=0).tolist()
        thread_s -= beside.together_s if beside else 0.0
        known_jobs.append(
            TrainedJob(
                resolved,
                iteration_s,
                thread_s,
                found,
                others_s=others_s,
                collectives_s=_in_collectives_s(job, slower),
                rest_share=_rest_share(job),
                apart_s=_apart_s(job, slower) if _is_even(prepared) else None,
                looked_up=_looked_up(job, found, beside, known) if known and beside else None,
                slower=float(np.mean(slower)),
                lookups_slower=float(np.mean(of_lookups)),
            )
        )
        if job.ranks > 1:
            collectives.append(_collectives(prepared, job, others_s, slower))
    return Trained(collectives, usual_s, known_jobs, issuing_s, followed=followed)


def _as_in(job: JobRecord, known: Cluster) -> Cluster:
    """A machine whose cores are as far from each other as they were when a job was trained."""
    passing_s = _passing_s(job)
    if passing_s is None:
        return known
    kernels = _own_kernels(known)
    return _with_kernels(known, kernels.model_copy(update={"yardstick_s": {**kernels.yardstick_s, PASSING: passing_s}}))


def _passing_s(job: JobRecord) -> float | None:
    told = [rank.yardstick_s[PASSING] for rank in job.trained if PASSING in rank.yardstick_s]
    return float(np.mean(told)) if told else None


def _looked_up(job: JobRecord, parts: Sequence[PartRow], beside: Beside, known: Cluster) -> LookedUp | None:
    """What the lookups of a job took over what a machine with these costs takes alone."""
    kernels, passing_s = _own_kernels(known), _passing_s(job)
    lookups = [part for part in parts if part.name.endswith(LOOKUP)]
    seconds, expected = (
        sum(each) for each in ([p.seconds for p in lookups], [expected_s(p, kernels) for p in lookups])
    )
    if passing_s is None or not seconds or not expected:
        return None
    weight = seconds / sum(rank.wall_s for rank in job.trained)
    return LookedUp(seconds / expected, beside.together_share, passing_s, weight)


def _issuing_s(record: HostRecord, alone: Cluster) -> float:
    """What a collective takes of the thread that issues it and waits for it, seconds: its CPU time, the middle job.

    What calls copy is not in it.
    Of ranks with a core each whose records tell it; in iterations a call finds less in caches than alone. Else what
    issuing takes alone.
    """
    told = [
        job
        for job in record.jobs
        if 1 < job.ranks <= record.facts.cores and all(rank.collectives_cpu_s is not None for rank in job.trained)
    ]
    if not told:
        return issue_s(record.rows)
    usual_s, byte_s = _usual(told), issue_byte_s(record.rows)
    each_s = []
    for job in told:
        (program,) = prepare(job.on(alone), Silent()).graph.programs
        taken_s = [(rank.collectives_cpu_s or 0.0) / slowness(rank.yardstick_s, usual_s) for rank in job.trained]
        each_s.append(max(0.0, float(np.mean(taken_s)) - copied_in(program) * byte_s) / issued_in(program))
    return float(np.median(each_s))


def _is_even(prepared: Prepared) -> bool:
    """Whether all ranks have the same to do, by what kernels take alone."""
    seconds = ranks_alone_s(prepared)
    return bool(np.ptp(seconds) <= EVEN * seconds.mean())


def _apart_s(job: JobRecord, slower: Sequence[float]) -> float | None:
    return None if job.apart_s is None else job.apart_s / float(np.mean(slower))


def _rest_share(job: JobRecord) -> float | None:
    told = [rank.rest_share for rank in job.timed if rank.rest_share is not None]
    return float(np.mean(told)) if told else None


def _in_collectives_s(job: JobRecord, slower: Sequence[float]) -> float | None:
    told = [rank.collectives_s for rank in job.trained if rank.collectives_s is not None]
    return float(np.mean(np.array(told) / slower)) if len(told) == len(slower) else None


def _collectives(prepared: Prepared, job: JobRecord, cores_s: float, slower: Sequence[float]) -> CollectiveWork:
    moving_s = sum(each.moving_s for each in lower(prepared.graph, prepared.machine).collectives)
    known = CollectiveWork(moving_s, cores_s, issued_in(prepared.graph.programs[0]))
    calling_s = [rank.collectives_cpu_s for rank in job.trained if rank.collectives_cpu_s is not None]
    called_s = [rank.calls_s for rank in job.trained if rank.calls_s is not None]
    called_s = called_s or [timed.groups_s.get(ISSUE, 0.0) for timed in job.timed]
    if min(len(called_s), len(calling_s)) < len(slower):
        return known
    means_s = (np.array([called_s, calling_s]) / slower).mean(axis=1)
    compute, contended = prepared.machine.compute, 1.0
    if isinstance(compute, CpuModel) and compute.takes_turns:
        core_of = compute.core_group_of(np.arange(job.ranks))
        working = np.array([rank.cpu_s / rank.wall_s for rank in job.trained])
        others = np.bincount(core_of, weights=working)[core_of] - working
        contended = float(np.minimum(1.0, others).mean())
    return replace(known, called_s=float(means_s[0]), calling_s=float(means_s[1]), contended=contended)


def _usual(jobs: Sequence[JobRecord]) -> dict[str, float]:
    """The middle time of each piece over all jobs and ranks that tell it."""
    return usual_of_all((rank.yardstick_s for job in jobs for rank in job.trained), np.median)

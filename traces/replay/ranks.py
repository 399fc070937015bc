"""Jobs of other ranks: those without a trace as clones of traced ones, and another world size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from inputs.errors import InputError
from inputs.quantities import MAX_RANKS
from simulator.collective_calls import CollectiveCall
from simulator.program import IntArray, Program, TaskGraph
from simulator.work import Work
from traces.kernel_classes import is_sharded_lookup
from traces.replay.job import ReplayJob, StepPlace, amounts_of
from traces.replay.tables import sharded_tables

_FIXED_SIZE = frozenset({"all_reduce", "all_to_all", "broadcast", "reduce", "barrier"})
"""Collectives whose size does not follow the number of ranks when each rank keeps its batch."""


def with_clones(job: ReplayJob) -> ReplayJob:
    """The job with every rank: those without a trace run the programs of the traced ranks in turn.

    So the differences between traced ranks, which are all the skew that was measured, spread over all ranks. A clone
    has no part in process groups it is no member of.
    """
    if len(job.ranks) == job.world_size:
        return job
    made = _on_ranks(job, _clone_source(job), job.graph.communicators)
    return made.with_note(f"ranks without a trace run those of {len(job.ranks):,} traced ranks in turn")


def _clone_source(job: ReplayJob) -> IntArray:
    """The traced rank that each rank of the job runs ``[W]``."""
    source = np.arange(job.world_size)
    absent = np.setdiff1d(source, job.ranks)
    source[absent] = np.resize(job.ranks, len(absent))
    return source


def at_world_size(job: ReplayJob, world_size: int) -> ReplayJob:
    """The job on another number of ranks, each with the batch it has now (weak scaling).

    Ranks run the programs of the present ones in turn. The tables that are sharded are dealt out again, as evenly as
    whole tables can be: lookups and updates of a rank, and its part in exchanges of pooled vectors, follow its tables
    times the global batch. All else, data-parallel tables included, stays as it is.

    Raises:
        InputError: the trace does not say which tables are sharded over which batch, a collective's size depends on its
            contents, groups are not all ranks, or there are fewer tables than ranks.
    """
    if not 1 <= world_size <= MAX_RANKS:
        expected = f"1 to {MAX_RANKS:,}"
        raise InputError("is no number of ranks", file="--world-size", given=world_size, expected=expected)
    if world_size == job.world_size:
        return with_clones(job)
    _check_collectives(job)
    tables = sharded_tables(job.source)
    whole = with_clones(job)
    source = np.resize(whole.ranks, world_size)
    held = np.array([tables[rank] for rank in _clone_source(job).tolist()])
    total = int(held.sum())
    if total and total < world_size:
        raise InputError(
            "there are fewer tables than ranks", file="--world-size", given=world_size, expected=f"at most {total:,}"
        )
    communicators = {name: np.zeros(world_size, dtype=np.int64) for name in job.graph.communicators}
    made = replace(_on_ranks(whole, source, communicators), world_size=world_size, transfers_ps={})
    note = f"{world_size:,} ranks with the batch of {job.world_size:,}: {total:,} sharded tables dealt out evenly"
    if not total:
        return made.with_note(note)
    new = total // world_size + (np.arange(world_size) < total % world_size)
    share = new * world_size / np.maximum(held[source] * job.world_size, 1)
    return _resharded(made, share).with_note(note)


def _check_collectives(job: ReplayJob) -> None:
    """Every group is all ranks, and no collective's size depends on its contents."""
    for name, instance in job.graph.communicators.items():
        if instance.any():
            raise InputError(
                f"group {name!r} is not all ranks, and the trace does not show its members at another world size",
                file="--world-size",
                expected="a job whose collectives are over all ranks",
            )
    for work in (w for program in job.graph.programs for w in program.work if isinstance(w, CollectiveCall)):
        if work.op not in _FIXED_SIZE:
            raise InputError(
                f"the size of {work.op} depends on its contents, which the trace does not record",
                file="--world-size",
                expected="a job of " + ", ".join(sorted(_FIXED_SIZE)),
            )


def _on_ranks(job: ReplayJob, source: IntArray, communicators: Mapping[str, IntArray]) -> ReplayJob:
    """The job on ``len(source)`` ranks, each running the program of its source rank ``[N]``."""
    programs, durations, steps = [], [], []
    by_rank: dict[int, list[StepPlace]] = {}
    for step in job.steps:
        by_rank.setdefault(step.rank, []).append(step)
    for program, own in zip(job.graph.programs, job.durations_ps, strict=True):
        ranks = np.flatnonzero(np.isin(source, program.ranks))
        columns = np.searchsorted(program.ranks, source[ranks])
        work = tuple(_of_members(amounts_of(w, columns), communicators) for w in program.work)
        programs.append(replace(program, name=_name(ranks), ranks=ranks, work=work))
        durations.append(own[:, columns])
    for rank, origin in enumerate(source.tolist()):
        steps += [replace(step, rank=rank) for step in by_rank.get(origin, ())]
    graph = TaskGraph(tuple(programs), communicators)
    return replace(job, graph=graph, durations_ps=tuple(durations), steps=tuple(steps))


def _of_members(work: Work, communicators: Mapping[str, IntArray]) -> Work:
    """The work; an exchange loses the shares of peers if the communicator has another number of members."""
    if not isinstance(work, CollectiveCall) or work.peer_shares is None:
        return work
    members = np.count_nonzero(communicators[work.communicator] == 0)
    return work if work.peer_shares.shape[1] == members else replace(work, peer_shares=None)


def _name(ranks: IntArray) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]} to {ranks[-1]}, {len(ranks)} of them"


def _resharded(job: ReplayJob, share: np.ndarray[tuple[int], np.dtype[np.float64]]) -> ReplayJob:
    """Lookups, updates and exchanges of pooled vectors times each rank's ``share`` ``[N]``."""
    programs, durations = [], []
    for program, own in zip(job.graph.programs, job.durations_ps, strict=True):
        mine = share[program.ranks]
        sharded = np.array([is_sharded_lookup(work) for work in program.work])
        longer = own.copy()
        longer[sharded] = np.rint(own[sharded] * mine)
        durations.append(longer)
        programs.append(_exchanging(program, mine))
    return replace(job, graph=replace(job.graph, programs=tuple(programs)), durations_ps=tuple(durations))


def _exchanging(program: Program, share: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Program:
    def changed(work: Work) -> Work:
        if isinstance(work, CollectiveCall) and work.op == "all_to_all" and work.dtype.startswith(("fp", "bf", "tf")):
            return replace(work, bytes=np.asarray(work.bytes) * share)
        return work

    return replace(program, work=tuple(changed(work) for work in program.work))

"""Imports Kineto traces of one or more ranks of a job, alone or with the execution traces recorded beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from inputs.errors import InputError
from simulator.collective_calls import CollectiveCall
from simulator.operators import Copy
from simulator.program import IntArray
from traces.collective_args import DEFAULT_GROUP, UNKNOWN_SPLITS
from traces.imported import Gap, Imported, RankStep, absent_ranks, gaps_of
from traces.kineto.clocks import clock_offsets_ps
from traces.kineto.events import RankTrace, ranks_in
from traces.kineto.pairs import with_execution_traces
from traces.kineto.reader import read_kineto
from traces.kineto.tasks import RankImport, rank_tasks
from traces.measured import measured_run
from traces.merge import check_agreement, groups_of, merge
from traces.pytorch.execution_trace import read_pytorch_et
from traces.rank_tasks import RankTasks
from traces.typed import ONE_EACH, no_such_ranks

PS_PER_NS = 1000
PS_PER_US = 1e6
_SAME_CLOCK_NS = 86_400_000_000_000
"""A day: traces of one profile that are further apart were stamped by unrelated clocks."""


def import_kineto(
    files: Sequence[Path],
    ranks: Sequence[int] | None = None,
    execution_traces: Sequence[Path] = (),
    *,
    whole: bool = False,
) -> Imported:
    """Import the traces of a job.

    Args:
        files: one trace per rank.
        ranks: ranks to keep; default: all.
        execution_traces: PyTorch execution traces of the same ranks; they know sizes, splits and process groups of
            collectives that older Kineto traces do not have.
        whole: whether each trace is one step and the profiler's steps are ignored.

    Raises:
        InputError: a file is no such trace, contradicts itself, or two are of one rank.
        ProgramError: ranks disagree on a collective.
    """
    traces = _numbered([part for file in files for part in ranks_in(read_kineto(file))])
    all_ranks = tuple(sorted(traces))
    if ranks is not None:
        traces = {rank: trace for rank, trace in traces.items() if rank in set(ranks)}
        if not traces:
            raise no_such_ranks(ranks, all_ranks)
    imports = [rank_tasks(trace, rank, whole=whole) for rank, trace in sorted(traces.items())]
    if execution_traces:
        imports = with_execution_traces(imports, [read_pytorch_et(file) for file in execution_traces], all_ranks)
    world_size = max([*(t.world_size or 0 for t in traces.values()), max(traces) + 1])
    members = _members(imports)
    _check_members(imports[0].trace.file, members, world_size)
    imports = [_with_peers_of(imported, members, world_size) for imported in imports]
    communicators = groups_of(members, world_size)
    check_agreement([i.tasks for i in imports], communicators)
    shifts_ps, notes = _common_clock(imports, members)
    placed = [_shifted(i.tasks, shift) for i, shift in zip(imports, shifts_ps, strict=True)]
    merged = merge(placed, communicators, world_size)
    return Imported(
        format="Kineto with PyTorch execution traces" if execution_traces else "Kineto",
        files=tuple(dict.fromkeys(trace.file for trace in traces.values())),
        graph=merged.graph,
        world_size=world_size,
        measured=measured_run(merged),
        steps=_steps(imports, shifts_ps),
        device=next((t.device for t in traces.values() if t.device), ""),
        found=_found(imports),
        lookups=tuple(lookup for i in imports for lookup in i.lookups),
        gaps=(
            *absent_ranks(traces, world_size),
            *_named(traces),
            *notes,
            *_overlaps(imports),
            *gaps_of({i.tasks.rank: i.gaps for i in imports}),
        ),
    )


def _numbered(traces: Sequence[RankTrace]) -> dict[int, RankTrace]:
    """Traces by rank; a single one without a rank is rank 0."""
    found: dict[int, RankTrace] = {}
    for trace in traces:
        if trace.rank is None and len(traces) > 1:
            raise InputError(
                "does not say its rank",
                file=trace.file,
                expected="distributedInfo.rank, or a name with its rank: rank3, worker-3, trace_3.json",
            )
        rank = trace.rank or 0
        if rank in found:
            raise InputError(f"is of rank {rank}, and so is {found[rank].file}", file=trace.file, expected=ONE_EACH)
        found[rank] = trace
    return found


def _named(traces: Mapping[int, RankTrace]) -> Iterator[Gap]:
    """The gaps of traces without their rank."""
    by_name = tuple(rank for rank, trace in traces.items() if trace.rank is not None and trace.rank_from_name)
    unknown = tuple(rank for rank, trace in traces.items() if trace.rank is None)
    if by_name:
        yield Gap("traces without their rank (taken: the number in the file's name)", len(by_name), by_name)
    if unknown:
        yield Gap("traces without their rank (taken: rank 0)", len(unknown), unknown)


def _overlaps(imports: Sequence[RankImport]) -> Iterator[Gap]:
    """The gap of overlapping work on one stream, with the common time."""
    shared = {i.tasks.rank: i.overlaps_ps for i in imports if len(i.overlaps_ps)}
    if shared:
        longest, whole = (f"{of / PS_PER_US:,.4g} us" for of in _extent(np.concatenate([*shared.values()])))
        words = f"at most {longest} each, {whole} in all (common time counts once)"
        count = sum(len(own) for own in shared.values())
        yield Gap(f"kernels or copies that overlap earlier work of their stream: {words}", count, tuple(shared))


def _extent(ps: IntArray) -> tuple[int, int]:
    return int(ps.max()), int(ps.sum())


def _members(imports: Sequence[RankImport]) -> dict[str, tuple[int, ...] | None]:
    """Ranks of each process group; None for all. Where no trace lists them, the ranks that use it."""
    members: dict[str, tuple[int, ...] | None] = {}
    users: dict[str, list[int]] = {}
    for imported in imports:
        for name, group in imported.groups.items():
            members[name] = members.get(name) or group.ranks
            users.setdefault(name, []).append(imported.tasks.rank)
    for name in [name for name, ranks in members.items() if ranks is None and name != DEFAULT_GROUP]:
        members[name] = tuple(users[name])
        for imported in imports:
            imported.gaps["process groups whose members the trace does not say (taken: the ranks that use it)"] += (
                name in imported.groups
            )
    return members


def _check_members(file: Path, members: Mapping[str, tuple[int, ...] | None], world_size: int) -> None:
    """Check that process groups have ranks of the job.

    Raises:
        InputError: one has another.
    """
    for group, ranks in members.items():
        if ranks and max(ranks) >= world_size:
            given, expected = max(ranks), f"ranks below {world_size}, the number of ranks"
            raise InputError(
                f"process group {group[:60]!r} has a rank beyond the job's", file=file, given=given, expected=expected
            )


def _with_peers_of(imported: RankImport, members: Mapping[str, tuple[int, ...] | None], world_size: int) -> RankImport:
    """The import without splits whose number is not the size of the group."""
    work = list(imported.tasks.work)
    for task, own in enumerate(work):
        if isinstance(own, CollectiveCall) and own.peer_shares is not None:
            size = len(members.get(own.communicator) or ()) or world_size
            if own.peer_shares.shape[1] != size:
                work[task] = replace(own, peer_shares=None)
                imported.gaps[UNKNOWN_SPLITS] += 1
    return replace(imported, tasks=replace(imported.tasks, work=tuple(work)))


def _common_clock(
    imports: Sequence[RankImport], members: Mapping[str, tuple[int, ...] | None]
) -> tuple[list[int], list[Gap]]:
    """Offset of each rank's times so that all start at 0 on one clock, and the assumptions."""
    bases = [i.trace.base_ns for i in imports]
    notes = []
    related = max(bases) - min(bases) < _SAME_CLOCK_NS
    shifts = [(base - min(bases)) * PS_PER_NS if related else 0 for base in bases]
    ranks = tuple(i.tasks.rank for i in imports)
    if not related:
        notes.append(Gap("ranks were stamped by unrelated clocks", len(imports), ranks))
    ahead = clock_offsets_ps([_shifted(i.tasks, s) for i, s in zip(imports, shifts, strict=True)], members)
    if np.any(ahead):
        spread = int(ahead.max() - ahead.min()) // 1_000_000
        what = f"clocks of the ranks differ by up to {spread} us; they were moved so that collectives end together"
        notes.append(Gap(what, int(np.count_nonzero(ahead)), tuple(r for r, a in zip(ranks, ahead, strict=True) if a)))
    shifts = [shift - int(a) for shift, a in zip(shifts, ahead, strict=True)]
    origin = min(int(i.trace.events.start_ps.min()) + shift for i, shift in zip(imports, shifts, strict=True))
    return [shift - origin for shift in shifts], notes


def _shifted(tasks: RankTasks, by_ps: int) -> RankTasks:
    return replace(tasks, start_ps=tasks.start_ps + by_ps, end_ps=tasks.end_ps + by_ps)


def _steps(imports: Sequence[RankImport], shifts_ps: Sequence[int]) -> tuple[RankStep, ...]:
    return tuple(
        RankStep(imported.tasks.rank, step.number, step.name, step.start_ps + shift, step.end_ps + shift)
        for imported, shift in zip(imports, shifts_ps, strict=True)
        for step in imported.steps
    )


def _found(imports: Sequence[RankImport]) -> dict[str, int]:
    """Counts over all ranks."""
    work = [w for i in imports for w in i.tasks.work]
    return {
        "events read": sum(len(i.trace.events) + sum(i.trace.dropped.values()) for i in imports),
        "device events": sum(int(i.trace.events.on_device.sum()) for i in imports),
        "collectives": sum(isinstance(w, CollectiveCall) for w in work),
        "copies": sum(isinstance(w, Copy) for w in work),
        "steps": max(len(i.steps) for i in imports),
        "tasks": len(work),
        "dependencies": sum(len(i.tasks.dep_task) for i in imports),
    }

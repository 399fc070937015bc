"""``replay``: run traces in the engine, as measured, or on other hardware, other ranks, precision and overlap."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from dlrmsim.output.folders import replaceable
from dlrmsim.output.trace_results import write_trace_results
from dlrmsim.verbs.what import Name, Names, paths_of
from hardware_specs import CATALOGS
from hardware_specs.loader import load_cluster, load_gpu
from hardware_specs.processors import Gpu
from inputs.errors import InputError, nearest_name
from scenarios.progress import Progress, Silent
from simulator.analysis.steps import StepRow
from simulator.lowered import PS_PER_S
from simulator.lowering import Machine, build_machine
from traces.analysis import TraceAnalysis, analyse_trace, import_summary
from traces.formats import import_traces
from traces.imported import Imported
from traces.replay import Job, job_of, replayed
from traces.replay.absent import with_late_absent_ranks
from traces.replay.batch import with_local_batch
from traces.replay.delays import delayed
from traces.replay.gpu import MethodShare, gpu_of_device, on_gpu
from traces.replay.overlap import with_communication_hidden, without_overlap
from traces.replay.precision import in_precision
from traces.replay.ranks import at_world_size, with_clones

Absent = Literal["none", "clones", "late"]
Overlap = Literal["as_traced", "none", "hidden"]
Word = TypeVar("Word", bound=str | None)

_OVERLAPS: Mapping[str, Callable[[Job], Job]] = {"none": without_overlap, "hidden": with_communication_hidden}


@dataclass(frozen=True, slots=True)
class Changes:
    """What is other than measured; fields as the options of `replay`."""

    cluster: Name | None = None
    gpu: Name | None = None
    from_gpu: Name | None = None
    world_size: int | None = None
    local_batch: int | None = None
    absent: Absent | None = None
    overlap: Overlap = "as_traced"
    delays_s: Mapping[int, float] = field(default_factory=dict)
    precisions: Mapping[str, str] = field(default_factory=dict)

    @property
    def any(self) -> bool:
        """Whether anything is other than measured."""
        return self != Changes()


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """A replay.

    Attributes:
        folder: where it is written; None: nowhere.
        changes: what is other than measured.
        before: the import.
        after: the same with the times of the replay.
        methods: how kernels came to another GPU.
        summary: what ``replay --json`` prints.
    """

    folder: Path | None
    changes: Changes
    before: Imported
    after: Imported
    methods: tuple[MethodShare, ...]
    summary: Mapping[str, object]


def replay(
    what: Names,
    *,
    cluster: Name | None = None,
    gpu: Name | None = None,
    from_gpu: Name | None = None,
    world_size: int | None = None,
    local_batch: int | None = None,
    absent: Absent | None = None,
    overlap: Overlap = "as_traced",
    delays_s: Mapping[int, float] | None = None,
    precisions: Mapping[str, str] | None = None,
    ranks: Sequence[int] | None = None,
    out: Name | None = None,
    progress: Progress | None = None,
) -> ReplayResult:
    """Import traces and run them in the engine.

    Args:
        what: traces of one job.
        cluster: the cluster that takes the collectives; default: transfers as measured.
        gpu: the GPU that takes the kernels; default: kernels as measured.
        from_gpu: the GPU of the trace; default: by its name in the trace.
        world_size: ranks of the job, default: as traced.
        local_batch: samples of each rank, default: as traced.
        absent: ranks without a trace: left out, clones of the traced ones, or known only by their arrivals; default:
            clones on a cluster or another world size, else left out.
        overlap: of device work.
        delays_s: lateness of ranks in each step, seconds.
        precisions: type by operation of collectives, ``all`` for the others.
        ranks: ranks to keep; default: all.
        out: folder for the files of `import_traces`, with the times of the replay.

    Raises:
        InputError: a trace is wrong, has no times to replay and no cluster was named, a change is impossible, or
            ``out`` may not be written.
        DeadlockError: the trace's dependencies contradict each other.
    """
    changes = Changes(
        cluster,
        gpu,
        from_gpu,
        world_size,
        local_batch,
        _known("--absent", absent, Absent),
        _known("--overlap", overlap, Overlap),
        delays_s or {},
        precisions or {},
    )
    progress, folder = progress or Silent(), None if out is None else replaceable(out)
    begin = time.perf_counter()
    progress.stage("reading traces")
    before = import_traces(paths_of(what), ranks)
    progress.stage("replaying")
    job, methods = _changed(job_of(before), changes)
    machine = None if changes.cluster is None else _machine(changes.cluster, job.world_size)
    after = replayed(job, machine)
    progress.stage("analysing")
    analysis = analyse_trace(after, after.measured) if after.measured else None
    summary = _summary(before, after, analysis, changes, methods)
    if folder is not None:
        written = import_summary(after, analysis) | summary
        write_trace_results(folder, after, analysis, written, report=True, begin=begin, progress=progress)
    return ReplayResult(folder, changes, before, after, methods, summary)


def _known(name: str, word: Word, kind: object) -> Word:
    """The word, if it is one of a kind or None.

    Raises:
        InputError: it is none of them.
    """
    words = get_args(kind)
    if word is not None and word not in words:
        expected, near = f"one of {', '.join(words)}", nearest_name(word, words)
        raise InputError("is none of its words", file=name, given=word, expected=expected, nearest=near)
    return word


def _machine(cluster: Name, world_size: int) -> Machine:
    return build_machine(load_cluster(cluster), world_size, launch_s=0.0)


def _changed(job: Job, changes: Changes) -> tuple[Job, tuple[MethodShare, ...]]:
    """The job with every change, and how its kernels came to another GPU."""
    whole = changes.cluster is not None or changes.world_size is not None
    absent = changes.absent or ("clones" if whole else "none")
    if changes.world_size is not None and absent == "late":
        given, expected = "late", "clones: who arrives when on other ranks is not known"
        raise InputError("does not go with --world-size", file="--absent", given=given, expected=expected)
    if changes.world_size is not None and changes.cluster is None:
        expected = "--cluster: transfers between other ranks were not measured"
        raise InputError("needs a network", file="--world-size", given=changes.world_size, expected=expected)
    if absent == "late":
        job = with_late_absent_ranks(job)
    if changes.precisions:
        job = in_precision(job, changes.precisions)
    methods: tuple[MethodShare, ...] = ()
    if changes.gpu is not None:
        job, methods = on_gpu(job, _traced_gpu(job, changes), load_gpu(changes.gpu))
    if changes.local_batch is not None:
        gpu = _traced_gpu(job, changes) if changes.gpu is None else load_gpu(changes.gpu)
        job = with_local_batch(job, changes.local_batch, gpu)
    if changes.world_size is not None:
        job = at_world_size(job, changes.world_size)
    elif absent == "clones":
        job = with_clones(job)
    if changes.overlap in _OVERLAPS:
        job = _OVERLAPS[changes.overlap](job)
    return (delayed(job, changes.delays_s) if changes.delays_s else job), methods


def _traced_gpu(job: Job, changes: Changes) -> Gpu:
    return load_gpu(changes.from_gpu or gpu_of_device(job.source.device, CATALOGS["gpu"].names()))


def _summary(
    before: Imported,
    after: Imported,
    analysis: TraceAnalysis | None,
    changes: Changes,
    methods: Sequence[MethodShare],
) -> dict[str, Any]:
    """The content of `--json`; documented in docs/reference/replays.md."""
    makespan = {"makespan_s": _makespan_s(after)}
    steps = {} if analysis is None or not analysis.steps else {"step": mean_step(analysis.steps)}
    measured: dict[str, Any] = {}
    if before.measured is not None:
        measured = {"measured_makespan_s": _makespan_s(before)}
        rows = analyse_trace(before, before.measured).steps
        measured |= {"measured_step": mean_step(rows)} if rows else {}
    if not changes.any and before.measured is not None:
        measured["largest_error_s"] = error_ps(before, after) / PS_PER_S
    return {
        "format": before.format,
        "cluster": None if changes.cluster is None else str(changes.cluster),
        "ranks": len(before.ranks),
        "world_size": after.world_size,
        **makespan,
        **steps,
        **measured,
        "kernels": [
            {"method": str(m.method), "tasks": m.tasks, "before_s": m.before_s, "after_s": m.after_s} for m in methods
        ],
        "gaps": [{"what": gap.what, "count": gap.count} for gap in after.gaps],
    }


def _makespan_s(imported: Imported) -> float:
    return int(imported.measured.result.iteration_end_ps[0]) / PS_PER_S if imported.measured else 0.0


STEP_PARTS = (
    "step_s", "compute_s", "exposed_comm_s", "exposed_waiting_s", "exposed_copy_s", "idle_s", "idle_host_s", "comm_s",
)  # fmt: skip
"""Parts of a step that a replay compares, means over ranks and steps."""


def mean_step(rows: Sequence[StepRow]) -> dict[str, float]:
    """Means over ranks and steps."""
    return {part: float(np.mean([getattr(row, part) for row in rows])) for part in STEP_PARTS}


def error_ps(before: Imported, after: Imported) -> int:
    """Largest difference between a task's measured and replayed end over all tasks and ranks."""
    if before.measured is None or after.measured is None:
        return 0
    pairs = zip(before.measured.result.records[0].groups, after.measured.result.records[0].groups, strict=True)
    return max(int(np.abs(measured.end_ps - own.end_ps).max(initial=0)) for measured, own in pairs)

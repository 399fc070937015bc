"""``replay``: run traces in the engine, as measured, or on other hardware, hosts, ranks, precision and overlap."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlrmsim.output.folders import replaceable
from dlrmsim.output.trace_results import TraceResults, write_trace_results
from dlrmsim.verbs.what import Name, Names, paths_of
from scenarios.estimate import require_room
from scenarios.located import of_file
from scenarios.progress import Progress, Silent
from traces.analysis import TraceAnalysis, analyse_trace, import_summary
from traces.formats import import_traces
from traces.imported import Imported
from traces.replay import job_of, replayed
from traces.replay.bound import bound_of
from traces.replay.changes import Absent, Changes, Overlap, changed
from traces.replay.gpu import MethodShare
from traces.replay.record import ReplayRecord, record_of
from traces.replay.summary import replay_summary


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """A replay.

    Attributes:
        folder: output folder; None: nothing is written.
        changes: changes against the measurement.
        before: the import.
        after: the same with the times of the replay.
        methods: how kernels came to another GPU.
        record: both machines, changes, measured and replayed times.
        summary: the content of ``summary.json``: the summary of an import, of the replayed times, and `to_dict`.
    """

    folder: Path | None
    changes: Changes
    before: Imported
    after: Imported
    methods: tuple[MethodShare, ...]
    record: ReplayRecord
    summary: Mapping[str, object]

    def to_dict(self) -> Mapping[str, object]:
        """Both times and the changes, as ``replay --json`` prints them."""
        return replay_summary(self.before, self.after, self.changes, self.record)


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
    host_speed: float = 1.0,
    launches: float = 1.0,
    cuda_graphs: bool = False,
    ranks: Sequence[int] | None = None,
    whole: bool = False,
    out: Name | None = None,
    progress: Progress | None = None,
) -> ReplayResult:
    """Import traces and run them in the engine.

    Args:
        what: traces of one job, or folders of them.
        cluster: the cluster that takes the collectives; default: transfers as measured.
        gpu: the GPU that takes the kernels; default: kernels as measured.
        from_gpu: the GPU of the trace; default: by its name in the trace.
        world_size: ranks of the job, default: as traced.
        local_batch: samples of each rank, default: as traced.
        absent: ranks without a trace: left out, clones of the traced ones, or known only by their arrivals; default:
            clones on a cluster or another world size, else left out.
        overlap: factor on the overlap of device work.
        delays_s: lateness of ranks in each step, seconds.
        precisions: type by operation of collectives, ``all`` for the others.
        host_speed: factor on the speed of host work.
        launches: factor on host work that ends in a launch.
        cuda_graphs: whether launches between two waits of a thread are one CUDA graph.
        ranks: ranks to keep; default: all.
        whole: whether each Kineto trace is one step and the profiler's steps are ignored.
        out: folder for the files of `import_traces`, with the times of the replay.

    Raises:
        InputError: a trace is wrong, has no times to replay and no cluster was named, a change is impossible, or
            ``out`` may not be written.
        DeadlockError: the trace's dependencies contradict each other.
        InfeasibleError: so many tasks on so many ranks need more memory than this machine has free.
    """
    changes = Changes(
        cluster, gpu, from_gpu, world_size, local_batch, absent, overlap, delays_s or {}, precisions or {},
        host_speed, launches, cuda_graphs,
    )  # fmt: skip
    progress, folder = progress or Silent(), None if out is None else replaceable(out)
    begin = time.perf_counter()
    progress.stage("reading traces")
    before = import_traces(paths_of(what), ranks, whole=whole)
    progress.stage("replaying")
    traced = job_of(before)
    tasks = max(program.task_count for program in traced.graph.programs)
    require_room(tasks, world_size or traced.world_size)
    with of_file(gpu or before.files[0]):
        job, methods = changed(traced, changes)
    with of_file(cluster or before.files[0]):
        after = replayed(job, changes.machine(job.world_size))
    progress.stage("analysing")
    analyses = _analysed(before), _analysed(after)
    progress.stage("finding the bound")
    record = record_of((before, after), analyses, changes, methods, job.notes, bound_of(job, after))
    summary = import_summary(after, analyses[1]) | replay_summary(before, after, changes, record)
    if folder is not None:
        results = TraceResults(after, analyses[1], summary, record)
        write_trace_results(folder, results, report=True, begin=begin, progress=progress)
    return ReplayResult(folder, changes, before, after, methods, record, summary)


def _analysed(imported: Imported) -> TraceAnalysis | None:
    return analyse_trace(imported, imported.measured) if imported.measured else None

"""The task graph of a captured step: a program for the ranks of each group.

The host launches tasks in their recorded order. A kernel runs on its recorded stream, a collective on the stream of its
communicator: PyTorch has one for each process group (ProcessGroupNCCL.cpp). The factors of a framework profile on
memory traffic do not apply, as a recording has all kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from simulator.operators import FloatArray, HostWork, Marker
from simulator.program import IntArray, Program, Stream, TaskGraph
from simulator.rank_classes import classes_of
from simulator.work import Operator, Work
from workloads.captured.fusing import JobStep, steps_of
from workloads.captured.kernels import operators_of
from workloads.captured.messages import PairsOfRanks, pairs_of
from workloads.captured.records import Collective, RankProgram, RecordedJob, RecordedWork
from workloads.captured.replicas import in_step, repeats
from workloads.captured.settings import CapturedSettings, HostRanks
from workloads.graph.overheads import SHARED
from workloads.graph.recorder import HOST, Recorder

BEGIN = "begin"
"""Task with which the host begins an iteration."""

AHEAD = 2
"""Iterations back whose kernels have ended when the host begins one: it is one ahead of the device at most. A queue of
launches that is full stops it earlier in long steps, where it is ahead in any case."""

ROOTED = ("gather", "scatter")
"""Collectives that PyTorch makes of messages between the root and the others (ProcessGroupNCCL.cpp)."""


def iteration_graph(settings: CapturedSettings) -> TaskGraph:
    """The task graph of all ranks.

    Raises:
        InputError: a send names a rank that is no member of its communicator.
    """
    job = settings.job
    messages = pairs_of(job)
    communicators = {**_instances(job), **messages.communicators}
    groups = [(number, part, ranks) for number, parts in enumerate(messages.parts) for part, ranks in enumerate(parts)]
    kernels = operators_of(settings)
    steps = [steps_of(job, program, kernels, fused=settings.fuse != "none") for program in job.programs]
    calls = [_Calls(job, number, part, ranks, messages) for number, part, ranks in groups]
    used = {name for own in calls for name in own.communicators()}
    found = {name: instance for name, instance in communicators.items() if name in used}
    together = in_step(found, [ranks for _, _, ranks in groups]) and not any(map(uneven, job.works))
    programs = tuple(
        _GroupProgram(settings, job.programs[number], own, steps[number], together=together).program()
        for own, (number, _, _) in zip(calls, groups, strict=True)
    )
    return TaskGraph(programs, found, repeats=repeats(programs, found, together=together))


def alike_ranks(job: RecordedJob) -> int:
    """Number of classes of ranks that do the same at the same times, at most: programs, or members of other groups."""
    instances, ranks = _instances(job), [program.ranks for program in job.programs]
    if in_step(instances, ranks):
        return len(ranks)
    program_of = np.zeros(job.world_size, dtype=np.int64)
    for number, own in enumerate(ranks):
        program_of[list(own)] = number
    return len(classes_of(job.world_size, [program_of, *instances.values()]).first)


def uneven(work: RecordedWork) -> bool:
    """Whether a work is an all_to_all whose members receive different amounts."""
    return isinstance(work, Collective) and len(set(work.sent)) > 1


def _instances(job: RecordedJob) -> dict[str, IntArray]:
    """Instance of each rank by communicator ``[world_size]``; -1: the rank is in none."""
    found = {}
    for name, instances in job.communicators.items():
        found[name] = np.full(job.world_size, -1, dtype=np.int64)
        for number, ranks in enumerate(instances):
            found[name][list(ranks)] = number
    return found


class _Calls:
    """Collective calls of the ranks of a program."""

    def __init__(self, job: RecordedJob, program: int, part: int, ranks: Sequence[int], messages: PairsOfRanks) -> None:
        self.ranks = np.array(ranks, dtype=np.int64)
        self._job, self._program, self._part, self._messages = job, program, part, messages
        self._members: dict[str, list[tuple[int, ...]]] = {}

    def communicators(self) -> set[str]:
        """All communicators that are called."""
        works = {task.work for task in self._job.programs[self._program].tasks}
        return {self.communicator(work) for work in works if isinstance(self._job.works[work], Collective)}

    def communicator(self, work: int) -> str:
        """Communicator of a work: its own, or the communicator of the pair that sends."""
        call = self._job.works[work]
        if not isinstance(call, Collective):
            raise TypeError(f"work {work} is no collective")
        return self._messages.name_of[self._program, self._part, work] if call.op == "send" else call.communicator

    def call(self, work: int, call: Collective, *, together: bool) -> CollectiveCall:
        """The call of a work."""
        root = int(call.peer > 0) if call.op == "send" else self._root(call)
        shares = self._shares(call) if uneven(call) else None
        return CollectiveCall(
            call.op, self.communicator(work), call.bytes, call.dtype, peer_shares=shares, root=root, in_step=together
        )

    def _instance_members(self, communicator: str) -> list[tuple[int, ...]]:
        """Members of the instance of each rank, in the communicator's order."""
        if communicator not in self._members:
            of_rank = {rank: each for each in self._job.communicators[communicator] for rank in each}
            self._members[communicator] = [of_rank[rank] for rank in self.ranks.tolist()]
        return self._members[communicator]

    def _root(self, call: Collective) -> int | None:
        """Number of the root in rank order."""
        if call.root is None or call.op not in ROOTED:
            return None
        members = self._instance_members(call.communicator)[0]
        return sorted(members).index(members[call.root])

    def _shares(self, call: Collective) -> FloatArray:
        """Fractions that each rank sends to the members in rank order ``[P, n]``."""
        sent = np.array(call.sent)
        return np.stack([sent[np.argsort(members)] for members in self._instance_members(call.communicator)])


class _StepRecorder(Recorder):
    """Records steps on the streams of a program."""

    def __init__(self, ranks: IntArray, settings: CapturedSettings, streams: Sequence[Stream | str], name: str) -> None:
        """Start an empty iteration."""
        host = settings.host or HostRanks()
        super().__init__(
            ranks,
            settings.framework,
            streams,
            name=name,
            on_host=settings.host is not None,
            copied=host.copied,
            host_factors=not host.measured,
            progress=host.progress,
        )

    def _scaled(self, work: Work) -> Work:
        """The work as it was recorded."""
        return work

    def unlaunched(self, name: str, work: Work, *, section: str, stream: str, after: Iterable[int] = ()) -> int:
        """A task of a stream that the host does not launch; returns its number."""
        placed = self._place(stream)
        self._last[placed] = self.task(name, placed, work, after=after, section=section)
        return self._last[placed]

    def last_of(self, stream: str) -> int | None:
        """The last task of a stream so far."""
        return self._last.get(self._place(stream))


class _GroupProgram:
    """Program of the ranks of a group."""

    def __init__(
        self,
        settings: CapturedSettings,
        program: RankProgram,
        calls: _Calls,
        steps: Sequence[JobStep],
        *,
        together: bool,
    ) -> None:
        self._job, self._calls, self._steps, self._together = settings.job, calls, steps, together
        self._overheads = settings.framework.overheads
        works = dict.fromkeys(step.task.work for step in steps if isinstance(self._work(step), Collective))
        self._streams = _stream_names(program.streams)
        self._comm = {work: f"comm_{calls.communicator(work)}" for work in works}
        ranks = calls.ranks
        alone = len(ranks) == settings.job.world_size
        name = "iteration" if alone else f"ranks_{ranks[0]}" if len(ranks) > 1 else f"rank_{ranks[0]}"
        streams = _streams(self._streams, list(dict.fromkeys(self._comm.values())), settings.host)
        self._recorder = _StepRecorder(ranks, settings, streams, name)
        self._used: dict[str, int] = {}
        self._names = {BEGIN}
        self._tasks: list[int] = []
        self._later: list[tuple[int, tuple[int, ...]]] = []

    def program(self) -> Program:
        """The program."""
        begin = self._recorder.host(BEGIN, Marker(), section=self._steps[0].section if self._steps else "forward")
        for step in self._steps:
            self._tasks.append(self._record(step))
        for ended in filter(None, map(self._recorder.last_of, self._streams)):
            self._recorder.depend(begin, ended, lag=AHEAD)
        for task, streams in self._later:
            for stream in streams:
                last = self._recorder.last_of(self._streams[stream])
                if last is not None:
                    self._recorder.depend(task, last, lag=1)
        return self._recorder.build()

    def _work(self, step: JobStep) -> RecordedWork:
        return self._job.works[step.task.work]

    def _record(self, step: JobStep) -> int:
        """Record a step; returns the number of its task."""
        name, work = self._unique(step.name), self._work(step)
        after = [self._tasks[other] for other in step.after]
        if isinstance(work, Collective):
            return self._collective(step, name, work, after)
        if step.kernel is None:
            task = self._recorder.host(name, Marker(), section=step.section)
            for other in after:
                self._recorder.depend(task, other)
        else:
            task = self._kernel(step, name, step.kernel, after)
        if step.after_streams:
            self._later.append((task, step.after_streams))
        return task

    def _kernel(self, step: JobStep, name: str, kernel: Operator, after: Sequence[int]) -> int:
        stream = self._streams[step.stream]
        if step.launches == 0:
            return self._recorder.unlaunched(name, kernel, section=step.section, stream=stream, after=after)
        if step.task.continues and self._overheads is None:
            launch = self._recorder.host(f"launch_{name}", HostWork(step.launches), section=step.section)
            after = [launch, *after]
            return self._recorder.unlaunched(name, kernel, section=step.section, stream=stream, after=after)
        known = () if self._overheads is None else self._overheads.operators
        operators = [key if key in known else SHARED for key in step.overhead_keys[:1]]
        return self._recorder.kernel(
            name,
            kernel,
            section=step.section,
            stream=stream,
            after=after,
            launches=step.launches,
            operators=operators,
            continues=step.task.continues,
        )

    def _collective(self, step: JobStep, name: str, work: Collective, after: Sequence[int]) -> int:
        """A collective on the stream of its communicator, after earlier tasks of the stream that issues it.

        That stream waits for ``after`` first, and so do its later tasks; they do not wait for the collective.
        """
        stream = self._streams[step.stream]
        if after or step.after_streams:
            wait = self._recorder.unlaunched(
                self._unique(f"{name}_wait"), Marker(Category.COMM), section=step.section, stream=stream, after=after
            )
            if step.after_streams:
                self._later.append((wait, step.after_streams))
        call = self._calls.call(step.task.work, work, together=self._together)
        return self._recorder.collective(
            name, call, section=step.section, issued_from=stream, stream=self._comm[step.task.work]
        )

    def _unique(self, name: str) -> str:
        """A name with a number where it repeats; no launch has it."""
        base = f"task_{name}" if name.startswith("launch_") else name
        number = self._used.get(base, 0)
        found = f"{base}_{number}" if number else base
        while found in self._names:
            number += 1
            found = f"{base}_{number}"
        self._used[base] = number + 1
        self._names.add(found)
        return found


def _streams(device: Sequence[str], comm: Sequence[str], host: HostRanks | None) -> list[Stream | str]:
    """Streams of a program: the host's, the device's, and one for each communicator."""
    if host is None:
        return [HOST, *device, *comm]
    return [HOST, *(Stream(name, workers=host.threads) for name in comm)]


def _stream_names(recorded: Sequence[str]) -> list[str]:
    """Names of device streams; streams of the host and of communicators are left out."""
    return [f"{name}_stream" if name == HOST or name.startswith("comm_") else name for name in recorded]

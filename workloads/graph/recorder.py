"""Recording kernels and collectives as PyTorch launches them: a host task, then the work on a stream.

A kernel waits for its launch and for the work before it on its stream. A collective that c10d launches waits, besides,
for everything launched so far on the stream that issues it (an event is recorded there), and a wait for a collective
holds the stream that waits, not the host (software facts: pytorch ProcessGroupNCCL.cpp). A CUDA graph has one launch
for all its kernels.

On CPUs there is nothing to launch on: kernels run on the host thread, which also does the waiting; collectives are left
to threads of the library (pytorch ProcessGroupGloo.cpp). A library without threads of its own (MPI) advances them only
while the host is inside its calls: a collective is issued, and runs on the host when something waits for it, after all
that were issued before it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from simulator.operators import (
    Amount,
    Copy,
    Delay,
    Elementwise,
    EmbeddingLookup,
    EmbeddingUpdate,
    HostWork,
    Interaction,
    Marker,
    scaled,
)
from simulator.program import IntArray, Program, Stream
from simulator.work import Work, touched_bytes
from workloads.graph.choices import Progress
from workloads.graph.framework import CudaGraph, Framework
from workloads.graph.operator_names import operator_of
from workloads.graph.overheads import COPY_CALL, LAUNCH_CALL, SHARED, HostCosts
from workloads.graph.passes import PassBuilder
from workloads.graph.schedule import Schedule

HOST, DEFAULT, DATA_DIST, MEMCPY, COMM, INPUT_COMM = "host", "default", "data_dist", "memcpy", "comm", "input_comm"
NODE_COMM, CROSS_NODE_COMM, SUM_COMM = "node_comm", "cross_node_comm", "sum_comm"
LOOKUP, PREFETCH, READER, FRONTEND = "emb_lookup", "prefetch", "reader", "frontend"
"""Streams of a rank: the host thread, the default stream, input_dist's, copies', one per process group, those of
lookups and of cache prefetches, its part of the reader hosts' work and of the front-end NICs."""

_OUTSIDE_NETWORK = frozenset({"input", "embedding_forward", "embedding_backward", "optimizer"})
"""Sections whose kernels are no part of HugeCTR's graph of the network."""


COMM_STREAMS = (COMM, INPUT_COMM, NODE_COMM, CROSS_NODE_COMM, SUM_COMM)


def streams_of(
    schedule: Schedule,
    *,
    own_input_group: bool,
    own_sum_group: bool = False,
    node_groups: bool = False,
    ingestion: bool = False,
    on_host: bool = False,
    collective_threads: int = 1,
    divided: Sequence[str] = (),
) -> tuple[Stream, ...]:
    """The streams that an iteration uses; those of process groups have as many workers as these have threads.

    Args:
        divided: streams of the exchanges of divided layers, on GPUs.
    """
    own = (*[INPUT_COMM] * own_input_group, *[SUM_COMM] * own_sum_group)
    nodes = (NODE_COMM, CROSS_NODE_COMM) if node_groups else ()
    readers = (READER, FRONTEND) if ingestion else ()
    if on_host:
        names = (HOST, COMM, *own, *nodes, *readers)
    else:
        dist = (DATA_DIST,) if schedule.own_input_stream else ()
        lookup = (LOOKUP,) if schedule.own_lookup_stream else ()
        fill = (PREFETCH,) if schedule.fill else ()
        names = (HOST, DEFAULT, *dist, MEMCPY, COMM, *own, *nodes, *divided, *lookup, *fill, *readers)
    return tuple(Stream(name, workers=collective_threads if name in COMM_STREAMS else 1) for name in names)


class _Issued(NamedTuple):
    """A collective that the host has issued, and that advances when the host waits for it or for a later one."""

    name: str
    call: CollectiveCall
    section: str


class Recorder(PassBuilder):
    """Collects the tasks of one iteration in the order in which the host launches them."""

    def __init__(
        self,
        ranks: IntArray,
        framework: Framework,
        streams: Sequence[Stream | str],
        *,
        cuda_graph: CudaGraph = "none",
        passes: int = 1,
        on_host: bool = False,
        copied: Collection[str] = (),
        host_factors: bool = False,
        progress: Progress = "beside",
        name: str = "iteration",
    ) -> None:
        """Start an empty iteration of ``passes`` passes for ``ranks``; ``name`` is the program's.

        Args:
            host_factors: whether factors of the framework apply to kernels on CPUs, which no measurement includes.
            progress: place in which collectives of CPUs advance.
        """
        super().__init__(ranks, streams, passes, name)
        self._rank_count = len(ranks)
        self._in_calls = on_host and progress == "in_calls"
        self._issued: list[_Issued] = []
        self._ended: dict[int, int] = {}
        self._measured = on_host and not host_factors
        own = not self._measured
        self._costs = framework.host_costs() if own else HostCosts(0.0)
        self._on_host, self._alone = on_host, on_host and len(ranks) == 1
        self._plain = framework.plain_alone and len(ranks) == 1
        self._copied = copied
        self._elementwise = framework.factor("elementwise_factor") if own else 1.0
        self._interaction = framework.factor("interaction_factor") if own else 1.0
        self._embedding = framework.factor("embedding_factor") if own else 1.0
        self._cuda_graph = "none" if on_host else cuda_graph
        self._graph: int | None = None
        self._graphs = self._ends = 0
        self._last: dict[str, int] = {}
        self._before_bytes: Amount = 0.0

    @property
    def rank_count(self) -> int:
        """Number of ranks of the program."""
        return self._rank_count

    def kernel(
        self,
        name: str,
        work: Work,
        *,
        section: str,
        stream: str = DEFAULT,
        after: Iterable[int] = (),
        launches: int = 1,
        operators: Sequence[str] = (),
        continues: bool = False,
    ) -> int:
        """Launch ``work`` as ``launches`` kernels of one operator on ``stream``; returns the task's number.

        Args:
            operators: names in profiles with overheads by operator; none: the kind of work says which one.
            continues: whether the operator before launches this too, in such profiles.
        """
        known, call = operators or [operator_of(work, section)], COPY_CALL if isinstance(work, Copy) else LAUNCH_CALL
        host = partial(self._costs.launch, known, launches, call=call, continues=continues)
        launch = self._launch(name, host, section, captured=section not in _OUTSIDE_NETWORK)
        stream = self._place(stream)
        task = self.task(name, stream, self._scaled(work), after=[launch, *after], section=section)
        self._last[stream] = task
        if self._on_host and np.any(touched := touched_bytes(work)):
            self._before_bytes = touched
        return task

    def wait_for_launches(self, name: str, seconds: Amount, *, section: str, stream: str = DEFAULT) -> None:
        """Leave a stream idle for the time in which it waits for the launches of many small kernels.

        The costs of a host that was measured include them.
        """
        if not np.any(np.asarray(seconds) > 0) or self._measured:
            return
        if self._on_host:
            self.host(name, Delay(seconds, "launches"), section=section)
        else:
            self._last[stream] = self.task(name, stream, Delay(seconds, "launches"), section=section)

    def _scaled(self, work: Work) -> Work:
        """The work as the framework's kernels do it."""
        factor = self._elementwise if isinstance(work, Elementwise) else self._interaction
        if isinstance(work, Elementwise) and factor != 1.0:
            return scaled(work, factor)
        if isinstance(work, Interaction) and factor != 1.0:
            return replace(work, read_bytes=factor * work.read_bytes, write_bytes=factor * work.write_bytes)
        if isinstance(work, EmbeddingLookup | EmbeddingUpdate):
            return replace(work, factor=self._embedding)
        return work

    def collective(
        self, name: str, call: CollectiveCall, *, section: str, issued_from: str = DEFAULT, stream: str = COMM
    ) -> int:
        """Launch a collective on the stream of its process group; returns the task's number.

        A rank that is alone on its host copies instead of exchanging; in a framework that is plain alone there is
        nothing to do. Some operations are done on a copy of
        their input, which the call makes (``copied``).
        """
        if self._alone:
            work = Marker(Category.COPY) if call.op == "all_reduce" else Copy(call.bytes, "d2d")
            return self.kernel(name, work, section=section, stream=issued_from)
        if self._plain:
            return self.task(name, self._place(issued_from), Marker(Category.COMM), section=section)
        copied = call.bytes if call.op in self._copied else 0.0
        host = partial(self._costs.launch, [SHARED], 1)
        launch = self._launch(name, host, section, captured=False, collectives=1, copied_bytes=copied)
        issued_from = self._place(issued_from)
        if self._in_calls:
            self._issued.append(_Issued(name, call, section))
            return -len(self._issued)
        event = [self._last[issued_from]] if issued_from in self._last else []
        return self.task(name, stream, call, after=[launch, *event], section=section)

    def task(self, name: str, stream: str, work: Work, *, after: Iterable[int] = (), section: str) -> int:
        """Append a task of the open pass; the host first completes the calls that it waits for (`wait_in_calls`)."""
        known = [self._known(task) for task in after]
        return super().task(name, stream, work, after=known, section=section)

    def depend(self, task: int, on: int | str, *, lag: int = 0) -> None:
        """Let a task depend on others, as `PassBuilder.depend` does."""
        super().depend(self._known(task), on if isinstance(on, str) else self._known(on), lag=lag)

    def wait_in_calls(self, *names: str) -> None:
        """Let the host wait for collectives of the open pass, where they advance only inside such calls."""
        numbers = [number for number, issued in enumerate(self._issued) if issued.name in names]
        self._complete(max(numbers, default=-1) + 1)

    def _known(self, task: int) -> int:
        """The number of a task; a collective that has only been issued is completed, with all issued before it."""
        if task >= 0:
            return task
        self._complete(-task)
        return self._ended[-task]

    def _complete(self, count: int) -> None:
        """Put the first ``count`` issued collectives on the host, one after the other."""
        for number in range(len(self._ended) + 1, count + 1):
            issued = self._issued[number - 1]
            self._ended[number] = super().task(issued.name, HOST, issued.call, section=issued.section)

    def next_pass(self) -> None:
        """Close a pass, whose collectives have ended, and open the next one."""
        self._complete(len(self._issued))
        self._end_operator("optimizer")
        super().next_pass()

    def build(self) -> Program:
        """The program of the iteration, whose collectives have ended; raises as `PassBuilder.build`."""
        self._complete(len(self._issued))
        self._end_operator("optimizer")
        return super().build()

    def stream_wait(self, name: str, on: int | str, *, section: str, stream: str = DEFAULT, lag: int = 0) -> int:
        """Hold ``stream``, not the host, until a collective has ended (``Work.wait`` of c10d); returns the task."""
        stream = self._place(stream)
        if isinstance(on, str):
            self.wait_in_calls(on)
        known = on if isinstance(on, str) else self._known(on)
        task = self.task(name, stream, Marker(Category.COMM), section=section)
        self.depend(task, known, lag=lag)
        self._last[stream] = task
        return task

    def host(self, name: str, work: Work, *, section: str) -> int:
        """Work of the host thread, which ends a CUDA graph; returns the task's number."""
        self._graph = None
        self._end_operator(section)
        return self.task(name, HOST, work, section=section)

    def wait_for(self, name: str, *, section: str) -> None:
        """Let the host wait for a task of the open pass by its name."""
        self.depend(self.host(f"wait_{name}", Marker(), section=section), name)

    def _end_operator(self, section: str) -> None:
        """Let the host end the operator whose last launch is made."""
        after_s = self._costs.end_s()
        if after_s > 0.0:
            self.task(f"end_of_operator_{self._ends}", HOST, HostWork(seconds=after_s), section=section)
            self._ends += 1

    def _place(self, stream: str) -> str:
        """The stream on which work for ``stream`` runs."""
        return HOST if self._on_host and stream not in COMM_STREAMS else stream

    def _launch(
        self,
        name: str,
        cost: Callable[[], HostWork],
        section: str,
        *,
        captured: bool,
        collectives: int = 0,
        copied_bytes: Amount = 0.0,
    ) -> int:
        """The host task that starts a kernel or collective: its own, or that of the graph it is in."""
        if self._cuda_graph == "none" or (self._cuda_graph == "network" and not captured):
            work = replace(cost(), collectives=collectives, copied_bytes=copied_bytes, after_bytes=self._before_bytes)
            self._graph = None
            return self.task(f"launch_{name}", HOST, work, section=section)
        if self._graph is None:
            work = self._costs.launch([SHARED], 1)
            self._graph = self.task(f"launch_graph_{self._graphs}", HOST, work, section="graph")
            self._graphs += 1
        return self._graph

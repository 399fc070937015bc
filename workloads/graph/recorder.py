"""Recording kernels and collectives as PyTorch launches them: a host task, then the work on a stream.

A kernel waits for its launch and for the work before it on its stream. A collective that c10d launches waits, besides,
for everything launched so far on the stream that issues it (an event is recorded there), and a wait for a collective
holds the stream that waits, not the host (software facts: pytorch ProcessGroupNCCL.cpp). A CUDA graph has one launch
for all its kernels.

On CPUs there is nothing to launch on: kernels run on the host thread, which also does the waiting; collectives are left
to threads of the library (pytorch ProcessGroupGloo.cpp).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np

from simulator.operators import (
    Amount,
    Category,
    CollectiveCall,
    Copy,
    Delay,
    Elementwise,
    EmbeddingLookup,
    EmbeddingUpdate,
    HostWork,
    Nothing,
    Work,
    touched_bytes,
)
from simulator.program import IntArray, Stream
from workloads.graph.framework import CudaGraph, Framework
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
) -> tuple[Stream, ...]:
    """The streams that an iteration uses; those of process groups have as many workers as these have threads."""
    own = (*[INPUT_COMM] * own_input_group, *[SUM_COMM] * own_sum_group)
    nodes = (NODE_COMM, CROSS_NODE_COMM) if node_groups else ()
    readers = (READER, FRONTEND) if ingestion else ()
    if on_host:
        names = (HOST, COMM, *own, *nodes, *readers)
    else:
        dist = (DATA_DIST,) if schedule.own_input_stream else ()
        lookup = (LOOKUP,) if schedule.own_lookup_stream else ()
        fill = (PREFETCH,) if schedule.fill else ()
        names = (HOST, DEFAULT, *dist, MEMCPY, COMM, *own, *nodes, *lookup, *fill, *readers)
    return tuple(Stream(name, workers=collective_threads if name in COMM_STREAMS else 1) for name in names)


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
        name: str = "iteration",
    ) -> None:
        """Start an empty iteration of ``passes`` passes for ``ranks``; ``name`` is the program's."""
        super().__init__(ranks, streams, passes, name)
        self._operator_s = 0.0 if on_host else framework.operator_s.value
        self._on_host, self._alone = on_host, on_host and len(ranks) == 1
        self._copied = copied
        self._elementwise = 1.0 if on_host else framework.factor("elementwise_factor")
        self._embedding = 1.0 if on_host else framework.factor("embedding_factor")
        self._cuda_graph = "none" if on_host else cuda_graph
        self._graph: int | None = None
        self._graphs = 0
        self._last: dict[str, int] = {}
        self._before_bytes: Amount = 0.0

    def kernel(
        self,
        name: str,
        work: Work,
        *,
        section: str,
        stream: str = DEFAULT,
        after: Iterable[int] = (),
        launches: int = 1,
    ) -> int:
        """Launch ``work`` as ``launches`` kernels of one operator on ``stream``; returns the task's number."""
        launch = self._launch(name, launches, section, captured=section not in _OUTSIDE_NETWORK)
        stream = self._place(stream)
        task = self.task(name, stream, self._scaled(work), after=[launch, *after], section=section)
        self._last[stream] = task
        if self._on_host and np.any(touched := touched_bytes(work)):
            self._before_bytes = touched
        return task

    def wait_for_launches(self, name: str, seconds: Amount, *, section: str, stream: str = DEFAULT) -> None:
        """Leave a stream idle for the time in which it waits for the launches of many small kernels."""
        if np.any(np.asarray(seconds) > 0) and not self._on_host:
            self._last[stream] = self.task(name, stream, Delay(seconds, "launches"), section=section)

    def _scaled(self, work: Work) -> Work:
        """The work as the framework's kernels do it."""
        if isinstance(work, Elementwise) and self._elementwise != 1.0:
            factor = self._elementwise
            return replace(work, read_bytes=factor * work.read_bytes, write_bytes=factor * work.write_bytes)
        if isinstance(work, EmbeddingLookup | EmbeddingUpdate):
            return replace(work, factor=self._embedding)
        return work

    def collective(
        self, name: str, call: CollectiveCall, *, section: str, issued_from: str = DEFAULT, stream: str = COMM
    ) -> int:
        """Launch a collective on the stream of its process group; returns the task's number.

        A rank that is alone on its host copies instead of exchanging. Some operations are done on a copy of
        their input, which the call makes (``copied``).
        """
        if self._alone:
            work = Nothing(Category.COPY) if call.op == "all_reduce" else Copy(call.bytes, "d2d")
            return self.kernel(name, work, section=section, stream=issued_from)
        copied = call.bytes if call.op in self._copied else 0.0
        launch = self._launch(name, 1, section, captured=False, collectives=1, copied_bytes=copied)
        issued_from = self._place(issued_from)
        event = [self._last[issued_from]] if issued_from in self._last else []
        return self.task(name, stream, call, after=[launch, *event], section=section)

    def stream_wait(self, name: str, on: int | str, *, section: str, stream: str = DEFAULT, lag: int = 0) -> None:
        """Hold ``stream``, not the host, until a collective has ended (``Work.wait`` of c10d)."""
        stream = self._place(stream)
        task = self.task(name, stream, Nothing(Category.COMM), section=section)
        self.depend(task, on, lag=lag)
        self._last[stream] = task

    def host(self, name: str, work: Work, *, section: str) -> int:
        """Work of the host thread, which ends a CUDA graph; returns the task's number."""
        self._graph = None
        return self.task(name, HOST, work, section=section)

    def _place(self, stream: str) -> str:
        """The stream on which work for ``stream`` runs."""
        return HOST if self._on_host and stream not in COMM_STREAMS else stream

    def _launch(
        self,
        name: str,
        launches: int,
        section: str,
        *,
        captured: bool,
        collectives: int = 0,
        copied_bytes: Amount = 0.0,
    ) -> int:
        """The host task that starts a kernel or collective: its own, or that of the graph it is in."""
        if self._cuda_graph == "none" or (self._cuda_graph == "network" and not captured):
            work = HostWork(launches, self._operator_s, collectives, copied_bytes, self._before_bytes)
            return self.host(f"launch_{name}", work, section=section)
        if self._graph is None:
            work = HostWork(launches=1, seconds=self._operator_s)
            self._graph = self.task(f"launch_graph_{self._graphs}", HOST, work, section="graph")
            self._graphs += 1
        return self._graph

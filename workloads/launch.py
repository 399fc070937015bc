"""Recording kernels and collectives as PyTorch launches them: a host task, then the work on a stream.

A kernel waits for its launch and for what is before it on its stream. A collective that c10d launches waits, besides,
for everything launched so far on the stream that issues it (an event is recorded there), and a wait for a collective
holds the stream that waits, not the host (software facts: pytorch ProcessGroupNCCL.cpp).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from simulator.operators import (
    Category,
    CollectiveCall,
    Delay,
    Elementwise,
    EmbeddingLookup,
    EmbeddingUpdate,
    HostWork,
    Nothing,
    Work,
)
from simulator.program import Dependency, IntArray, Program, ProgramBuilder
from workloads.framework import Framework
from workloads.settings import Pipeline

HOST, DEFAULT, DATA_DIST, MEMCPY, COMM, INPUT_COMM = "host", "default", "data_dist", "memcpy", "comm", "input_comm"
NODE_COMM, CROSS_NODE_COMM = "node_comm", "cross_node_comm"
"""Streams of a rank: the host thread, the default stream, input_dist's, copies', and one per process group."""


def streams_of(pipeline: Pipeline, *, own_input_group: bool, node_groups: bool = False) -> tuple[str, ...]:
    """The streams that an iteration uses."""
    dist = () if pipeline == "none" else (DATA_DIST,)
    own = (INPUT_COMM,) if own_input_group else ()
    return (HOST, DEFAULT, *dist, MEMCPY, COMM, *own, *((NODE_COMM, CROSS_NODE_COMM) if node_groups else ()))


_LOOKUP_TRAFFIC = ("row_bytes", "output_bytes", "index_bytes")
_UPDATE_TRAFFIC = ("gradient_bytes", "repeated_gradient_bytes", "weight_bytes", "state_bytes", "sort_bytes")


class Recorder:
    """Collects the tasks of one iteration in the order in which the host launches them."""

    def __init__(self, ranks: IntArray, framework: Framework, streams: Sequence[str]) -> None:
        """Start an empty iteration for ``ranks`` with the given streams."""
        self._builder = ProgramBuilder("dlrm", ranks, streams)
        self._operator_s = framework.operator_s.value
        self._elementwise, self._embedding = framework.scales
        self._last: dict[str, int] = {}

    def kernel(
        self,
        name: str,
        work: Work,
        *,
        section: str,
        stream: str = DEFAULT,
        after: Iterable[Dependency] = (),
        launches: int = 1,
    ) -> int:
        """Launch ``work`` as ``launches`` kernels of one operator on ``stream``; returns the task's number."""
        launch = self.host(f"launch_{name}", HostWork(launches=launches, seconds=self._operator_s), section=section)
        task = self._builder.task(name, stream, self._scaled(work), after=[launch, *after], section=section)
        self._last[stream] = task
        return task

    def _scaled(self, work: Work) -> Work:
        """The work with the memory traffic that the framework's kernels have."""
        if isinstance(work, Elementwise):
            return replace(work, **{f: self._elementwise * getattr(work, f) for f in ("read_bytes", "write_bytes")})
        if isinstance(work, EmbeddingLookup):
            return replace(work, **{f: self._embedding * getattr(work, f) for f in _LOOKUP_TRAFFIC})
        if isinstance(work, EmbeddingUpdate):
            return replace(work, **{f: self._embedding * getattr(work, f) for f in _UPDATE_TRAFFIC})
        return work

    def collective(
        self, name: str, call: CollectiveCall, *, section: str, issued_from: str = DEFAULT, stream: str = COMM
    ) -> int:
        """Launch a collective on the stream of its process group; returns the task's number."""
        launch = self.host(f"launch_{name}", HostWork(launches=1, seconds=self._operator_s), section=section)
        event = [self._last[issued_from]] if issued_from in self._last else []
        return self._builder.task(name, stream, call, after=[launch, *event], section=section)

    def stream_wait(self, name: str, task: Dependency, *, section: str, stream: str = DEFAULT) -> None:
        """Hold ``stream``, not the host, until a collective has ended (``Work.wait`` of c10d)."""
        self._last[stream] = self._builder.task(name, stream, Nothing(Category.COMM), after=[task], section=section)

    def device_wait(self, name: str, seconds: float, *, section: str) -> int:
        """Leave the default stream idle for some time; returns the task's number."""
        return self._builder.task(name, DEFAULT, Delay(seconds, "host"), section=section)

    def host(self, name: str, work: Work, *, section: str, after: Iterable[Dependency] = ()) -> int:
        """Work of the host thread; returns the task's number."""
        return self._builder.task(name, HOST, work, after=after, section=section)

    def host_wait(self, name: str, task: Dependency, *, section: str) -> int:
        """Block the host until a task has ended."""
        return self.host(name, Nothing(), section=section, after=[task])

    def depend(self, task: int, on: int, *, lag: int = 0) -> None:
        """Let ``task`` wait for ``on``, of ``lag`` iterations before."""
        self._builder.depend(task, on, lag=lag)

    def build(self) -> Program:
        """The program of the iteration."""
        return self._builder.build()

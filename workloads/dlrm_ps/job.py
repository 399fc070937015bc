"""Parts that programs of trainers and of servers have in common: waves, amounts, messages, chains of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from simulator.collective_calls import CollectiveCall
from simulator.operators import Elementwise, FloatArray, HostWork
from simulator.program import Dependency, IntArray, ProgramBuilder
from simulator.work import Work
from workloads.dlrm_ps.requests import Requests
from workloads.dlrm_ps.settings import PsSettings
from workloads.dlrm_ps.thread_work import ThreadStep
from workloads.graph.buckets import GRADIENT_BYTES
from workloads.graph.parameter_servers import ACCUMULATED_TOUCHES, GRPC

Part: TypeAlias = Literal["first", "others"]
"""Threads of a group whose messages go together: one of them, which the group's tasks follow, and all others."""


@dataclass(frozen=True, slots=True)
class ThreadGroup:
    """A group of threads of each trainer of a wave.

    Attributes:
        number: number among all groups of all waves.
    """

    wave: int
    group: int
    number: int

    @property
    def name(self) -> str:
        """Part of names of tasks, streams and communicators."""
        return f"{self.wave}_{self.group}"

    @property
    def begins(self) -> bool:
        """Whether the group is at the beginning of a batch when the run begins; the others are within one."""
        return self.number == 0


@dataclass(frozen=True, slots=True, eq=False)
class ServersExchange:
    """Messages between trainers of a wave and all servers of a kind: one all_to_all, in which one side sends.

    Attributes:
        trainers: number of trainers.
        bytes: bytes between a trainer and each server ``[S]``.
    """

    communicator: str
    trainers: int
    bytes: FloatArray

    @property
    def trainer_bytes(self) -> float:
        """Bytes of one trainer."""
        return float(self.bytes.sum())

    def call_of_trainers(self, *, sends: bool) -> CollectiveCall:
        """The call of trainers."""
        everywhere = np.ones(self.trainers)
        sent = everywhere * self.trainer_bytes * sends
        return CollectiveCall("all_to_all", self.communicator, sent, receive_weights=everywhere * (not sends))

    def call_of_servers(self, servers: IntArray, *, trainers_send: bool) -> CollectiveCall:
        """The call of some of the servers."""
        own = self.bytes[servers]
        sent = self.trainers * own * (not trainers_send)
        return CollectiveCall("all_to_all", self.communicator, sent, receive_weights=own * trainers_send)


@dataclass(frozen=True, slots=True)
class ServersJob:
    """Amounts of all programs.

    Attributes:
        steps: steps of a batch on a trainer's thread.
        requests: kernels and messages of a thread's request.
        parameters: dense parameters.
        sample_bytes: size of a sample as a reader sends it.
    """

    settings: PsSettings
    steps: Sequence[ThreadStep]
    requests: Requests
    parameters: int
    sample_bytes: float

    @property
    def sources(self) -> list[ThreadGroup]:
        """Groups of threads of all waves; a group of a wave stands far from its next one."""
        settings = self.settings
        pairs = ((wave, group) for group in range(settings.groups) for wave in range(len(settings.waves)))
        return [ThreadGroup(wave, group, number) for number, (wave, group) in enumerate(pairs)]

    @property
    def parts(self) -> tuple[Part, ...]:
        """Parts of a group that exchange apart from each other."""
        return ("first", "others") if self.settings.group_threads > 1.0 else ("first",)

    def threads(self, part: Part) -> float:
        """Threads of a trainer's group in a part."""
        return 1.0 if part == "first" else self.settings.group_threads - 1.0

    def indices(self, source: ThreadGroup, part: Part) -> ServersExchange:
        """Indices of batches, to the servers of tables."""
        return self._of_tables(source, part, self.requests.index_bytes)

    def vectors(self, source: ThreadGroup, part: Part) -> ServersExchange:
        """Pooled vectors, back from them."""
        return self._of_tables(source, part, self.requests.vector_bytes)

    def gradients(self, source: ThreadGroup, part: Part) -> ServersExchange:
        """Gradients of pooled vectors, to them."""
        return self._of_tables(source, part, self.requests.gradient_bytes)

    def batches(self, source: ThreadGroup) -> ServersExchange:
        """Batches of a group, from the readers."""
        settings = self.settings
        size = settings.group_threads * settings.batch_per_thread * self.sample_bytes
        return ServersExchange(f"batches_{source.name}", self._trainers(source.wave), _evenly(size, settings.readers))

    def dense(self, wave: int) -> ServersExchange:
        """Dense parameters that a trainer exchanges in an iteration, each way."""
        settings = self.settings
        size = self.parameters * float(GRADIENT_BYTES) / settings.sync_every
        return ServersExchange(f"parameters_{wave}", self._trainers(wave), _evenly(size, settings.dense_servers))

    def _of_tables(self, source: ThreadGroup, part: Part, thread_bytes: FloatArray) -> ServersExchange:
        name = f"lookups_{source.name}" if part == "first" else f"lookups_{source.name}_others"
        return ServersExchange(name, self._trainers(source.wave), self.threads(part) * thread_bytes)

    def _trainers(self, wave: int) -> int:
        return len(self.settings.waves[wave])


def _evenly(size: float, servers: int) -> FloatArray:
    """Part of each server ``[S]``."""
    return np.full(servers, size / max(servers, 1))


@dataclass(frozen=True, slots=True)
class Chain:
    """Tasks that follow each other, whatever streams they are on."""

    builder: ProgramBuilder
    tasks: list[int] = field(default_factory=list)

    def add(self, name: str, stream: str, work: Work, section: str, after: Sequence[Dependency] = ()) -> int:
        """Append a task."""
        task = self.builder.task(name, stream, work, after=[*self.tasks[-1:], *after], section=section)
        self.tasks.append(task)
        return task

    def close(self) -> None:
        """Let the first task of an iteration follow the last one of the iteration before."""
        self.builder.depend(self.tasks[0], self.tasks[-1], lag=1)


def handling(calls: float, size: float, slower: float = 1.0) -> HostWork:
    """Work of a thread at its end of ``calls`` calls with ``size`` bytes together."""
    return HostWork(seconds=(calls * GRPC.call_s + size * GRPC.byte_s) * slower)


def moved(size: float) -> Elementwise:
    """Parameters of ``size`` bytes that move towards others: both read, one written."""
    return Elementwise((ACCUMULATED_TOUCHES - 1) * size, size)

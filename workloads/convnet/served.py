"""Programs of training with parameter servers: every rank is a worker, the first rank of some nodes a server as well.

An iteration: each server sends its variables to all workers, at once; a worker computes, and pushes each gradient to
its server as soon as it is known; a server adds up what comes, and updates a variable when all workers' gradients are
there. The next iteration begins when all variables are updated and all workers have ended (synchronous training).

Each pair of a worker and a server has a channel each way that carries one tensor after the other; channels meet on the
NICs, so that a server's NIC is shared by its workers, and on the threads of the server. A worker next to its server
passes tensors without a channel. Moving means and variances are not exchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.operators import CollectiveCall, Copy, HostWork
from simulator.program import IntArray, Program, Stream, TaskGraph
from workloads.convnet.layers import Network, Variable
from workloads.convnet.parameter_servers import ADDERS, CHANNELS, Channel, accumulate_s, placed, update_s
from workloads.convnet.settings import ConvnetSettings
from workloads.convnet.training_pass import Gradient, PassRecorder
from workloads.graph.buckets import GRADIENT_BYTES

TO_HOST, FROM_HOST, SENDER, RECEIVER, SERVER, ADDER, BARRIER = (
    "to_host", "from_host", "sender", "receiver", "server", "adder", "barrier"
)  # fmt: skip
"""Streams: copies of gradients and weights between GPU and host, a worker's threads that send and receive, a server's
threads for channels and for sums, and the end of the iteration."""

WORLD = "world"
PAIR = 2
"""Members of a channel; a rooted collective's buffer has a part for each."""


def served_graph(network: Network, settings: ConvnetSettings) -> TaskGraph:
    """The task graph of all ranks, each with a program of its own."""
    job = _Job(network, settings, placed(network.variables, settings.servers))
    programs = tuple(_program(job, rank) for rank in range(settings.world_size))
    return TaskGraph(programs, {WORLD: np.zeros(settings.world_size, dtype=np.int64), **job.channels()})


@dataclass(frozen=True, slots=True)
class _Job:
    """The network and its placement."""

    network: Network
    settings: ConvnetSettings
    server_of: dict[str, int]

    @property
    def channel(self) -> Channel:
        return CHANNELS[self.settings.strategy]

    def rank_of(self, server: int) -> int:
        """Rank beside which a server runs."""
        return server * self.settings.local_world_size

    def server_on(self, rank: int) -> int | None:
        """The server beside a rank."""
        server, local = divmod(rank, self.settings.local_world_size)
        return server if local == 0 and server < self.settings.servers else None

    def pairs(self) -> Iterable[tuple[int, int]]:
        """Server and worker of every channel."""
        for server in range(self.settings.servers):
            for worker in range(self.settings.world_size):
                if worker != self.rank_of(server):
                    yield server, worker

    def channels(self) -> dict[str, IntArray]:
        """Communicators of the channels, each way."""
        found = {}
        for server, worker in self.pairs():
            members = np.full(self.settings.world_size, -1, dtype=np.int64)
            members[[self.rank_of(server), worker]] = 0
            found[_push(server, worker)] = found[_pull(server, worker)] = members
        return found

    def message(self, communicator: str, sender: int, receiver: int, size: float) -> CollectiveCall:
        """A tensor from one rank to another: gathered by the lower one, or scattered by it."""
        return CollectiveCall("gather" if receiver < sender else "scatter", communicator, PAIR * size)


def _push(server: int, worker: int) -> str:
    return f"push_{worker}_to_{server}"


def _pull(server: int, worker: int) -> str:
    return f"pull_{worker}_from_{server}"


def _bytes(variable: Variable) -> float:
    return float(variable.elements * GRADIENT_BYTES)


def _streams(job: _Job, rank: int) -> list[Stream | str]:
    names: list[Stream | str] = [TO_HOST, FROM_HOST, SENDER, RECEIVER, BARRIER]
    own = job.server_on(rank)
    for server, worker in job.pairs():
        if worker == rank or server == own:
            names += [_push(server, worker), _pull(server, worker)]
    if own is None:
        return names
    return [*names, Stream(SERVER, workers=job.channel.server_threads), Stream(ADDER, workers=ADDERS)]


def _program(job: _Job, rank: int) -> Program:
    """Tasks of a rank as a worker, and of the server beside it."""
    recorder = PassRecorder(f"rank{rank}", np.array([rank]), job.network, job.settings, _streams(job, rank))
    server = job.server_on(rank)
    side = _Side(job, rank, recorder)
    sent = side.serve_variables(server) if server is not None else []
    recorder.forward({v.name: side.pulled(v) for v in job.network.variables})
    gradients = recorder.backward()
    pushed = {gradient.variable.name: side.pushed(gradient) for gradient in gradients}
    updated = side.serve_gradients(server, gradients, pushed) if server is not None else []
    last = recorder.kernels_end()
    call = CollectiveCall("barrier", WORLD, 0.0)
    barrier = recorder.builder.task("all_updated", BARRIER, call, after=[last, *updated], section="optimizer")
    for task in sent:
        recorder.builder.depend(task, barrier, lag=1)
    return recorder.end([barrier])


@dataclass(frozen=True, slots=True)
class _Side:
    """A rank's end of the channels."""

    job: _Job
    rank: int
    recorder: PassRecorder

    def pulled(self, variable: Variable) -> int:
        """Receive a variable; returns the task after which it is on the GPU."""
        server, size, name = self.job.server_of[variable.name], _bytes(variable), variable.name
        after: list[int] = []
        if self.job.rank_of(server) != self.rank:
            link = _pull(server, self.rank)
            call = self.job.message(link, self.job.rank_of(server), self.rank, size)
            arrived = self._task(f"pull_{name}", link, call, after)
            after = [self._task(f"receive_{name}", RECEIVER, self._handling(size), [arrived])]
        if self.job.channel.through_host:
            return self._task(f"from_host_{name}", FROM_HOST, Copy(size, "h2d"), after)
        return self._task(f"there_{name}", RECEIVER, HostWork(), after)

    def pushed(self, gradient: Gradient) -> int:
        """Send a gradient to its server; returns the last task on this rank."""
        server, size, name = self.job.server_of[gradient.variable.name], float(gradient.bytes), gradient.variable.name
        ready = gradient.task
        if self.job.channel.through_host:
            ready = self._task(f"to_host_{name}", TO_HOST, Copy(size, "d2h"), [ready])
        if self.job.rank_of(server) == self.rank:
            return ready
        link = _push(server, self.rank)
        handled = self._task(f"send_{name}", SENDER, self._handling(size), [ready])
        call = self.job.message(link, self.rank, self.job.rank_of(server), size)
        return self._task(f"push_{name}", link, call, [handled])

    def serve_variables(self, server: int) -> list[int]:
        """Send the server's variables to all workers; returns the first tasks, which wait for the updates before."""
        begun = []
        for variable in self.job.network.variables:
            if self.job.server_of[variable.name] != server:
                continue
            for worker in self._others():
                size, name, link = _bytes(variable), f"{variable.name}_to_{worker}", _pull(server, worker)
                handled = self._task(f"serve_{name}", SERVER, self._handling(size), [])
                call = self.job.message(link, self.rank, worker, size)
                self._task(f"send_{name}", link, call, [handled])
                begun.append(handled)
        return begun

    def serve_gradients(self, server: int, gradients: Sequence[Gradient], pushed: dict[str, int]) -> list[int]:
        """Add up the gradients of the server's variables and update these; returns the updates."""
        updates = []
        for gradient in gradients:
            name, size = gradient.variable.name, float(gradient.bytes)
            if self.job.server_of[name] != server:
                continue
            work = HostWork(seconds=accumulate_s(size))
            added = [self._task(f"add_{name}", ADDER, work, [pushed[name]])]
            for worker in self._others():
                link = _push(server, worker)
                call = self.job.message(link, worker, self.rank, size)
                arrived = self._task(f"collect_{name}_of_{worker}", link, call, [])
                handled = self._task(f"take_{name}_of_{worker}", SERVER, self._handling(size), [arrived])
                added.append(self._task(f"add_{name}_of_{worker}", ADDER, work, [handled]))
            updates.append(self._task(f"apply_{name}", ADDER, HostWork(seconds=update_s(size)), added))
        return updates

    def _others(self) -> list[int]:
        return [rank for rank in range(self.job.settings.world_size) if rank != self.rank]

    def _handling(self, size: float) -> HostWork:
        """Work of a thread at one end of a channel."""
        return HostWork(seconds=self.job.channel.seconds(size))

    def _task(self, name: str, stream: str, work: CollectiveCall | Copy | HostWork, after: Sequence[int]) -> int:
        return self.recorder.builder.task(name, stream, work, after=after, section="exchange")

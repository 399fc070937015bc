"""Programs of training with parameter servers: every rank is a worker, the first rank of some nodes a server as well.

An iteration: each server sends its variables to all workers, at once; a worker computes, and pushes each gradient to
its server as soon as it is known; a server adds up what comes, and updates a variable when all workers' gradients are
there. The next iteration begins when all variables are updated and all workers have ended (synchronous training).

Workers are served in waves of at most as many as a server has threads, or in `MOST_WAVES` larger ones. A wave has
a channel each way to each server, which carries one tensor after the other, for all its workers at once; channels meet
on the NICs, so that a server's NIC is shared by its workers. Equal workers reach a server at the same time, and what
they push shares its NIC evenly: a wave that is gathered takes as long as its messages do one by one. Where workers
differ (stragglers) a wave waits for its last one. Workers of a wave that are beside no server share one program.

A worker next to its server passes tensors without a channel. Moving means and variances are not exchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator.collective_calls import CollectiveCall
from simulator.operators import Copy, HostWork
from simulator.program import IntArray, Program, Stream, TaskGraph
from workloads.convnet.layers import Network, Variable
from workloads.convnet.parameter_servers import CHANNELS, Channel, accumulate_s, placed, update_s
from workloads.convnet.settings import ConvnetSettings
from workloads.convnet.training_pass import Gradient, PassRecorder
from workloads.graph.buckets import GRADIENT_BYTES

TO_HOST, FROM_HOST, SENDER, RECEIVER, SERVER, PASSED, ADDER, BARRIER = (
    "to_host", "from_host", "sender", "receiver", "server", "passed", "adder", "barrier"
)  # fmt: skip
"""Streams: copies of gradients and weights between GPU and host, a worker's threads that send and receive, a server's
threads for channels (`PASSED`: tensors of a wave that leaves threads idle, which work for the next one) and for sums,
and the end of the iteration."""

WORLD = "world"

MOST_WAVES = 4
"""Waves of a job with many workers: a server's threads work for one wave while its NIC carries the one before."""


def served_graph(network: Network, settings: ConvnetSettings) -> TaskGraph:
    """The task graph of all ranks: a program for each rank beside a server, one for the others of each wave."""
    job = _Job(network, settings, placed(network.variables, settings.servers))
    programs = tuple(_program(job, ranks) for ranks in job.groups())
    return TaskGraph(programs, {WORLD: np.zeros(settings.world_size, dtype=np.int64), **job.channels()})


@dataclass(frozen=True, slots=True)
class _Job:
    """The network and its placement."""

    network: Network
    settings: ConvnetSettings
    server_of: dict[str, int]

    @property
    def channel(self) -> Channel:
        channel, threads = CHANNELS[self.settings.strategy], self.settings.server_threads
        return channel if threads is None or not channel.call_s else replace(channel, server_threads=threads)

    @property
    def wave_size(self) -> int:
        """Workers of a wave, the last of which may have fewer."""
        ranks = self.settings.world_size
        return -(-ranks // min(MOST_WAVES, -(-ranks // self.channel.server_threads)))

    @property
    def waves(self) -> range:
        """Numbers of the waves."""
        return range(-(-self.settings.world_size // self.wave_size))

    def rank_of(self, server: int) -> int:
        """Rank beside which a server runs."""
        return server * self.settings.local_world_size

    def server_on(self, rank: int) -> int | None:
        """The server beside a rank."""
        server, local = divmod(rank, self.settings.local_world_size)
        return server if local == 0 and server < self.settings.servers else None

    def wave_of(self, rank: int) -> int:
        """Wave of a worker."""
        return rank // self.wave_size

    def workers(self, server: int, wave: int) -> list[int]:
        """Workers of a wave on other ranks than a server."""
        first = wave * self.wave_size
        ranks = range(first, min(first + self.wave_size, self.settings.world_size))
        return [rank for rank in ranks if rank != self.rank_of(server)]

    def groups(self) -> list[list[int]]:
        """Ranks of each program, by their first rank."""
        alone = [[rank] for rank in range(self.settings.world_size) if self.server_on(rank) is not None]
        equal: dict[int, list[int]] = {}
        for rank in range(self.settings.world_size):
            if self.server_on(rank) is None:
                equal.setdefault(self.wave_of(rank), []).append(rank)
        return sorted([*alone, *equal.values()])

    def channels(self) -> dict[str, IntArray]:
        """Communicators of the channels, each way."""
        found = {}
        for server in range(self.settings.servers):
            for wave in self.waves:
                workers = self.workers(server, wave)
                if workers:
                    members = np.full(self.settings.world_size, -1, dtype=np.int64)
                    members[[self.rank_of(server), *workers]] = 0
                    found[_push(server, wave)] = found[_pull(server, wave)] = members
        return found

    def messages(self, op: str, server: int, wave: int, size: float) -> CollectiveCall:
        """A tensor between a server and each worker of a wave."""
        workers, root = self.workers(server, wave), self.rank_of(server)
        number, parts = sum(rank < root for rank in workers), len(workers) + 1
        on_host = self.channel.through_host
        if op == "gather":
            return CollectiveCall("gather", _push(server, wave), parts * size, root=number, on_host=on_host)
        return CollectiveCall("scatter", _pull(server, wave), parts * size, root=number, on_host=on_host)


def _push(server: int, wave: int) -> str:
    return f"push_{wave}_to_{server}"


def _pull(server: int, wave: int) -> str:
    return f"pull_{wave}_from_{server}"


def _bytes(variable: Variable) -> float:
    return float(variable.elements * GRADIENT_BYTES)


def _streams(job: _Job, rank: int) -> list[Stream | str]:
    names: list[Stream | str] = [TO_HOST, FROM_HOST, SENDER, RECEIVER, BARRIER]
    own = job.server_on(rank)
    for server in range(job.settings.servers):
        for wave in job.waves if server == own else (job.wave_of(rank),):
            names += [_push(server, wave), _pull(server, wave)] if job.workers(server, wave) else []
    if own is None:
        return names
    threads = job.channel.server_threads
    return [*names, SERVER, Stream(PASSED, workers=threads), ADDER]


def _program(job: _Job, ranks: Sequence[int]) -> Program:
    """Tasks of ranks as workers, and of the server beside them."""
    name = f"rank{ranks[0]}" if len(ranks) == 1 else f"ranks{ranks[0]}to{ranks[-1]}"
    recorder = PassRecorder(name, np.array(ranks), job.network, job.settings, _streams(job, ranks[0]))
    server = job.server_on(ranks[0])
    side = _Side(job, ranks[0], recorder)
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
    """The end of the channels at a rank, and at the equal ones of its wave."""

    job: _Job
    rank: int
    recorder: PassRecorder

    def pulled(self, variable: Variable) -> int:
        """Receive a variable; returns the task after which it is on the GPU."""
        server, size, name = self.job.server_of[variable.name], _bytes(variable), variable.name
        after: list[int] = []
        if self.job.rank_of(server) != self.rank:
            wave = self.job.wave_of(self.rank)
            call = self.job.messages("scatter", server, wave, size)
            arrived = self._task(f"pull_{name}", _pull(server, wave), call, after)
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
        wave = self.job.wave_of(self.rank)
        handled = self._task(f"send_{name}", SENDER, self._handling(size), [ready])
        call = self.job.messages("gather", server, wave, size)
        return self._task(f"push_{name}", _push(server, wave), call, [handled])

    def serve_variables(self, server: int) -> list[int]:
        """Send the server's variables to all workers; returns the first tasks, which wait for the updates before."""
        begun = []
        for variable in self.job.network.variables:
            if self.job.server_of[variable.name] != server:
                continue
            for wave, workers in self._waves(server):
                size, name = _bytes(variable), f"{variable.name}_to_{wave}"
                first, handled = self._served(f"serve_{name}", len(workers), size, [])
                call = self.job.messages("scatter", server, wave, size)
                self._task(f"send_{name}", _pull(server, wave), call, [handled])
                begun.append(first)
        return begun

    def serve_gradients(self, server: int, gradients: Sequence[Gradient], pushed: dict[str, int]) -> list[int]:
        """Add up the gradients of the server's variables and update these; returns the updates."""
        updates = []
        for gradient in gradients:
            name, size = gradient.variable.name, float(gradient.bytes)
            if self.job.server_of[name] != server:
                continue
            added = [self._task(f"add_{name}", ADDER, HostWork(seconds=accumulate_s(size)), [pushed[name]])]
            for wave, workers in self._waves(server):
                call = self.job.messages("gather", server, wave, size)
                arrived = self._task(f"collect_{name}_of_{wave}", _push(server, wave), call, [])
                _, handled = self._served(f"take_{name}_of_{wave}", len(workers), size, [arrived])
                sums = HostWork(seconds=len(workers) * accumulate_s(size))
                added.append(self._task(f"add_{name}_of_{wave}", ADDER, sums, [handled]))
            updates.append(self._task(f"apply_{name}", ADDER, HostWork(seconds=update_s(size)), added))
        return updates

    def _waves(self, server: int) -> list[tuple[int, list[int]]]:
        """Waves with workers on other ranks than the server."""
        found = [(wave, self.job.workers(server, wave)) for wave in self.job.waves]
        return [(wave, workers) for wave, workers in found if workers]

    def _served(self, name: str, workers: int, size: float, after: Sequence[int]) -> tuple[int, int]:
        """Work of a server's threads for a tensor of each worker of a wave; returns its first and last task."""
        rounds, each_s = workers / self.job.channel.server_threads, self.job.channel.seconds(size)
        first = self._task(name, SERVER, HostWork(seconds=rounds * each_s), after)
        if rounds >= 1.0:
            return first, first
        rest = HostWork(seconds=(1.0 - rounds) * each_s)
        return first, self._task(f"{name}_passed", PASSED, rest, [first])

    def _handling(self, size: float) -> HostWork:
        """Work of a worker's thread at its end of a channel."""
        return HostWork(seconds=self.job.channel.seconds(size))

    def _task(self, name: str, stream: str, work: CollectiveCall | Copy | HostWork, after: Sequence[int]) -> int:
        return self.recorder.builder.task(name, stream, work, after=after, section="exchange")

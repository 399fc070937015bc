"""The collective model: chooses algorithm and protocol of a call and turns it into phases on resources."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hardware_specs.types import Cluster
from simulator.lowered import Phase, picoseconds_of
from simulator.network.blocks import Block
from simulator.network.calibration import Calibration, calibrate, possible
from simulator.network.collectives import Call, CollectiveAlgorithm
from simulator.network.collectives.algorithm import Stage, check_algorithm
from simulator.network.levels import Port, ResourceClass
from simulator.network.library import transport_of
from simulator.network.load import (
    LinkFractions,
    LinkWork,
    PortBytes,
    busiest,
    delay_s,
    host_port_bytes,
    link_seconds,
    links_per_hop,
    links_used,
    mesh_share,
    near_bytes,
    port_bytes,
    work_of,
)
from simulator.network.membership import blocks_of
from simulator.network.peers import peer_shares
from simulator.network.topology import Topology
from simulator.network.transport import Transport, Way
from simulator.operators import FloatArray
from simulator.program import IntArray

POSTS_SHARE = 0.2
"""Share of an all_to_all above which the cost of its messages, the library's own constant, deserves a warning."""

FULL = LinkFractions(1.0, 1.0)
"""PCIe between NVLink and NICs, host memory: their rates are the reached ones."""

NETWORK: tuple[ResourceClass, ...] = ("nic", "spine", "torus")
"""Links between nodes: the fraction of the NIC was seen on all of them together."""

STRAIGHT = "sends"
"""Algorithm of calls with a root of their own: messages that a program describes, not a library's collective."""

ALONE = CollectiveAlgorithm("none", (), "a communicator of one member: nothing to do", stages=lambda _: ())


@dataclass(frozen=True, slots=True, eq=False)
class StageAmounts:
    """Traffic of a stage.

    Attributes:
        stage: its latency and pattern.
        loads: bytes per link.
        mesh_share: part of the NVLink ports that it can use.
        links: links between switches that its longest message takes.
        passed_bytes: most bytes that a member takes over in host memory from others of its node.
        delay_s: latency of the links between sites, seconds ``[a, 1]`` or a number.
    """

    stage: Stage
    loads: PortBytes
    mesh_share: float
    links: int
    passed_bytes: float = 0.0
    delay_s: FloatArray | float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class TimedStage:
    """A stage with its times.

    Attributes:
        latency_s: starts, and hops that no transfer hides ``[a, 1]``.
        work: seconds of its transfers, and usage of ports.
        posts_s: seconds that posting takes of the work.
        links_s: seconds of each class's busiest link at the rate that the stage reaches ``[a, 1]``.
    """

    latency_s: FloatArray
    work: LinkWork
    posts_s: float
    links_s: Mapping[ResourceClass, FloatArray]

    @property
    def seconds(self) -> FloatArray:
        """Latency and work ``[a, 1]``, seconds."""
        return self.latency_s + self.work.seconds


@dataclass(frozen=True, slots=True, eq=False)
class Timed:
    """A call with algorithm and protocol chosen."""

    algorithm: CollectiveAlgorithm
    protocol: str
    stages: tuple[TimedStage, ...]

    @property
    def seconds(self) -> FloatArray:
        """Duration on an idle machine ``[a, 1]``, seconds."""
        total = np.zeros((1, 1))
        for stage in self.stages:
            total = total + stage.seconds
        return total


MOST_REMEMBERED = 64
"""Number of calls whose times are remembered: those of an iteration, which runs with improved classes repeat."""


@dataclass(frozen=True, slots=True, eq=False)
class _Remembered:
    """Results for a call: traffic by algorithm, and its times by the improvements of the model."""

    amounts: dict[str, tuple[StageAmounts, ...]] = field(default_factory=dict)
    timed: dict[Hashable, Timed] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CollectiveModel:
    """Times of collectives on one placed cluster.

    Attributes:
        calibration: achievable link fractions.
        transport: the collectives library.
        algorithms: operations whose algorithm the scenario forces; the others take the fastest.
        rates: capacity of one port of each class, B/s.
    """

    cluster: Cluster
    topology: Topology
    calibration: Calibration
    transport: Transport
    algorithms: Mapping[str, str]
    rates: Mapping[ResourceClass, float]
    _blocks: dict[bytes, list[Block]] = field(default_factory=dict)
    _resources: dict[tuple[Block, tuple[Port, ...]], IntArray] = field(default_factory=dict)
    _calls: dict[Hashable, _Remembered] = field(default_factory=dict, init=False)
    _improvements: tuple[Hashable, ...] = field(default=(), init=False)

    @staticmethod
    def of(
        cluster: Cluster,
        topology: Topology,
        algorithms: Mapping[str, str] | None = None,
    ) -> CollectiveModel:
        """The model of a placed cluster.

        Args:
            algorithms: algorithms to force, by operation.

        Raises:
            InputError: an algorithm, forced or of the library, or its operation is unknown, or a calibration point
                cannot be reached.
        """
        forced = dict(algorithms or {})
        for op, name in forced.items():
            check_algorithm(op, name, f"network.algorithms.{op}")
        return CollectiveModel(cluster, topology, calibrate(cluster), transport_of(cluster), forced, topology.rates)

    def improved(self, speed: Mapping[ResourceClass, float], message_speed: float = 1.0) -> CollectiveModel:
        """The same machine with the bandwidth of some link classes, and the cost of messages, faster.

        Blocks of ranks found so far, and traffic of calls, are shared with the new model.
        """
        speed = {name: factor for name, factor in speed.items() if name in self.rates}
        rates = {name: rate * speed.get(name, 1.0) for name, rate in self.rates.items()}
        better = replace(self, rates=rates, transport=self.transport.with_faster_messages(message_speed))
        faster = (tuple(sorted(speed.items())), message_speed)
        return self._shared(better, () if faster == ((), 1.0) else (faster,))

    def _shared(self, other: CollectiveModel, improvements: tuple[Hashable, ...]) -> CollectiveModel:
        """The model with the memory of calls of this one, which it differs from by these improvements."""
        object.__setattr__(other, "_calls", self._calls)
        object.__setattr__(other, "_improvements", (*self._improvements, *improvements))
        return other

    def blocks(self, instance: IntArray) -> list[Block]:
        """The blocks of a communicator (see `blocks_of`), remembered."""
        key = instance.tobytes()
        if key not in self._blocks:
            self._blocks[key] = blocks_of(instance, self.topology)
        return self._blocks[key]

    def time(self, call: Call) -> Timed:
        """Choose algorithm and protocol: the forced one where it applies, else the fastest on an idle machine."""
        if call.block.size == 1:
            return Timed(ALONE, "simple", ())
        known = self._remembered(call).timed
        if self._improvements not in known:
            known[self._improvements] = min(self.options(call), key=lambda option: float(option.seconds.max()))
        return known[self._improvements]

    def options(self, call: Call) -> list[Timed]:
        """Every algorithm and protocol that `time` chooses from."""
        return [option for algorithm in self.candidates(call) for option in self._options(call, algorithm)]

    def amounts(self, call: Call, algorithm: CollectiveAlgorithm) -> tuple[StageAmounts, ...]:
        """Traffic of each stage of the call under ``algorithm``; no fit changes it."""
        known = self._remembered(call).amounts
        if algorithm.name not in known:
            known[algorithm.name] = self._amounts(call, algorithm)
        return known[algorithm.name]

    def _amounts(self, call: Call, algorithm: CollectiveAlgorithm) -> tuple[StageAmounts, ...]:
        block, topology = call.block, self.topology
        return tuple(
            StageAmounts(
                stage,
                host_port_bytes(stage, block, topology) if call.on_host else port_bytes(stage, block, topology),
                mesh_share(stage.pattern, block, topology) * stage.near_efficiency,
                links_per_hop(stage.pattern, block, topology),
                near_bytes(stage, block, topology) if call.on_host else 0.0,
                delay_s(stage, block, topology),
            )
            for stage in algorithm.stages(call)
        )

    def _remembered(self, call: Call) -> _Remembered:
        """Results for an equal call; calls in which every pair has a size of its own are too large to keep."""
        if call.peer_shares is not None:
            return _Remembered()
        sizes = (call.bytes, call.send_bytes, call.receive_weights)
        key = (
            call.op,
            call.root,
            call.on_host,
            call.block,
            *(None if size is None else size.tobytes() for size in sizes),
        )
        if key not in self._calls:
            if len(self._calls) >= MOST_REMEMBERED:
                self._calls.clear()
            self._calls[key] = _Remembered()
        return self._calls[key]

    def phases(self, call: Call, timed: Timed) -> list[tuple[Phase, ...]]:
        """Phases of each instance ``[I]``; times are rounded to picoseconds here, half up."""
        if not timed.stages:
            return [()] * call.block.instance_count
        per_stage = [self._phases_of_stage(call.block, stage) for stage in timed.stages]
        return list(zip(*per_stage, strict=True))

    def candidates(self, call: Call) -> list[CollectiveAlgorithm]:
        """The algorithms that `time` chooses from."""
        known = self._known(call)
        forced = [a for a in known if a.name == self.algorithms.get(call.op)]
        return forced or self.transport.chosen_from(call, known) or [a for a in known if self.transport.times(a)]

    def _known(self, call: Call) -> list[CollectiveAlgorithm]:
        """The algorithms that can run on the machine and on the call's ranks."""
        known = [a for a in possible(self.cluster, call.op) if a.runs_over(call.block)]
        return known if call.root is None else [a for a in known if a.name == STRAIGHT]

    def _options(self, call: Call, algorithm: CollectiveAlgorithm) -> list[Timed]:
        """The call with this algorithm and each of its protocols."""
        amounts = self.amounts(call, algorithm)
        fractions = self.link_fractions(call, algorithm)
        stages = [part.stage for part in amounts]
        return [
            Timed(
                algorithm,
                protocol,
                tuple(self._timed(part, way, fractions) for way, part in zip(ways, amounts, strict=True)),
            )
            for protocol, ways in self.transport.ways(algorithm, call, stages).items()
        ]

    def _timed(self, part: StageAmounts, way: Way, fractions: Mapping[ResourceClass, LinkFractions]) -> TimedStage:
        """A stage carried out in a way."""
        latency, protocol, pipeline = part.stage.latency, way.protocol, way.pipeline
        posts_s = self.transport.posting_seconds(latency, protocol)
        waits_s = pipeline.waits * self.transport.wait_seconds(latency, protocol, part.links)
        beside_s = self.transport.copy_seconds(way.touched_bytes) + way.kernels_s
        reached = on_mesh(fractions, part.mesh_share)
        if protocol == "ll":
            reached = {**reached, **{name: self._of_ll(reached[name]) for name in NETWORK if name in reached}}
        seconds = link_seconds(part.loads, self.rates, reached, way.efficiency)
        passed_s = float(self.transport.copy_seconds(part.passed_bytes))
        pace_s = max(posts_s, way.least_s, waits_s, passed_s)
        work = work_of(part.loads, self.rates, fractions, seconds, beside_s, pace_s)
        hops_s = self.transport.hop_seconds(latency, protocol, part.links, pipeline.piece_bytes)
        own_s = self.transport.own_seconds(latency, protocol)
        latency_s = pipeline.latency_s(hops_s, own_s, self._near_and_far(seconds), work.seconds - beside_s)
        start_s = self.transport.start_seconds(latency, protocol)
        return TimedStage(start_s + latency_s + part.delay_s, work, posts_s, seconds)

    def _of_ll(self, fractions: LinkFractions) -> LinkFractions:
        """Fractions that LL reaches between nodes."""
        return LinkFractions(fractions.reached * self.calibration.ll, fractions.usable)

    def _near_and_far(self, seconds: Mapping[ResourceClass, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Seconds ``[a, 1]`` of the busiest link inside a node, and of that between nodes."""
        near = (value for name, value in seconds.items() if name in self.topology.near_classes)
        return busiest(near), busiest(value for name, value in seconds.items() if name in (*NETWORK, "site"))

    def link_fractions(self, call: Call, algorithm: CollectiveAlgorithm) -> dict[ResourceClass, LinkFractions]:
        """Fraction of each link class that the call reaches; the NIC fraction covers spine and torus too."""
        nodes, local = call.block.node_count, call.block.local_size
        near = self.calibration.link_fractions(call.op, algorithm.shares, "near", nodes, local)
        nic = self.calibration.link_fractions(call.op, algorithm.shares, "nic", nodes, local)
        fractions = dict.fromkeys(self.topology.rates, FULL)
        peers = peer_shares(self.cluster.node, algorithm.shares, local, nodes)
        for name in self.topology.near_classes:
            fractions[name] = LinkFractions(near.reached * peers.get(name, 1.0), near.usable)
        fractions.update(dict.fromkeys(NETWORK, nic))
        return fractions

    def outside_range(self, call: Call, timed: Timed) -> list[str]:
        """Ways in which the call, timed as ``timed``, is outside the measured range."""
        nodes, local = call.block.node_count, call.block.local_size
        if call.block.size == 1:
            return []
        notes = self.calibration.outside_range(call.op, timed.algorithm.shares, nodes, local)
        limit = self.cluster.max_nodes.value
        if self.topology.nodes > limit and nodes > 1:
            notes.append(f"{self.topology.nodes} nodes, {self.cluster.name} has at most {limit}")
        if call.op not in (*self.algorithms, "send") and not self.transport.chosen_from(call, self._known(call)):
            library = self.cluster.collectives.name
            notes.append(f"{call.op}: {library} has no algorithm for it here, the fastest one known is taken")
        if nodes > 1 and self._rests_on_posts(call, timed):
            notes.append(f"{call.op} between nodes: mostly the cost of messages, which nobody measured on this fabric")
        return notes

    def _rests_on_posts(self, call: Call, timed: Timed) -> bool:
        """Whether the cost of messages, measured nowhere on this fabric, is a large part of an all_to_all."""
        small = any(point.op == call.op and point.nodes > 1 for point in self.cluster.latency_points)
        measured = small or self.cluster.node.nics.nic.post_s is not None
        if call.op != "all_to_all" or measured:
            return False
        free = self._shared(replace(self, transport=self.transport.without_posts()), ("without posts",))
        return float(free.time(call).seconds.max()) < (1 - POSTS_SHARE) * float(timed.seconds.max())

    def _phases_of_stage(self, block: Block, stage: TimedStage) -> list[Phase]:
        count = block.instance_count
        latencies_ps = np.broadcast_to(picoseconds_of(stage.latency_s)[:, 0], count)
        work_ps = np.broadcast_to(picoseconds_of(stage.work.seconds)[:, 0], count)
        resources = self._resources_of(block, tuple(stage.work.usage))
        usage = _usage_rows(stage.work.usage)
        used = (usage > 0.0).any(axis=0)
        if not used.all():
            resources, usage = resources[:, used], usage[:, used]
        if usage.shape[0] == 1:
            return [
                Phase(int(latencies_ps[i]), int(work_ps[i]), resources[i], usage[0])
                if work_ps[i]
                else _idle(int(latencies_ps[i]))
                for i in range(count)
            ]
        return [_phase(int(latencies_ps[i]), int(work_ps[i]), resources[i], usage[i]) for i in range(count)]

    def _resources_of(self, block: Block, ports: tuple[Port, ...]) -> IntArray:
        """Resource numbers of an instance's links, kind after kind ``[I, U]``, remembered."""
        key = (block, ports)
        if key not in self._resources:
            columns = [links_used(p, block, self.topology) + self.topology.first(p) for p in ports]
            empty = np.zeros((block.instance_count, 0), dtype=np.int64)
            self._resources[key] = np.hstack([empty, *columns])
        return self._resources[key]


def on_mesh(fractions: Mapping[ResourceClass, LinkFractions], share: float) -> Mapping[ResourceClass, LinkFractions]:
    """The fractions where only a share of each port (NVLink, sockets) can be used: a cap on this activity."""
    if share == 1.0:
        return fractions
    name: ResourceClass = "nvlink" if "nvlink" in fractions else "socket"
    ports = fractions[name]
    return {**fractions, name: LinkFractions(ports.reached * share, ports.usable)}


def _usage_rows(usage: PortBytes) -> FloatArray:
    """Usage in the order of `CollectiveModel._resources_of` ``[I, U]``."""
    rows = max((value.shape[0] for value in usage.values()), default=1)
    return np.hstack([np.zeros((rows, 0)), *usage.values()])


def _phase(latency_ps: int, work_ps: int, resources: IntArray, usage: FloatArray) -> Phase:
    """A phase on the ports that carry something."""
    if work_ps == 0:
        return _idle(latency_ps)
    used = usage > 0.0
    return Phase(latency_ps, work_ps, resources[used], usage[used])


def _idle(latency_ps: int) -> Phase:
    return Phase(latency_ps, 0, np.zeros(0, dtype=np.int64), np.zeros(0))

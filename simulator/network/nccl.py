"""NCCL: the counts of a stage times the constants of a protocol; it takes the fastest, or the choice of its tuner."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hardware_specs.fabric import NcclProtocol
from hardware_specs.library import WITH_LATENCIES, AlgorithmLatency, NcclConstants, SendChannels
from hardware_specs.types import Cluster, Node
from inputs.sourced import Sourced
from simulator.network.blocks import Block
from simulator.network.collectives.algorithm import (
    ALL_PROTOCOLS,
    Call,
    CollectiveAlgorithm,
    Latency,
    Protocol,
    Stage,
)
from simulator.network.collectives.nvls import EFFICIENCY as NVLS_EFFICIENCY
from simulator.network.nccl_channels import collective_channels
from simulator.network.nccl_chunks import pipelined
from simulator.network.nccl_tuner import NcclTuner, nvls_efficiency
from simulator.network.pipeline import WHOLE, Pipelined
from simulator.network.transport import Factors, Way
from simulator.operators import FloatArray

STORES = "stores"
"""Kernels of a framework that store at their peers: a hop is one of LL's, which are stores of data and flags, too."""


@dataclass(frozen=True, slots=True)
class NcclTransport:
    """NCCL's constants on one cluster, in seconds.

    Attributes:
        algorithms: names of those it chooses from, by operation.
        protocols: protocols of the release.
        network_protocols: protocols that run between nodes.
        ring_protocols: the same of rings.
        constants: the library, with the latencies of its algorithms.
        payload: share of the bandwidth that each protocol's payload gets.
        post_s: cost of posting one network message, LL and LL128.
        send_s: cost of sending one message to a peer; None: that of a post, Simple protocol.
        simple_factor: times `post_s` for the Simple protocol.
        wire_s: one way through NICs and switches; no network hop is shorter.
        link_s: latency that each further link of a torus adds to a hop, seconds.
        channels: channels of a message on its own.
        nvlink: whether GPUs of a node reach each other by NVLink; else by PCIe.
        copy_s_per_byte: time per byte of the member's own part, which the kernel copies; 0 where nothing was fitted.
        factors: fitted factors of the latencies.
        tuner: NCCL's own choice; None: the fastest.
        node: the node, whose links decide how many channels there are.
        eager_bytes: larger messages between nodes of the Simple protocol are announced first.
        rendezvous_s: time that this adds to a hop.
        message_speed: divides starts, hops and posts (1; 1.1 for 10 % better).
    """

    algorithms: Mapping[str, tuple[str, ...]]
    protocols: tuple[Protocol, ...]
    network_protocols: tuple[Protocol, ...]
    ring_protocols: tuple[Protocol, ...]
    constants: NcclConstants
    payload: Mapping[Protocol, float]
    post_s: float
    send_s: float | None
    simple_factor: float
    wire_s: float
    link_s: float
    channels: SendChannels
    nvlink: bool
    copy_s_per_byte: float
    factors: Factors
    tuner: NcclTuner | None
    node: Node
    eager_bytes: float
    rendezvous_s: float
    message_speed: float = 1.0

    @staticmethod
    def of(cluster: Cluster, constants: NcclConstants) -> NcclTransport:
        """The constants of ``cluster``'s library, CPUs, NICs and switches."""
        node, fit = cluster.node, cluster.fitted
        fractions, between = constants.bandwidth_fraction, cluster.fabric.protocols
        own_post = node.nics.nic.post_s
        return NcclTransport(
            algorithms={str(op): names for op, names in constants.algorithms.items()},
            protocols=constants.protocols,
            network_protocols=_allowed(constants.protocols, between),
            ring_protocols=_allowed(constants.protocols, cluster.fabric.ring_protocols or between),
            constants=constants,
            payload={protocol: float(getattr(fractions, protocol).value) for protocol in ALL_PROTOCOLS},
            post_s=constants.network_post.seconds(node.cpu),
            send_s=None if own_post is None else own_post.value,
            simple_factor=constants.network_post.simple_factor.value,
            wire_s=node.nics.nic.latency_s.value + cluster.fabric.hop_latency_s.value,
            link_s=cluster.fabric.hop_latency_s.value,
            channels=constants.send_channels,
            nvlink=node.scale_up is not None,
            copy_s_per_byte=0.0 if fit is None else 1.0 / fit.copy_bytes_per_s.value,
            factors=Factors.of(cluster),
            tuner=NcclTuner.of(cluster, constants) if constants.chooser == "nccl_tuner" else None,
            node=node,
            eager_bytes=math.inf if node.nics.nic.rendezvous is None else node.nics.nic.rendezvous.above.value,
            rendezvous_s=0.0 if node.nics.nic.rendezvous is None else node.nics.nic.rendezvous.hop_s.value,
        )

    def collective_channels(self, nodes: int, local_size: int) -> int:
        """Channels of collectives over so many nodes with so many members on each."""
        return collective_channels(self.node, nodes, local_size)

    def chosen_from(self, call: Call, known: Sequence[CollectiveAlgorithm]) -> list[CollectiveAlgorithm]:
        """Algorithms that NCCL has, without those that another one replaces."""
        own = [algorithm for algorithm in known if algorithm.name in self.algorithms.get(call.op, ())]
        replaced = {algorithm.instead_of for algorithm in own}
        left = [algorithm for algorithm in own if algorithm.name not in replaced]
        return left if self.tuner is None else self.tuner.algorithm(call, left)

    def times(self, algorithm: CollectiveAlgorithm) -> bool:
        """Whether the library has the latencies of an algorithm; algorithms without a table take the ring's."""
        return algorithm.name not in WITH_LATENCIES or getattr(self.constants, algorithm.name) is not None

    def ways(self, algorithm: CollectiveAlgorithm, call: Call, stages: Sequence[Stage]) -> dict[str, tuple[Way, ...]]:
        """One of each protocol the algorithm has on these instances, or of the one that NCCL's tuner takes."""
        protocols: Sequence[Protocol] = self.protocols_of(algorithm, call.block)
        if self.tuner is not None:
            protocols = self.tuner.protocols(call, algorithm)
        return {protocol: tuple(self._way(call, stage, protocol) for stage in stages) for protocol in protocols}

    def protocols_of(self, algorithm: CollectiveAlgorithm, block: Block) -> tuple[Protocol, ...]:
        """Protocols of an algorithm that the release has."""
        known = self.protocols
        if block.node_count > 1:
            known = self.ring_protocols if algorithm.shares == "ring" else self.network_protocols
        return tuple(protocol for protocol in algorithm.protocols(block) if protocol in known)

    def with_faster_messages(self, speed: float) -> NcclTransport:
        """Starts of kernels, hops, and posts by the library's own thread."""
        return replace(self, message_speed=speed)

    def without_posts(self) -> NcclTransport:
        """The library's own thread posts them."""
        return replace(self, post_s=0.0, send_s=0.0)

    def _way(self, call: Call, stage: Stage, protocol: Protocol) -> Way:
        efficiency = self.payload[protocol] * stage.efficiency
        if stage.latency.table == "nvls":
            efficiency *= nvls_efficiency(self.node) / NVLS_EFFICIENCY
        least_s, pipeline = self._least_seconds(call, stage), self._pipeline(call, stage, protocol)
        return Way(protocol, efficiency, stage.own_bytes, least_s, pipeline)

    def _pipeline(self, call: Call, stage: Stage, protocol: Protocol) -> Pipelined:
        """The pieces of a stage on the channels of its members."""
        if stage.chunks is None:
            return WHOLE
        nodes, local = call.block.node_count, call.block.local_size
        return pipelined(stage.chunks, protocol, call.block.size, nodes, self.collective_channels(nodes, local))

    def _least_seconds(self, call: Call, stage: Stage) -> float:
        """Time that the channels of a message on its own take inside a node, seconds."""
        if not stage.one_message or call.block.node_count > 1:
            return 0.0
        return stage.message_bytes / self.channels.rate_bytes_per_s(call.block.size, stage.message_bytes)

    def post_seconds(self, protocol: str) -> float:
        """Cost of posting one network message."""
        return self.factors.post * self.post_s * (self.simple_factor if protocol == "simple" else 1.0)

    def posting_seconds(self, latency: Latency, protocol: str) -> float:
        """One after the other, by the proxy."""
        return latency.messages * self.send_seconds(_of_stores(latency, protocol)) / self.message_speed

    def send_seconds(self, protocol: str) -> float:
        """Time between two messages to different peers."""
        return self.post_seconds(protocol) if self.send_s is None else self.factors.post * self.send_s

    def copy_seconds(self, touched_bytes: FloatArray | float) -> FloatArray | float:
        """Seconds to copy the bytes at the rate of the kernel."""
        return touched_bytes * self.copy_s_per_byte

    def start_seconds(self, latency: Latency, protocol: str) -> float:
        """``starts x base``, in seconds."""
        base = float(getattr(self._table(latency).base_s, _of_stores(latency, protocol)).value)
        return latency.starts * base * self.factors.base / self.message_speed

    def own_seconds(self, latency: Latency, protocol: str) -> float:
        """Seconds of as many hops inside a node."""
        hops = latency.near_hops + latency.paced_hops + latency.network_hops
        return hops * self._near_hop_s(latency, protocol) / self.message_speed

    def _near_hop_s(self, latency: Latency, protocol: str) -> float:
        table = self._table(latency)
        hop = table.nvlink_hop_s if self.nvlink else table.pci_hop_s
        return float(getattr(hop, _of_stores(latency, protocol)).value) * self.factors.near_hop

    def _table(self, latency: Latency) -> AlgorithmLatency:
        """Constants of a stage.

        Raises:
            InputError: the library has no such algorithm.
        """
        return self.constants.latencies_of("ring" if latency.table == STORES else latency.table)

    def wait_seconds(self, latency: Latency, protocol: str, links: int = 1) -> float:
        """One hop over the network."""
        return self._network_hop_s(latency, protocol, links, 0.0) / self.message_speed

    def _network_hop_s(self, latency: Latency, protocol: str, links: int, piece_bytes: float) -> float:
        """Time from node to node, no shorter than the wires; messages that are announced first take longer."""
        hop_s = self._table(latency).network_hop_s
        hop = float(getattr(hop_s, _of_stores(latency, protocol)).value) * self.factors.network_hop
        announced = self.rendezvous_s if protocol == "simple" and piece_bytes > self.eager_bytes else 0.0
        return max(hop, self.wire_s) + (links - 1) * self.link_s + announced

    def hop_seconds(self, latency: Latency, protocol: str, links: int = 1, piece_bytes: float = 0.0) -> float:
        """``hops x (their constant) + posts x post``, in seconds."""
        table = self._table(latency)
        near = self._near_hop_s(latency, protocol)
        network = self._network_hop_s(latency, protocol, links, piece_bytes)
        post = self.post_seconds(_of_stores(latency, protocol))
        inside: float = latency.near_hops * near + latency.paced_hops * max(near, post)
        between: float = latency.network_hops * network + latency.posts * self.send_seconds(
            _of_stores(latency, protocol)
        )
        member = 0.0 if table.member_s is None else table.member_s.value * self.factors.network_hop
        return (inside + between + latency.members * member) / self.message_speed


def _of_stores(latency: Latency, protocol: str) -> str:
    """The protocol whose latencies apply: stores of data and flags are what LL does."""
    return "ll" if latency.table == STORES else protocol


def _allowed(known: tuple[Protocol, ...], allowed: Sourced[tuple[NcclProtocol, ...]] | None) -> tuple[Protocol, ...]:
    """The known protocols that the fabric allows."""
    return tuple(protocol for protocol in known if allowed is None or protocol in allowed.value)

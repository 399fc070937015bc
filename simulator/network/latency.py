"""Latencies of the collectives library: the counts of a stage times the constants of a protocol."""

from __future__ import annotations

from dataclasses import dataclass

from hardware_specs.collectives import AlgorithmLatency
from hardware_specs.types import Cluster
from simulator.network.collectives.algorithm import ALL_PROTOCOLS, Latency, Protocol


@dataclass(frozen=True, slots=True)
class Factors:
    """What the library's latencies are multiplied by on one cluster; 1 unless a fit says otherwise."""

    base: float = 1.0
    near_hop: float = 1.0
    network_hop: float = 1.0
    post: float = 1.0

    @staticmethod
    def of(cluster: Cluster) -> Factors:
        """The factors of ``cluster``'s fit."""
        fit = cluster.fitted
        if fit is None:
            return Factors()
        return Factors(
            fit.base_factor.value, fit.near_hop_factor.value, fit.network_hop_factor.value, fit.post_factor.value
        )


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """NCCL's latency constants on one cluster, in seconds.

    Attributes:
        tables: constants of ``ring``, ``tree``, ``nvls`` and ``pat``.
        post_s: cost of posting one network message, LL and LL128.
        simple_factor: times `post_s` for the Simple protocol.
        wire_s: one way through NICs and switches; no network hop is shorter.
        nvlink: whether GPUs of a node reach each other by NVLink; else by PCIe.
        factors: what a fit found the constants to be multiplied by.
        host_speed: divides the posts, which a CPU thread of the library does (1; 1.1 for a 10 % faster host).
    """

    tables: dict[str, AlgorithmLatency]
    post_s: float
    simple_factor: float
    wire_s: float
    nvlink: bool
    factors: Factors
    host_speed: float = 1.0

    @staticmethod
    def of(cluster: Cluster) -> LatencyModel:
        """The constants of ``cluster``'s library, CPUs, NICs and switches."""
        library, node = cluster.collectives, cluster.node
        return LatencyModel(
            tables={"ring": library.ring, "tree": library.tree, "nvls": library.nvls, "pat": library.pat},
            post_s=library.network_post.seconds(node.cpu),
            simple_factor=library.network_post.simple_factor.value,
            factors=Factors.of(cluster),
            wire_s=node.nics.nic.latency_s.value + cluster.fabric.hop_latency_s.value,
            nvlink=node.scale_up is not None,
        )

    def seconds(self, latency: Latency, protocol: Protocol) -> float:
        """``starts x base + hops x (their constant) + posts x post``, in seconds."""
        table = self.tables[latency.table]
        near_hop = table.nvlink_hop_s if self.nvlink else table.pci_hop_s
        base, near, network = (getattr(part, protocol).value for part in (table.base_s, near_hop, table.network_hop_s))
        base, near = base * self.factors.base, near * self.factors.near_hop
        network = max(network * self.factors.network_hop, self.wire_s)
        post = self.factors.post * self.post_s * (self.simple_factor if protocol == "simple" else 1.0) / self.host_speed
        inside: float = latency.near_hops * near + latency.paced_hops * max(near, post)
        between: float = latency.network_hops * network + latency.posts * post
        members = 0.0 if table.member_s is None else latency.members * table.member_s.value * self.factors.network_hop
        return latency.starts * float(base) + inside + between + members


def protocol_fractions(cluster: Cluster) -> dict[Protocol, float]:
    """Share of the bandwidth that each protocol's payload gets."""
    return {p: float(getattr(cluster.collectives.bandwidth_fraction, p).value) for p in ALL_PROTOCOLS}

"""What is known of collectives on a machine: the library's constants, and measured points."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hardware_specs.bounds import Amount, Bandwidth, Name, Ratio, Share
from hardware_specs.processors import Cpu
from inputs.model import Strict
from inputs.quantities import Seconds
from inputs.sourced import Grade, Sourced


class PerProtocol(Strict):
    """A latency of each NCCL protocol."""

    ll: Sourced[Seconds]
    ll128: Sourced[Seconds]
    simple: Sourced[Seconds]


class AlgorithmLatency(Strict):
    """NCCL's tuning constants of one algorithm: start-up, and per hop over NVLink, PCIe or the network."""

    base_s: PerProtocol
    nvlink_hop_s: PerProtocol
    pci_hop_s: PerProtocol
    network_hop_s: PerProtocol


class BandwidthFraction(Strict):
    """Share of the link bandwidth that a protocol's payload gets."""

    ll: Sourced[Share]
    ll128: Sourced[Share]
    simple: Sourced[Share]


class NetworkPost(Strict):
    """Host proxy's cost of posting one network message, by CPU vendor; the Simple protocol posts ``simple_factor``."""

    intel: Sourced[Seconds]
    amd: Sourced[Seconds]
    other: Sourced[Seconds]
    simple_factor: Sourced[Ratio]

    def seconds(self, cpu: Cpu) -> float:
        """Cost of one post on a node with this CPU, in seconds (LL and LL128; Simple: times ``simple_factor``)."""
        by_vendor = {"intel": self.intel, "amd": self.amd}
        return by_vendor.get(cpu.vendor, self.other).value


class CollectiveLibrary(Strict):
    """Constants of the library that runs collectives."""

    name: Name
    description: str = ""
    ring: AlgorithmLatency
    tree: AlgorithmLatency
    bandwidth_fraction: BandwidthFraction
    network_post: NetworkPost


class CollectivePoint(Strict):
    """One measured collective; ``bytes`` as nccl-tests defines them."""

    op: Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
    ranks: Annotated[int, Field(ge=2)]
    ranks_per_node: Annotated[int, Field(ge=1)]
    bytes: Amount
    source: Name
    grade: Grade
    note: str = ""

    @property
    def shape(self) -> tuple[str, int, int]:
        """Operation, ranks, ranks per node: a machine has one point for each."""
        return self.op, self.ranks, self.ranks_per_node

    @property
    def nodes(self) -> int:
        """Number of nodes the ranks fill."""
        return -(-self.ranks // self.ranks_per_node)


class CalibrationPoint(CollectivePoint):
    """A large message: what the links achieve."""

    algbw_bytes_per_s: Bandwidth

    @property
    def time_s(self) -> float:
        """Duration of the collective, in seconds."""
        return self.bytes / self.algbw_bytes_per_s


class LatencyPoint(CollectivePoint):
    """A small message: what starting and hopping costs."""

    time_s: Annotated[Seconds, Field(gt=0)]

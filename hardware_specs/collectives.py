"""What is known of collectives on a machine: the library's constants, and measured points."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hardware_specs.bounds import Amount, Bandwidth, Name, Ratio, Share
from hardware_specs.processors import Cpu
from inputs.model import Strict
from inputs.quantities import Seconds
from inputs.sourced import Grade, Sourced

Operation = Literal[
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "barrier",
    "sendrecv", "gather", "scatter",
]  # fmt: skip


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
    member_s: Sourced[Seconds] | None = None
    """What each member adds on top of the hops; None: nothing."""


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
    algorithms: dict[Operation, tuple[Name, ...]]
    """What it chooses from, by operation; the others run only where a scenario names them."""
    ring: AlgorithmLatency
    tree: AlgorithmLatency
    nvls: AlgorithmLatency
    pat: AlgorithmLatency
    bandwidth_fraction: BandwidthFraction
    network_post: NetworkPost


class CollectivePoint(Strict):
    """One measured collective; ``bytes`` as nccl-tests defines them."""

    op: Operation
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


class FittedCollectives(Strict):
    """What `dlrmsim calibrate collectives` found: one value of each for all sizes and numbers of ranks.

    Takes the place of ``calibration``. Fractions are of links inside a node and of those between nodes, by operation;
    factors multiply the library's latencies.
    """

    near_fraction: dict[Operation, Sourced[Ratio]] = Field(default_factory=dict)
    network_fraction: dict[Operation, Sourced[Ratio]] = Field(default_factory=dict)
    copy_bytes_per_s: Sourced[Bandwidth]
    """At which a kernel copies the member's own part beside its transfers; it matters for few ranks."""
    base_factor: Sourced[Ratio]
    near_hop_factor: Sourced[Ratio]
    network_hop_factor: Sourced[Ratio]
    post_factor: Sourced[Ratio]
    launch_s: dict[str, Sourced[Seconds]] = Field(default_factory=dict)
    """What the method of each source adds to every collective it timed; no part of a prediction for a training job."""
    residuals: str = ""
    """Of the rows it was fitted on: errors, and how many there are."""

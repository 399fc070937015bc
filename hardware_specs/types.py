"""What a machine is made of: GPU, CPU, NIC, node, cluster, and the constants of its collectives library.

Every number is a `Sourced` value: SI, with the source it was taken from and a grade for how far to trust that. All
bandwidths are per direction. A part inside another (`Node.gpu`, `Cluster.node`...) is written in YAML as the name of a
shipped file, a path, or inline; here it is always the resolved part.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from hardware_specs.sourced import (
    Amount,
    Bandwidth,
    ByName,
    Clock,
    ComputeRate,
    Grade,
    Name,
    Number,
    Ratio,
    Share,
    Sourced,
)
from inputs.errors import InputError
from inputs.model import Strict
from inputs.quantities import Seconds

Precision = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8"]
"""Number format a GPU has a peak rate for; dense, tensor cores where the format has them (fp32: it has none)."""


class AchievedRates(Strict):
    """What kernels of this GPU reach, as machine constants (not per model)."""

    gemm_fraction: Sourced[Share]
    """Large GEMM, of the peak of its precision."""
    embedding_bytes_per_s: Sourced[Bandwidth]
    """HBM rate of embedding lookups and fused updates."""
    stream_fraction: Sourced[Share]
    """Elementwise and optimizer kernels, of the HBM peak."""
    kernel_floor_s: Sourced[Seconds]
    """Duration of the smallest kernel."""


class Gpu(Strict):
    """One GPU."""

    name: Name
    description: str = ""
    memory_bytes: Sourced[Amount]
    """HBM capacity."""
    usable_memory_fraction: Sourced[Share]
    """Of `memory_bytes`, what is left for the framework and the job (ECC, driver and context taken off)."""
    memory_bytes_per_s: Sourced[Bandwidth]
    """HBM peak."""
    sms: Sourced[Number]
    l2_bytes: Sourced[Amount]
    peak_flops: dict[Precision, Sourced[ComputeRate]]
    """Dense peak per precision; a precision the GPU lacks is absent."""
    achieved: AchievedRates

    def peak_flops_per_s(self, precision: str) -> float:
        """Dense peak of a precision, in operations per second.

        tf32 is a way to compute on fp32 data: a GPU without it computes in fp32.

        Raises:
            InputError: the GPU does not have the precision.
        """
        known = {name: rate.value for name, rate in self.peak_flops.items()}
        name = "fp32" if precision == "tf32" and "tf32" not in known else precision
        if name not in known:
            expected = "one of " + ", ".join(sorted(known))
            raise InputError(f"{self.name} does not compute in this precision", given=precision, expected=expected)
        return known[name]


class Cpu(Strict):
    """One CPU socket."""

    name: Name
    description: str = ""
    vendor: Literal["intel", "amd", "arm", "other"]
    cores: Sourced[Number]
    base_clock_hz: Sourced[Clock]
    turbo_clock_hz: Sourced[Clock]
    host_time_factor: Sourced[Ratio]
    """Multiplies the host times of the framework profile (kernel launch, Python); 1 where nothing was measured."""


class Nic(Strict):
    """One network adapter port."""

    name: Name
    description: str = ""
    bytes_per_s: Sourced[Bandwidth]
    """Port rate, per direction."""
    latency_s: Sourced[Seconds]
    """One way through the adapter pair, small message, no switch."""


class NodeNics(Strict):
    """The NICs of a node that serve one purpose; GPUs share them evenly."""

    nic: Annotated[Nic, ByName()]
    count: Sourced[Number]


class ScaleUp(Strict):
    """The fabric between the GPUs of one node."""

    kind: Literal["nvswitch", "nvlink_mesh"]
    """nvswitch: any pair at the full rate. nvlink_mesh: direct links, some pairs have none."""
    bytes_per_s: Sourced[Bandwidth]
    """Per GPU and direction, all links."""
    in_switch_reduction: bool = False
    """The switch adds (NVLS): the measured busbw of an all_reduce may then exceed the link rate."""


class Node(Strict):
    """One server."""

    name: Name
    description: str = ""
    gpu: Annotated[Gpu, ByName()]
    gpus: Sourced[Number]
    cpu: Annotated[Cpu, ByName()]
    sockets: Sourced[Number]
    ddr_bytes: Sourced[Amount]
    """Host memory of the node."""
    ddr_bytes_per_s: Sourced[Bandwidth]
    """Host memory peak of the node, all sockets."""
    pcie_bytes_per_s: Sourced[Bandwidth]
    """Per GPU and direction, raw link rate."""
    pcie_fraction: Sourced[Share]
    """Of the raw link rate, what a large pinned copy reaches."""
    scale_up: ScaleUp
    nics: NodeNics
    """Back-end NICs, used by collectives."""
    frontend: NodeNics | None = None
    """NICs that bring the training data in, where they are apart from `nics`."""


class Fabric(Strict):
    """The network between nodes."""

    kind: Literal["rail_optimised", "fat_tree"]
    """rail_optimised: NIC k of every node hangs on the switches of rail k. fat_tree: a node's NICs share a leaf."""
    network: Literal["roce", "infiniband"]
    spine_oversubscription: Sourced[Ratio]
    """Down-link over up-link bandwidth of the leaf switches; 1 is non-blocking."""
    hop_latency_s: Sourced[Seconds]
    """One way between NICs of two nodes, switches only."""


class PerProtocol(Strict):
    """A latency of each NCCL protocol."""

    ll: Sourced[Seconds]
    ll128: Sourced[Seconds]
    simple: Sourced[Seconds]


class AlgorithmLatency(Strict):
    """NCCL's tuning constants of one algorithm: start-up, and per hop over NVLink or the network."""

    base_s: PerProtocol
    nvlink_hop_s: PerProtocol
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


class Cluster(Strict):
    """A machine: nodes of one kind on one fabric."""

    name: Name
    description: str = ""
    node: Annotated[Node, ByName()]
    max_nodes: Sourced[Number]
    """Nodes of the real machine; a larger cluster is an extrapolation."""
    fabric: Fabric
    collectives: Annotated[CollectiveLibrary, ByName()]
    calibration: tuple[CalibrationPoint, ...]
    """Large messages, one per op, ranks and ranks_per_node: the achievable link fractions come from them.

    Needed: an all_reduce and an all_to_all inside a node (unless a node has one GPU) and between nodes.
    """
    latency_points: tuple[LatencyPoint, ...] = ()
    """Small messages, to check the latency constants against; nothing is fitted on them."""

    @property
    def message_cost_s(self) -> float:
        """Cost of posting one network message on these nodes, in seconds (Simple: times ``simple_factor``)."""
        return self.collectives.network_post.seconds(self.node.cpu)

    def to_dict(self) -> dict[str, Any]:
        """The whole resolved tree as plain JSON values; quantities are exact text, so that it can be read again."""
        return self.model_dump(mode="json")

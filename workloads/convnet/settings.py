"""Settings of a data-parallel convolutional network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from inputs.errors import InputError, nearest_name
from simulator.precisions import Precision
from workloads.graph.divisors import nearest_divisor
from workloads.graph.optimizers import DenseOptimizerKind
from workloads.graph.overheads import Overheads
from workloads.graph.pipeline_schedule import PipelineOrder

Strategy: TypeAlias = Literal[
    "horovod_mpi", "horovod_mpi_opt", "horovod_nccl", "baidu_ring",
    "grpc_ps", "grpc_ps_verbs", "grpc_ps_mpi", "grpc_ps_gdr", "hypar_mpi",
]  # fmt: skip
"""Ways to exchange gradients (Awan et al., arXiv:1810.11112, table I):

- ``horovod_mpi``: Horovod, MPI between buffers of the hosts;
- ``horovod_mpi_opt``: Horovod, MPI between buffers of the GPUs, which also add up (MVAPICH2-GDR's all_reduce);
- ``horovod_nccl``: Horovod, NCCL;
- ``baidu_ring``: tensorflow-allreduce of Baidu: a ring over MPI for each tensor;
- ``grpc_ps``: parameter servers, tensors over gRPC; ``_verbs``, ``_mpi`` and ``_gdr``: tensors over RDMA between hosts,
  over MPI, over RDMA between GPUs;
- ``hypar_mpi``: HyPar-Flow (Awan et al., arXiv:1911.05146): the network cut into partitions, whose replicas sum their
  gradients over MPI.
"""

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
Images: TypeAlias = Literal["synthetic", "from_host"]
"""``synthetic``: made once on the GPU, as tf_cnn_benchmarks does without a data set; ``from_host``: copied."""

FUSION_BYTES = 64.0 * 2**20
"""Horovod's buffer, ``HOROVOD_FUSION_THRESHOLD`` (0.15 to 0.20)."""

CYCLE_S = 5e-3
"""Time between two looks of Horovod at what is ready, ``HOROVOD_CYCLE_TIME`` (0.15 to 0.20), seconds."""


@dataclass(frozen=True, slots=True)
class ConvnetSettings:
    """A job of a convolutional network.

    Attributes:
        model: name of the network.
        local_world_size: ranks on a node.
        images_per_rank: images that a rank processes in an iteration, or the ranks of a replica with partitions.
        operator_s: host time of an operator beside its launch, seconds.
        overheads: host time of each operator by name, in place of the two.
        overhead_factor: multiplies them.
        iteration_s: time of an iteration in which the device waits for the host, seconds.
        precision: number format of activations, their gradients and products.
        classes: outputs; tf_cnn_benchmarks counts the background.
        images: origin of the images.
        fusion_bytes: size of Horovod's buffer.
        cycle_s: Horovod's cycle time.
        servers: number of parameter servers, one on each of the first nodes.
        server_threads: threads of a server that handle gRPC's calls; None: as many as TensorFlow has from 2018 on.
        reserve_bytes: device memory that the framework takes beside tensors.
        on_host: whether ranks compute on CPUs.
        image_size: places on each side of an image; None: those of the network's own data set.
        layers_per_partition: layers of each partition of the network, see `workloads.convnet.stages`; empty: one
            partition.
        micro_batches: parts into which the images of a replica are cut.
        schedule: order of micro-batches.

    Raises:
        InputError: an unknown strategy, more servers than nodes, partitions that do not divide the ranks,
            micro-batches that do not divide the images, or an impossible size.
    """

    model: str
    world_size: int
    local_world_size: int
    images_per_rank: int
    strategy: Strategy
    operator_s: float = 0.0
    overheads: Overheads | None = None
    overhead_factor: float = 1.0
    iteration_s: float = 0.0
    precision: Precision = "fp32"
    classes: int = 1001
    images: Images = "synthetic"
    optimizer: DenseOptimizerKind = "sgd"
    fusion_bytes: float = FUSION_BYTES
    cycle_s: float = CYCLE_S
    servers: int = 1
    server_threads: int | None = None
    reserve_bytes: float = 0.0
    on_host: bool = False
    image_size: int | None = None
    layers_per_partition: tuple[int, ...] = ()
    micro_batches: int = 1
    schedule: PipelineOrder = "gpipe"

    def __post_init__(self) -> None:
        """Check what does not depend on the network."""
        if self.strategy not in STRATEGIES:
            raise InputError(
                "no such strategy",
                key="workload.strategy",
                given=self.strategy,
                expected=f"one of {', '.join(STRATEGIES)}",
                nearest=nearest_name(self.strategy, STRATEGIES),
            )
        at_least_one = {
            "world_size": self.world_size, "local_world_size": self.local_world_size,
            "images_per_rank": self.images_per_rank, "fusion_bytes": self.fusion_bytes,
            "servers": self.servers, "classes": self.classes, "micro_batches": self.micro_batches,
        }  # fmt: skip
        for key, value in at_least_one.items():
            if value < 1:
                raise InputError("impossible size", key=f"workload.{key}", given=value, expected="1 or more")
        if self.cycle_s < 0.0:
            raise InputError("impossible time", key="workload.cycle_time", given=self.cycle_s, expected="0 s or more")
        if self.uses_servers and self.servers > self.nodes:
            raise InputError(
                "more parameter servers than nodes",
                key="workload.servers",
                given=self.servers,
                expected=f"at most {self.nodes}, the nodes of the job",
            )
        for key, size, whole, parts in (
            ("partitions", self.partitions, self.world_size, f"{self.world_size} ranks"),
            ("micro_batches", self.micro_batches, self.images_per_rank, f"{self.images_per_rank} images of a replica"),
        ):
            require_divisor(f"workload.{key}", size, whole, parts)

    @property
    def nodes(self) -> int:
        """Nodes of the job."""
        return -(-self.world_size // self.local_world_size)

    @property
    def partitions(self) -> int:
        """Partitions of the network."""
        return max(len(self.layers_per_partition), 1)

    @property
    def replicas(self) -> int:
        """Copies of the network, each with images of its own."""
        return self.world_size // self.partitions

    @property
    def uses_servers(self) -> bool:
        """Whether parameter servers hold the weights."""
        return self.strategy.startswith("grpc_ps")

    @property
    def global_batch_size(self) -> int:
        """Images over all ranks."""
        return self.images_per_rank * self.replicas


def require_divisor(key: str, size: int, whole: int, parts: str) -> None:
    """Check that a size divides a number.

    Args:
        parts: the number and its unit, for the message.

    Raises:
        InputError: it does not.
    """
    if whole % size:
        raise InputError(
            f"does not divide the {parts}",
            key=key,
            given=size,
            expected=f"a divisor of {whole}",
            nearest=str(nearest_divisor(size, whole)),
        )

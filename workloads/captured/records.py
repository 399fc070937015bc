"""Contents of a captured job: the kernels, collectives and copies that a training step issues on every rank.

A recording has no times. Ranks that issue the same tasks share a program; a task names its work by number, and works
that are alike stand once in the job.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from inputs.quantities import MAX_RANKS
from simulator.collective_calls import CollectiveOp
from simulator.operators import ConvolutionPass

MOST = 1 << 62
"""Largest extent of a tensor, and largest size in bytes."""

Index: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Extent: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MOST)]
Bytes: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=float(MOST))]
Rank: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=MAX_RANKS)]
DType: TypeAlias = Literal["fp64", "fp32", "bf16", "fp16", "fp8", "int64", "int32", "int16", "int8", "bool"]
"""Type of a tensor's elements."""

Direction: TypeAlias = Literal["h2d", "d2h", "d2d"]
Optimized: TypeAlias = Literal["sgd", "adagrad", "rowwise_adagrad", "adam"]


class _Work(msgspec.Struct, frozen=True, tag_field="work", forbid_unknown_fields=True):
    """A task's work; ``work`` in the file says which kind."""


class Product(_Work, frozen=True, tag="product"):
    """Matrix product ``[m, k] x [k, n]``, ``count`` of them in one kernel.

    Attributes:
        transposed: whether the first factor is stored as ``[k, m]``.
        own_factor: whether both factors are one tensor, which is read once.
    """

    m: Extent
    n: Extent
    k: Extent
    dtype: DType
    count: Extent = 1
    transposed: bool = False
    own_factor: bool = False


class AttentionWork(_Work, frozen=True, tag="attention"):
    """Attention in one kernel.

    Attributes:
        flops: operations of the matrix products; masked blocks have none.
        bytes: tensors read and written, each once.
    """

    flops: Bytes
    bytes: Bytes
    head_dim: Extent
    sequence: Extent
    dtype: DType
    causal: bool = False
    backward: bool = False


class ConvolutionWork(_Work, frozen=True, tag="convolution"):
    """Convolution in two dimensions, or one of its gradients.

    Attributes:
        inputs: height, width and channels of an image's input; ``outputs`` of its output.
        kernel: height and width of the window.
    """

    images: Extent
    inputs: tuple[Extent, Extent, Extent]
    outputs: tuple[Extent, Extent, Extent]
    kernel: tuple[Extent, Extent]
    stride: Extent
    groups: Extent
    dtype: DType
    direction: ConvolutionPass = "forward"


class Moved(_Work, frozen=True, tag="moved"):
    """A kernel that memory bounds.

    Attributes:
        element_wise: whether each element of the result depends on the same element of the inputs only, so that the
            kernel can be fused with its neighbours.
        priced_by_bytes: whether nothing but its bytes is known of the operator.
        next_read_bytes: bytes of its result that the next kernel of the stream reads.
        next_only_bytes: bytes of its result that only the next kernel reads.
    """

    read_bytes: Bytes
    write_bytes: Bytes
    element_wise: bool = False
    priced_by_bytes: bool = False
    next_read_bytes: Bytes = 0.0
    next_only_bytes: Bytes = 0.0


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lookups of a batch in a part of an embedding table.

    Attributes:
        rows: rows of the part.
        dim: columns of the part.
        lookups: indices of the batch.
        bags: vectors written; as many as lookups where none are summed.
    """

    rows: Extent
    dim: Extent
    lookups: Index
    bags: Index


class Lookup(_Work, frozen=True, tag="lookup"):
    """Lookups in tables in one kernel."""

    tables: tuple[Table, ...]
    dtype: DType
    index_bytes: Extent = 8
    output_dtype: DType = "fp32"


class Update(_Work, frozen=True, tag="update"):
    """Gradients of lookups in tables in one kernel: sparse updates fused with an optimizer, or gradients of all rows.

    Attributes:
        optimizer: fused into the kernel; None: the gradient of the rows is written.
        dense: whether the gradient has all rows of the tables; otherwise those that are looked up.
    """

    tables: tuple[Table, ...]
    dtype: DType
    index_bytes: Extent = 8
    gradient_dtype: DType = "fp32"
    optimizer: Optimized | None = None
    dense: bool = False


class OptimizerWork(_Work, frozen=True, tag="optimizer"):
    """Update of dense parameters in one kernel.

    Attributes:
        bytes: parameters, gradients and state read and written.
    """

    parameters: Extent
    bytes: Bytes


class CopyWork(_Work, frozen=True, tag="copy"):
    """A copy between host and device, or within the device."""

    bytes: Bytes
    direction: Direction


class Collective(_Work, frozen=True, tag="collective"):
    """A call on a communicator.

    Attributes:
        bytes: size as `simulator.collective_calls.CollectiveCall` has it: nccl-tests' one.
        sent: elements of an uneven all_to_all that go to each member in the communicator's order, as fractions of
            ``bytes``; empty: even.
        root: number of the root in the communicator.
        peer: rank that receives a send, less the one that sends.
        receives: whether the rank of the task receives a send; it counts where the communicator has ranks on both
            sides.
    """

    op: CollectiveOp
    communicator: str
    bytes: Bytes
    dtype: DType
    sent: tuple[float, ...] = ()
    root: Index | None = None
    peer: int = 0
    receives: bool = False


class HostWait(_Work, frozen=True, tag="host_wait"):
    """The host thread waits for the tasks that its task comes after."""


RecordedWork: TypeAlias = (
    Product
    | AttentionWork
    | ConvolutionWork
    | Moved
    | Lookup
    | Update
    | OptimizerWork
    | CopyWork
    | Collective
    | HostWait
)


class RecordedTask(msgspec.Struct, frozen=True, array_like=True):
    """A task, in the order in which the host issues them.

    Attributes:
        operator: number of its operator's name in the job's ``operators``.
        work: number of its work in the job's ``works``.
        module: number of the path of its module in ``modules``.
        section: number of its section in ``sections``.
        stream: number of its stream in the program's ``streams``; a collective is issued from it.
        after: earlier tasks of other streams, and collectives, for which its stream waits before it.
        after_streams: streams whose work of the iteration before it waits for.
        launches: kernels that the host launches for it.
        continues: whether the operator before launches it, too, so that only the launch costs host time.
    """

    operator: Index
    work: Index
    module: Index
    section: Index
    stream: Index
    after: tuple[Index, ...] = ()
    after_streams: tuple[Index, ...] = ()
    launches: Index = 1
    continues: bool = False


class MemoryPeak(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Device memory of a rank over the step.

    Attributes:
        peak: bytes by category at the moment when their sum is largest.
        task: number of the task at the peak.
        module: path of its module.
        tasks: numbers of tasks at which ``bytes`` are sampled ``[N]``.
        bytes: category -> bytes at each of them ``[N]``.
    """

    peak: dict[str, Bytes]
    task: Index
    module: str
    tasks: tuple[Index, ...]
    bytes: dict[str, tuple[Bytes, ...]]


class RankProgram(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tasks that the ranks of a group issue in a step.

    Attributes:
        ranks: ascending.
        captured: the ranks of these that were captured.
        streams: names of device streams, the default one first.
    """

    ranks: tuple[Rank, ...]
    captured: tuple[Rank, ...]
    streams: tuple[str, ...]
    tasks: tuple[RecordedTask, ...]
    memory: MemoryPeak


class RecordedJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A captured job.

    Attributes:
        name: names its scenario.
        source: the user's file and function, ``train.py:step``.
        torch: version of PyTorch that captured it.
        samples_per_rank: samples of a step on each rank; None: unknown.
        communicators: name -> members of each instance, in their order in the process group.
        operators: names of operators, such as ``aten.addmm``.
        modules: paths of modules, such as ``layers.3.self_attn``; the first one is empty.
        sections: ``forward``, ``backward``, ``optimizer``...
        tf32: whether the program lets products of fp32 tensors compute in tf32.
    """

    name: str
    source: str
    torch: str
    world_size: Annotated[int, msgspec.Meta(ge=1, le=MAX_RANKS)]
    samples_per_rank: Extent | None
    communicators: dict[str, tuple[tuple[Rank, ...], ...]]
    operators: tuple[str, ...]
    modules: tuple[str, ...]
    sections: tuple[str, ...]
    works: tuple[RecordedWork, ...]
    programs: tuple[RankProgram, ...]
    tf32: bool = False
    format: Literal["dlrmsim captured job"] = "dlrmsim captured job"
    version: Literal[1] = 1

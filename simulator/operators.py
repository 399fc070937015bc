"""Operators: the work of a task, with the shapes a compute model needs.

An operator says nothing about time. Amounts are scalars when all ranks of a program do the same, or arrays ``[P]``
(one value per rank of the program, in rank order) when sharding makes them differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simulator.categories import Category
from simulator.precisions import Precision

FloatArray: TypeAlias = NDArray[np.float64]
Amount: TypeAlias = float | FloatArray
"""A scalar for all ranks or an array ``[P]``."""

UpdateVariant = Literal["fused", "race_free", "atomic", "reference"]
"""Ways to update rows: in one kernel with the backward pass (GPUs, hosts that were measured), or as sockets do it
(`simulator.compute.sockets`)."""

Access = Literal["stream", "columns", "transpose", "gather", "scatter", "bucketize", "recat"]

SORTED_BYTES = 32.0
"""Bytes of a CPU's memory touched for each lookup beside its index where an update sorts lookups by row: keys before
and after the sort, rows and bags as int64."""


@dataclass(frozen=True, slots=True)
class Gemm:
    """Matrix product ``[m, k] x [k, n]``, 2 m n k floating point operations; ``count`` of them in one kernel.

    ``transposed``: the first factor is stored as ``[k, m]``, as in the gradient of weights; ``apart``: on a CPU, the
    products are large ones, each on a core of its own (several of them else are small ones that the cores share).
    """

    m: Amount
    n: Amount
    k: Amount
    precision: Precision
    count: Amount = 1
    transposed: bool = False
    apart: bool = False

    @property
    def elements(self) -> Amount:
        """Numbers in both factors and the product."""
        return self.count * (self.m * self.k + self.k * self.n + self.m * self.n)


AttentionKernel: TypeAlias = Literal["flash2", "flash3", "cudnn"]
"""Kernels that never write the scores: FlashAttention 2 and 3, and cuDNN's."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention in one kernel that never writes its scores: its arithmetic, and tensors moved once.

    ``flops``: of the products, without masked blocks; ``head_dim``: width of a head; ``sequence``: tokens of a
    sequence; for sequences of several lengths the sum of squared lengths over the sum of lengths, which gives the same
    time; ``causal``: whether a token attends to earlier tokens only; ``backward``: the kernel of the gradients, which
    computes the scores again; ``pointwise``: a function of each score in place of the softmax (HSTU).
    """

    flops: Amount
    bytes: Amount
    head_dim: int
    sequence: Amount
    precision: Precision
    causal: bool = False
    backward: bool = False
    kernel: AttentionKernel = "flash2"
    pointwise: bool = False


ConvolutionPass: TypeAlias = Literal["forward", "inputs", "weights"]
"""The convolution itself, the gradient of its inputs, the gradient of its weights."""


@dataclass(frozen=True, slots=True)
class Convolution:
    """Convolution of a rank's images, or one of its gradients, in one kernel or the few that a library takes for it.

    ``inputs`` and ``outputs``: height, width and channels of an image's tensors; ``kernel``: height and width of the
    window, which moves by ``stride``; ``groups``: parts into which the channels fall, as many as inputs: depthwise.
    """

    images: int
    inputs: tuple[int, int, int]
    outputs: tuple[int, int, int]
    kernel: tuple[int, int]
    stride: int
    groups: int
    precision: Precision
    direction: ConvolutionPass = "forward"

    @property
    def flops(self) -> float:
        """Floating point operations of the sum as it is written, 2 for each product; the same in all passes."""
        products = self.kernel[0] * self.kernel[1] * self.inputs[2] // self.groups
        return 2.0 * self.images * math.prod(self.outputs) * products

    @property
    def elements(self) -> float:
        """Numbers in inputs, outputs and weights, each of which a pass reads or writes once."""
        weights = self.kernel[0] * self.kernel[1] * self.inputs[2] // self.groups * self.outputs[2]
        return float(self.images * (math.prod(self.inputs) + math.prod(self.outputs)) + weights)


@dataclass(frozen=True, slots=True, eq=False)
class Misses:
    """Bytes that a memory behind a cache delivers, by the size of the cache.

    Attributes:
        cache_bytes: sizes ``[G]``, ascending from 0.
        bytes: delivered with a cache of each size ``[G]``, or ``[G, P]``.
    """

    cache_bytes: FloatArray
    bytes: FloatArray

    def at(self, cache_bytes: Amount) -> Amount:
        """Bytes with a cache of ``cache_bytes``, between the nearest two sizes: a scalar, or ``[P]``.

        Args:
            cache_bytes: one size, or the size on each rank ``[P]``.
        """
        size = np.clip(cache_bytes, self.cache_bytes[0], self.cache_bytes[-1])
        upper = np.maximum(np.searchsorted(self.cache_bytes, size), 1)
        low, high = self.cache_bytes[upper - 1], self.cache_bytes[upper]
        part = (size - low) / (high - low)
        of_rank = np.arange(self.bytes.shape[1]) if np.ndim(size) and self.bytes.ndim > 1 else ...
        between = self.bytes[upper - 1, of_rank] * (1.0 - part) + self.bytes[upper, of_rank] * part
        return between if np.ndim(between) else float(between)


@dataclass(frozen=True, slots=True)
class HostTraffic:
    """Traffic of a kernel outside its GPU: bytes read from and written to host memory over PCIe, and those of SSDs."""

    read_bytes: Amount = 0.0
    write_bytes: Amount = 0.0
    ssd_read_bytes: Amount = 0.0
    ssd_write_bytes: Amount = 0.0


@dataclass(frozen=True, slots=True)
class Busiest:
    """The most that a thread of a rank has of a lookup, of each amount on its own, times the number of threads.

    Attributes:
        lookups: rows gathered.
        missed: bytes of rows that memory delivers, by the size of the cache.
    """

    lookups: Amount
    missed: Misses


@dataclass(frozen=True, slots=True)
class CpuTraffic:
    """Traffic between the caches of a CPU and memory, in whole lines, of a kernel on rows of tables.

    Attributes:
        rows: bytes of rows, which a lookup reads and an update reads and writes (both counted), by the size of the
            cache; without a cache each row of an update has lines of its own.
        state: bytes of optimizer state that an update reads and writes, likewise; None: every state misses.
        busiest: the thread of a lookup that the others wait for; None: all threads have the same.
    """

    rows: Misses
    state: Misses | None = None
    busiest: Busiest | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingLookup:
    """Table-batched embedding forward: rows gathered, pooled, written.

    ``lookups``: rows gathered; ``row_bytes``: bytes of all gathered rows; ``output_bytes``: pooled vectors written;
    ``index_bytes``: indices and offsets read; ``tables``: tables on the rank;
    ``missed``: bytes of rows that device memory delivers, by the size of the cache; None: all;
    ``deviation``: standard deviation of the work from batch to batch, over its mean;
    ``host``: rows that are not in device memory, None where all are;
    ``factor``: on the time of the kernel on the device, where a framework's kernels take longer than this one;
    ``cpu``: traffic behind the caches of a CPU; None: every row misses.
    """

    lookups: Amount
    row_bytes: Amount
    output_bytes: Amount
    index_bytes: Amount
    tables: Amount
    missed: Misses | None = None
    deviation: Amount = 0.0
    host: HostTraffic | None = None
    factor: float = 1.0
    cpu: CpuTraffic | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingUpdate:
    """Table-batched embedding backward fused with the optimizer: sort, gather gradients, update unique rows.

    ``lookups``: rows touched with repeats; ``unique_rows``: distinct rows;
    ``gradient_bytes``: pooled gradients, each read once;
    ``weight_bytes``: weights of the unique rows, read and written once each (both counted);
    ``state_bytes``: optimizer state of the unique rows, read and written (both counted);
    ``sort_bytes``: traffic of sorting the indices; ``tables``: tables on the rank;
    ``repeated_gradient_bytes``: further reads of the same gradients by other lookups of the same bag; the lookups of a
    table follow each other (they are sorted), so these reads hit a cache that holds ``gradient_block_bytes``, the
    gradients of one table;
    ``padding_bytes``: what memory moves beside weights and state of unique rows, as it moves whole sectors;
    ``deviation``: standard deviation of the work from batch to batch, over its mean;
    ``host``: weights and state that are not in device memory, None where all are;
    ``factor``: as of a lookup;
    ``cpu``: as of a lookup;
    ``variant``: how rows are updated;
    ``collisions``: probability that two lookups of a table are of one row, mean over the lookups of the rank.
    """

    lookups: Amount
    unique_rows: Amount
    gradient_bytes: Amount
    weight_bytes: Amount
    state_bytes: Amount
    sort_bytes: Amount
    tables: Amount
    repeated_gradient_bytes: Amount = 0.0
    gradient_block_bytes: Amount = 0.0
    padding_bytes: Amount = 0.0
    deviation: Amount = 0.0
    host: HostTraffic | None = None
    factor: float = 1.0
    cpu: CpuTraffic | None = None
    variant: UpdateVariant = "fused"
    collisions: Amount = 0.0


@dataclass(frozen=True, slots=True)
class CacheFill:
    """Bringing the rows of a batch into a cache in device memory: sort, look up, evict rows to the host, fetch others.

    ``sort_bytes``: traffic of making the indices unique; ``probe_bytes``: of looking them up in the cache;
    ``row_bytes``: rows read from and written to the cache; ``host``: rows evicted and fetched.
    """

    sort_bytes: Amount
    probe_bytes: Amount
    row_bytes: Amount
    host: HostTraffic


@dataclass(frozen=True, slots=True)
class Interaction:
    """Feature interaction: a batched GEMM or concatenation with its memory traffic."""

    flops: Amount
    read_bytes: Amount
    write_bytes: Amount
    precision: Precision


@dataclass(frozen=True, slots=True)
class Elementwise:
    """A memory-bound kernel: activation, loss, cast, permute, concatenation.

    ``access``: how it walks through memory, which GPUs do at one rate: ``stream`` as it lies; ``columns`` of a matrix
    that lie in ``pieces``, in ``parts`` one after the other; ``transpose`` of small matrices; ``gather``, ``scatter``
    single elements; ``bucketize`` indices sorted by owner; ``recat`` bags (written) and indices (read) that have come
    from several sources.

    ``next_read_bytes``: bytes of its result that the next kernel reads; ``next_only_bytes``: bytes of its result that
    only the next kernel reads. A fused kernel moves neither; 0 if unknown.
    """

    read_bytes: Amount
    write_bytes: Amount
    access: Access = "stream"
    pieces: Amount = 0.0
    parts: Amount = 0.0
    next_read_bytes: Amount = 0.0
    next_only_bytes: Amount = 0.0


def scaled(work: Elementwise, factor: float) -> Elementwise:
    """An element-wise kernel with a multiple of the bytes."""
    names = ("read_bytes", "write_bytes", "next_read_bytes", "next_only_bytes")
    return replace(work, **{name: factor * getattr(work, name) for name in names})


@dataclass(frozen=True, slots=True)
class DenseOptimizer:
    """Update of dense parameters: bytes of parameters, gradients and state read and written in all."""

    parameters: Amount
    traffic_bytes: Amount


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy between memories; ``h2d`` and ``d2h`` use the rank's PCIe link."""

    bytes: Amount
    direction: Literal["h2d", "d2h", "d2d"]


@dataclass(frozen=True, slots=True)
class SsdRead:
    """A read of whole pages from the SSDs of a node into host memory; its ranks share them."""

    bytes: Amount


@dataclass(frozen=True, slots=True)
class HostWork:
    """Work of the host thread: ``launches`` kernels launched, plus ``seconds`` of anything else.

    ``collectives``: how many of the launches start one; ``copied_bytes``: what these calls copy before they do;
    ``after_bytes``: what the kernel before read and wrote, where the host runs kernels itself: its caches hold that.
    """

    launches: float = 0.0
    seconds: float = 0.0
    collectives: float = 0.0
    copied_bytes: Amount = 0.0
    after_bytes: Amount = 0.0


@dataclass(frozen=True, slots=True)
class Ingest:
    """A batch on its way into host memory over the node's front-end NICs, which its ranks share evenly."""

    bytes: Amount


@dataclass(frozen=True, slots=True)
class Marker:
    """A task without work of its own (a wait, a join, a marker)."""

    category: Category = Category.HOST


@dataclass(frozen=True, slots=True)
class Measured:
    """Work of which the duration is known and nothing else, from a trace: ``seconds`` on each rank.

    ``name`` is what the trace calls it (of a kernel: its whole signature), ``shape`` what it computes where the trace
    has shapes.
    """

    seconds: Amount
    category: Category
    name: str = ""
    shape: Gemm | None = None


@dataclass(frozen=True, slots=True)
class Delay:
    """Time between the last input of a task and its start in which nothing runs: launch latency, a silent thread."""

    seconds: Amount
    cause: str

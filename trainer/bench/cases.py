"""Kernels of the trainer one by one, in sizes drawn from a seed: what ``dlrmsim calibrate host`` times.

Each case is what the trainer calls, on data of its own, which lie on torch's default device of the moment;
``sizes`` are those of the simulator's operator, by which `validation.host.kernel_costs` knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import repeat

import numpy as np
import torch
from torch import Tensor

from trainer.bench.plans import Largest
from trainer.dense import Columns
from trainer.embeddings import update_rows
from trainer.input_dist import bucketized
from trainer.lookups import Lookups, make_lookups
from trainer.optimizers import BufferOptimizer, TableOptimizer
from workloads.graph.optimizers import TableOptimizerKind

Sizes = dict[str, float]
Call = Callable[[], object]
LEAST_TABLE_BYTES, LEAST_LOOKUPS = 2e6, 2e3
"""Smallest size of a table with its optimizer state, and of a call: smaller ones take no relevant time."""
LARGE_SHARE = 0.1
"""Fraction of the largest table from which a table counts as large."""
INDEXED_BYTES = 5e8
"""Most of a table whose rows are only named."""
TABLE_OPTIMIZERS: tuple[TableOptimizerKind, ...] = ("sgd", "rowwise_adagrad", "adagrad")


@dataclass(frozen=True, slots=True)
class KernelCase:
    """A kernel in one size.

    Attributes:
        kind: kind of kernel (`hardware_specs.cpu_kernels.KernelClass`).
        sizes: amounts of the simulator's operator by name.
        make: makes its data and returns calls to time, each on data that the one before did not touch, or the same.
        cold: whether other work has driven its data out of a core's own caches when the trainer calls it.
    """

    kind: str
    sizes: Sizes
    make: Callable[[], Iterator[Call]]
    cold: bool = False

    @staticmethod
    def of(kind: str, sizes: Sizes, make: Callable[[], Call], cold: bool = False) -> KernelCase:
        """A case that does the same again and again."""
        return KernelCase(kind, sizes, lambda: repeat(make()), cold)


def cases(seed: int, count: int, largest: Largest) -> Iterator[KernelCase]:
    """``count`` cases of every kind, twice as many of tables; equal arguments give equal cases."""
    random = {kind: np.random.default_rng([seed, *kind.encode()]) for kind in (*_KINDS, *_TABLE_KINDS)}
    for number in range(count):
        for kind, make in _KINDS.items():
            yield make(random[kind], number, largest)
        for twice in range(2 * number, 2 * number + 2):
            yield from (of_table(random[kind], twice, largest) for kind, of_table in _TABLE_KINDS.items())


def _generator(number: int) -> torch.Generator:
    """Generator of the indices that a case looks up, on the default device."""
    here = torch.empty(0).device  # torch 2.4's get_default_device ignores a ``with`` block
    return torch.Generator(here).manual_seed(number)


def _log_uniform(random: np.random.Generator, low: float, high: float) -> int:
    return int(np.exp(random.uniform(np.log(low), np.log(high))))


def _gemm(random: np.random.Generator, number: int, largest: Largest) -> KernelCase:
    """The three products of a linear layer by turns: forward, gradient of inputs, gradient of weights."""
    batch, narrow = _log_uniform(random, 32, largest.batch), _log_uniform(random, 1, 1024)
    wide = _log_uniform(random, 8, 1536)
    inputs, outputs = (wide, narrow) if random.random() < 0.5 else (narrow, wide)
    batch = max(16, min(batch, int(largest.flops / (2 * inputs * outputs))))
    shapes = [(batch, outputs, inputs), (batch, inputs, outputs), (outputs, inputs, batch)]
    m, n, k = shapes[number % 3]

    def make() -> Call:
        x, g = torch.randn(batch, inputs), torch.randn(batch, outputs)
        weight, bias = torch.randn(outputs, inputs), torch.randn(outputs)
        calls: list[Call] = [
            lambda: torch.nn.functional.linear(x, weight, bias),
            lambda: g.mm(weight),
            lambda: g.t().mm(x),
        ]
        return calls[number % 3]

    return KernelCase.of("gemm", {"m": m, "n": n, "k": k, "transposed": number % 3 == 2}, make)


@dataclass(frozen=True, slots=True)
class _Bags:
    """A table and what is looked up in it."""

    rows: int
    dim: int
    bags: int
    pooling: int

    @staticmethod
    def draw(random: np.random.Generator, largest: Largest, state: int | None = 0) -> _Bags:
        """A table with ``state`` numbers beside each row; None: as many as it has.

        Every other one is large.
        """
        dim = int(4 * round(_log_uniform(random, 16, 256) / 4))
        sizes = [LEAST_TABLE_BYTES, LARGE_SHARE * largest.table_bytes, largest.table_bytes]
        large = int(random.random() < 0.5)
        rows = max(64, _log_uniform(random, *sizes[large : large + 2]) // (4 * (dim + _state(state, dim))))
        most = min(largest.lookups, largest.gathered / dim)
        pooling = _log_uniform(random, 1, 100)
        return _Bags(rows, dim, max(64, int(_log_uniform(random, LEAST_LOOKUPS, most) / pooling)), pooling)

    @property
    def sizes(self) -> Sizes:
        return {"rows": self.rows, "dim": self.dim, "bags": self.bags, "lookups": self.bags * self.pooling}

    def lookups(self, generator: torch.Generator) -> Lookups:
        values = torch.randint(self.rows, (self.bags * self.pooling,), generator=generator)
        return make_lookups(values, torch.full((self.bags,), self.pooling, dtype=torch.int32), [0], 1, self.rows)


def _state(state: int | None, dim: int) -> int:
    return dim if state is None else state


@cache
def _memory(numbers: int) -> Tensor:
    """Memory that tables of all cases lie in: new pages take longer than what is timed."""
    return torch.full((numbers,), 0.1)


def _lookup(random: np.random.Generator, number: int, largest: Largest) -> KernelCase:
    """Lookups of rows that differ in every call, as they do in iterations."""
    bags = _Bags.draw(random, largest)

    def make() -> Iterator[Call]:
        generator = _generator(number)
        weight = _memory(int(largest.table_bytes) // 4)[: bags.rows * bags.dim].view(bags.rows, bags.dim)
        while True:
            lookups = bags.lookups(generator)
            yield lambda lookups=lookups: torch.nn.functional.embedding_bag(  # type: ignore[misc]
                lookups.rows, weight, lookups.offsets, mode="sum", include_last_offset=True
            )

    return KernelCase("lookup", bags.sizes, make, cold=True)


def _update(random: np.random.Generator, number: int, largest: Largest) -> KernelCase:
    kind = TABLE_OPTIMIZERS[number % len(TABLE_OPTIMIZERS)]
    each = {"sgd": 0, "rowwise_adagrad": 1, "adagrad": None}[kind]
    bags = _Bags.draw(random, largest, each)
    state = _state(each, bags.dim)

    def make() -> Iterator[Call]:
        generator = _generator(number)
        weights, states = bags.rows * bags.dim, bags.rows * state
        memory = _memory(int(largest.table_bytes) // 4)
        table, known = memory[:weights].view(bags.rows, bags.dim), memory[weights : weights + states]
        optimizer = TableOptimizer(kind, table, known if state <= 1 else known.view_as(table))
        gradient = torch.full((bags.bags, bags.dim), 1e-6)
        while True:
            lookups = bags.lookups(generator)
            yield lambda lookups=lookups: update_rows(optimizer, lookups, gradient, 1.0)  # type: ignore[misc]

    return KernelCase("update", {**bags.sizes, "state": state}, make, cold=True)


def _stream(random: np.random.Generator, number: int, largest: Largest) -> KernelCase:
    """Passes over activations and gradients as the trainer makes them."""
    batch, width = _log_uniform(random, 64, largest.batch), _log_uniform(random, 8, 1024)
    size = 4.0 * batch * width
    moved = [(1.0, 1.0), (1.0, 1.0), (3.0, 1.0), (1.0, 1.0)][number % 4]

    def make() -> Call:
        x, y, bias = torch.randn(batch, width), torch.empty(batch, width), torch.empty(width)
        wide = torch.empty(batch, 2 * width)

        def backward() -> None:
            torch.ops.aten.threshold_backward(y, x, 0)
            torch.sum(x, 0, out=bias)

        calls: list[Call] = [
            lambda: torch.relu(x),
            lambda: torch.mul(x, 0.5, out=y),
            backward,
            lambda: wide[:, :width].copy_(x),
        ]
        return calls[number % 4]

    return KernelCase.of("stream", {"read_bytes": moved[0] * size, "write_bytes": moved[1] * size}, make)


def _dot(random: np.random.Generator, largest: Largest) -> tuple[int, int, int]:
    """Samples, vectors and dim of a dot interaction."""
    vectors, dim = _log_uniform(random, 3, 40), int(4 * round(_log_uniform(random, 16, 256) / 4))
    batch = min(_log_uniform(random, 64, largest.batch), int(largest.paired / (vectors * (vectors + dim))))
    return max(16, batch), vectors, dim


def _columns(random: np.random.Generator, number: int, largest: Largest) -> KernelCase:
    """Pooled vectors of features into their columns by turns with their gradients out of them."""
    batch, features, dim = _dot(random, largest)

    def make() -> Call:
        whole, parts = torch.zeros(batch, features * dim), list(torch.zeros(features, batch, dim))
        places = [whole[:, i * dim : (i + 1) * dim] for i in range(features)]
        into, out = (places, parts) if number % 2 == 0 else (parts, places)
        return lambda: torch._foreach_copy_(into, out)

    return KernelCase.of(
        "columns", {"bytes": 4.0 * batch * features * dim, "pieces": batch * features, "parts": features}, make
    )


def _transpose(random: np.random.Generator, number: int, largest: Largest) -> KernelCase:  # noqa: ARG001 - of all kinds
    """The gradient of one factor of the dot interaction added to that of the other."""
    batch, vectors, dim = _dot(random, largest)

    def make() -> Call:
        left, right = torch.zeros(batch, vectors, dim), torch.zeros(batch, dim, vectors)
        return lambda: left + right.transpose(1, 2)

    return KernelCase.of("transpose", {"bytes": 4.0 * batch * vectors * dim}, make)


def _gather(random: np.random.Generator, number: int, largest: Largest) -> KernelCase:  # noqa: ARG001 - of all kinds
    """The products below the diagonal."""
    batch, vectors, _ = _dot(random, largest)
    kept = 4.0 * batch * len(_below_diagonal(vectors))

    def make() -> Call:
        columns, products = torch.tensor(_below_diagonal(vectors)), torch.randn(batch, vectors * vectors)
        return lambda: Columns.apply(products, columns)  # type: ignore[no-untyped-call]

    return KernelCase.of("gather", {"read_bytes": kept, "write_bytes": kept}, make)


def _scatter(random: np.random.Generator, number: int, largest: Largest) -> KernelCase:  # noqa: ARG001 - of all kinds
    """Their gradients among zeros."""
    batch, vectors, _ = _dot(random, largest)
    kept, whole = 4.0 * batch * len(_below_diagonal(vectors)), 4.0 * batch * vectors * vectors

    def make() -> Call:
        columns, gradient = torch.tensor(_below_diagonal(vectors)), torch.randn(batch, len(_below_diagonal(vectors)))
        return lambda: gradient.new_zeros(batch, vectors * vectors).index_copy_(1, columns, gradient)

    return KernelCase.of("scatter", {"read_bytes": kept, "write_bytes": whole}, make)


def _below_diagonal(vectors: int) -> list[int]:
    """Columns of the products of different vectors, each pair once."""
    return [i * vectors + j for i in range(vectors) for j in range(i)]


def _batched(random: np.random.Generator, number: int, largest: Largest) -> KernelCase:
    """The products of the dot interaction by turns: forward, gradients of the left and of the right factor."""
    batch, vectors, dim = _dot(random, largest)
    shapes = [(vectors, vectors, dim), (vectors, dim, vectors), (dim, vectors, vectors)]
    m, n, k = shapes[number % 3]

    def make() -> Call:
        x, gradient = torch.randn(batch, vectors, dim), torch.randn(batch, vectors, vectors)
        calls: list[Call] = [
            lambda: torch.bmm(x, x.transpose(1, 2)),
            lambda: torch.bmm(gradient, x),
            lambda: torch.bmm(x.transpose(1, 2), gradient),
        ]
        return calls[number % 3]

    return KernelCase.of("batched", {"m": m, "n": n, "k": k, "count": batch, "transposed": number % 3 == 2}, make)


def _indexed(largest: Largest) -> Largest:
    return replace(largest, table_bytes=INDEXED_BYTES)


def _bucketize(random: np.random.Generator, number: int, largest: Largest) -> KernelCase:
    bags, tables, ranks = _Bags.draw(random, _indexed(largest)), 1 + number % 4, 2

    def make() -> Call:
        generator = _generator(number)
        drawn = [(bags.lookups(generator).rows, -(-bags.rows // ranks)) for _ in range(tables)]
        lengths = torch.full((bags.bags * tables,), bags.pooling, dtype=torch.int32)
        return lambda: bucketized(drawn, lengths, ranks)

    return KernelCase.of("bucketize", {"bytes": 8.0 * tables * bags.bags * bags.pooling}, make, cold=True)


def _recat(random: np.random.Generator, number: int, largest: Largest) -> KernelCase:
    bags, tables = _Bags.draw(random, _indexed(largest)), 1 + number % 8
    each = max(1, bags.bags // tables)

    def make() -> Call:
        values = torch.randint(bags.rows, (each * tables * bags.pooling,))
        lengths = torch.full((tables * each,), bags.pooling, dtype=torch.int32)
        first = [table * bags.rows for table in range(tables)]
        return lambda: make_lookups(values, lengths, first, 1, bags.rows * tables)

    lookups = each * tables * bags.pooling
    shifted = 8.0 * lookups if tables > 1 else 0.0  # rows of the first table stay as they are
    return KernelCase.of("recat", {"index_bytes": shifted, "length_bytes": 4.0 * each * tables}, make, cold=True)


def _optimizer(random: np.random.Generator, number: int, largest: Largest) -> KernelCase:  # noqa: ARG001 - of all kinds
    parameters = _log_uniform(random, 1e3, 8e6)
    sgd = number % 2 == 0

    def make() -> Call:
        optimizer = BufferOptimizer("sgd" if sgd else "adagrad", [(torch.ones(parameters), torch.ones(parameters))])
        return optimizer.step

    sizes = {"parameters": parameters, "traffic_bytes": 4.0 * parameters * (3 if sgd else 5)}
    return KernelCase.of("optimizer", sizes, make, cold=True)


_KINDS: dict[str, Callable[[np.random.Generator, int, Largest], KernelCase]] = {
    "gemm": _gemm,
    "stream": _stream,
    "columns": _columns,
    "transpose": _transpose,
    "gather": _gather,
    "scatter": _scatter,
    "batched": _batched,
    "bucketize": _bucketize,
    "recat": _recat,
    "optimizer": _optimizer,
}
_TABLE_KINDS: dict[str, Callable[[np.random.Generator, int, Largest], KernelCase]] = {
    "lookup": _lookup,
    "update": _update,
}

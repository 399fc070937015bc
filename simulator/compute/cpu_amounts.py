"""Amounts of what kernels do on a CPU, which costs are for, and the caches behind which some of it comes from memory.

Amounts are counts, so each cost has a meaning: for a GEMM ``[m, k] x [k, n]``

    call + flop x 2 m n k + left x m k + right x k n + result x m n (+ tail x m k, where n fills no whole vectors)

is a rate that ramps up with the shortest sides: ``1 / rate x (1 + n_0 / n + m_0 / m + k_0 / k)``. Many small products
at once go by vectors (`_vectors`) instead of flop. What comes from memory behind a cache of C bytes is counted apart:
of rows of tables what the operator says (`Misses`); of a pass over W bytes all when W exceeds C. Of the cache that all
cores share each rank has an equal part, and in going through tables what others leave it (`shared_cache`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardware_specs.cpu_kernels import (
    BatchedAmounts,
    ColumnAmounts,
    CpuKernels,
    GemmAmounts,
    HostAmounts,
    KernelAmounts,
    KernelClass,
    LookupAmounts,
    OptimizerAmounts,
    PassAmounts,
    ProductAmounts,
    RecatAmounts,
    UpdateAmounts,
)
from simulator.compute.shared_cache import parts
from simulator.operators import (
    SORTED_BYTES,
    Amount,
    Copy,
    DenseOptimizer,
    Elementwise,
    EmbeddingLookup,
    EmbeddingUpdate,
    Gemm,
    HostWork,
    Ingest,
    Interaction,
    Marker,
    Misses,
)
from simulator.work import Operator

STATELESS_BYTES = 14.0
"""An optimizer that moves more bytes for each fp32 parameter keeps a state (SGD: 12, Adagrad: 20)."""
EVICTING = 2.0
"""Passing over so many times what the cache of a core holds leaves 1 / e of what was in it (`docs/decisions/053`)."""
VECTOR = 16
"""fp32 numbers of a 512-bit vector."""
SHORT = 12
"""Small products of a transposed factor are computed in another way when each is a sum of fewer terms (oneMKL on Zen 4:
`docs/decisions/053`)."""


@dataclass(frozen=True, slots=True)
class Caches:
    """Caches that a rank has: of its core, and an equal part of the one that so many ranks share, bytes."""

    core: float
    shared: float
    sharing: int = 1

    def of_each(self, ranks: int) -> Caches:
        """Caches of each of ``ranks`` ranks on a machine with these."""
        return Caches(self.core, self.shared / ranks, ranks)

    def shared_part(self, missed: Misses | None, passed: Amount) -> Amount:
        """Bytes of the shared cache that serve a rank's tables: a scalar, or ``[P]``.

        Rows that an update reads and writes count twice, and its states and sorting not at all (`docs/decisions/053`).

        Args:
            missed: bytes of rows that memory delivers, by cache size; None: unknown.
            passed: vectors that pass through it besides, bytes.
        """
        return self.shared if missed is None else parts(missed, passed, self.shared, self.sharing)


def _missed(cache: float, resident: Amount) -> Amount:
    return np.maximum(0.0, 1.0 - cache / np.maximum(resident, cache))


def caches_of(kernels: CpuKernels) -> Caches:
    """The caches of a machine, as its spec has them."""
    return Caches(kernels.core_cache_bytes.value, kernels.shared_cache_bytes.value)


def class_of(operator: Operator) -> KernelClass | None:
    """The kind of kernel that an operator is; None where nothing runs (a copy to the device it is on already)."""
    if isinstance(operator, Elementwise):
        return operator.access
    if isinstance(operator, Copy) and operator.direction != "d2d":
        return None
    if isinstance(operator, Gemm) and _is_batched(operator):
        return "batched"
    return _CLASSES.get(type(operator))


def amounts_of(operator: Operator, caches: Caches) -> KernelAmounts:
    """Amounts of a kernel."""
    found: KernelAmounts = _AMOUNTS[type(operator)](operator, caches)
    return found


def _gemm(operator: Gemm, caches: Caches) -> GemmAmounts | BatchedAmounts:
    m, n, k, count = operator.m, operator.n, operator.k, operator.count
    touched = 4.0 * count * (m * k + k * n + m * n)
    product = ProductAmounts(
        call=1.0,
        row=count * m,
        left=count * m * k,
        right=count * k * n,
        result=count * m * n,
        core_miss_byte=touched * _passed(caches.core, touched),
        shared_miss_byte=touched * _passed(caches.shared, touched),
    )
    if _is_batched(operator):
        short = np.where(np.asarray(k) < SHORT, 1.0, 0.0)
        return BatchedAmounts(
            **dict(product.items()),
            product=count,
            vector=count * m * k * _vectors(n),
            short_transposed=count * m * k * short if operator.transposed else 0.0,
        )
    return GemmAmounts(
        **dict(product.items()),
        flop=2.0 * count * m * n * k,
        tail=count * m * k * np.where(np.asarray(n) % VECTOR > 0, 1.0, 0.0),
        transposed=count * m * k if operator.transposed else 0.0,
    )


def _is_batched(operator: Gemm) -> bool:
    return bool(np.max(operator.count) > 1)


def _vectors(width: Amount) -> Amount:
    """Vectors that so many numbers are computed in: whole ones, and one for each power of two of the rest."""
    whole, rest = np.divmod(np.asarray(width, dtype=np.int64), VECTOR)
    return np.asarray(whole + sum((rest >> bit) & 1 for bit in range(VECTOR.bit_length() - 1)), dtype=np.float64)


def _lookup(operator: EmbeddingLookup, caches: Caches) -> LookupAmounts:
    rows = _rows(operator)
    most = None if operator.cpu is None else operator.cpu.busiest
    read = rows if most is None else most.missed  # as if every thread had the traffic of the busiest
    shared_part = caches.shared_part(rows, operator.output_bytes)
    core, shared = (_share(rows, cache, read) for cache in (caches.core, shared_part))
    fetched = _fetched(rows, operator.row_bytes, 0.0)
    return LookupAmounts(
        call=_any(operator.lookups),
        lookup=operator.lookups if most is None else most.lookups,
        byte=operator.row_bytes * (1.0 if most is None else _share(rows, 0.0, read)),
        core_miss=operator.lookups * core,
        core_miss_byte=fetched * core,
        shared_miss=operator.lookups * shared,
        shared_miss_byte=fetched * shared,
        output_byte=operator.output_bytes,
    )


def _rows(operator: EmbeddingLookup | EmbeddingUpdate) -> Misses | None:
    return None if operator.cpu is None else operator.cpu.rows


def _share(missed: Misses | None, cache: Amount, busiest: Misses | None = None) -> Amount:
    """Fraction of all bytes read that miss a cache, or that would if each thread read as the busiest; 1 for None."""
    if missed is None:
        return 1.0
    return np.asarray((busiest or missed).at(cache)) / np.maximum(missed.at(0.0), 1e-300)


def _update(operator: EmbeddingUpdate, caches: Caches) -> UpdateAmounts:
    gathered = operator.gradient_bytes + operator.repeated_gradient_bytes
    first, again = (_missed(caches.core, size) for size in (operator.gradient_bytes, operator.gradient_block_bytes))
    stateful, sorting = _any(operator.state_bytes), SORTED_BYTES * np.asarray(operator.lookups)
    rows, of_state = _rows(operator), None if operator.cpu is None else operator.cpu.state
    by_cache = (caches.core, caches.shared_part(rows, operator.gradient_bytes))
    core_miss, shared_miss = (
        operator.unique_rows * (_share(rows, cache) + stateful * _share(of_state, cache)) for cache in by_cache
    )
    core_miss_byte, shared_miss_byte = (
        _fetched(rows, operator.weight_bytes, cache) + _fetched(of_state, operator.state_bytes, cache)
        for cache in by_cache
    )
    return UpdateAmounts(
        call=_any(operator.lookups),
        lookup=operator.lookups,
        sorted_shared_miss_byte=sorting * _passed(caches.shared, sorting),
        gathered_byte=gathered,
        gradient_core_miss_byte=operator.gradient_bytes * first + operator.repeated_gradient_bytes * again,
        row=operator.unique_rows,
        state_row=operator.unique_rows * stateful,
        weight_byte=operator.weight_bytes,
        state_weight_byte=operator.weight_bytes * stateful,
        state_byte=operator.state_bytes,
        core_miss=core_miss,
        core_miss_byte=core_miss_byte,
        shared_miss=shared_miss,
        shared_miss_byte=shared_miss_byte,
    )


def _fetched(missed: Misses | None, passed: Amount, cache: Amount) -> Amount:
    """Bytes of lines that come from behind a cache; all that is passed over where that is not known."""
    return passed if missed is None else missed.at(cache)


def _elementwise(operator: Elementwise, caches: Caches) -> PassAmounts | RecatAmounts:
    if operator.access == "recat":
        shifts = _any(operator.read_bytes)
        return RecatAmounts(
            call=1.0,
            shift=shifts,
            index_byte=operator.read_bytes,
            index_core_miss_byte=operator.read_bytes * _passed(caches.core, operator.read_bytes),
            bag_byte=operator.write_bytes,
        )
    moved = _pass_over(operator.read_bytes + operator.write_bytes, caches)
    if operator.access == "columns":
        return ColumnAmounts(**dict(moved.items()), part=operator.parts, piece=operator.pieces)
    return moved


def _optimizer(operator: DenseOptimizer, caches: Caches) -> OptimizerAmounts:
    """One pass where there is no state (3 accesses to each parameter), roots and quotients besides where there is."""
    moved = _pass_over(operator.traffic_bytes, caches)
    stateful = np.asarray(operator.traffic_bytes) > STATELESS_BYTES * np.asarray(operator.parameters)
    without, having = np.where(stateful, 0.0, 1.0), np.where(stateful, 1.0, 0.0)
    return OptimizerAmounts(
        call=moved.call * without,
        byte=moved.byte * without,
        core_miss_byte=moved.core_miss_byte * without,
        shared_miss_byte=moved.shared_miss_byte * without,
        state_call=moved.call * having,
        state_byte=moved.byte * having,
        state_core_miss_byte=moved.core_miss_byte * having,
        state_shared_miss_byte=moved.shared_miss_byte * having,
    )


def _copy(operator: Copy, caches: Caches) -> PassAmounts:
    return _pass_over(2.0 * operator.bytes, caches)


def _gemm_like(operator: Interaction, caches: Caches) -> GemmAmounts:
    """Products of unknown shape: generators give CPUs the shape (`Gemm`)."""
    passed = _pass_over(operator.read_bytes, caches)
    unknown = dict.fromkeys(GemmAmounts.names(), 0.0)
    known = {"core_miss_byte": passed.core_miss_byte, "shared_miss_byte": passed.shared_miss_byte}
    return GemmAmounts(**{**unknown, **known, "flop": operator.flops})


def _host(operator: HostWork, caches: Caches) -> HostAmounts:
    """Launches, and those for which the framework's code and data come from memory: a kernel took their place."""
    evicted = -np.expm1(-np.asarray(operator.after_bytes) / (EVICTING * caches.core))
    return HostAmounts(
        launch=operator.launches,
        cold_launch=operator.launches * evicted,
        collective=operator.collectives,
        issue=operator.collectives,
        issue_byte=operator.copied_bytes,
    )


def _nothing(operator: Marker | Ingest, caches: Caches) -> KernelAmounts:  # noqa: ARG001 - one signature for all
    return KernelAmounts()


def _pass_over(moved: Amount, caches: Caches) -> PassAmounts:
    core, shared = _passed(caches.core, moved), _passed(caches.shared, moved)
    return PassAmounts(call=_any(moved), byte=moved, core_miss_byte=moved * core, shared_miss_byte=moved * shared)


def _passed(cache: float, moved: Amount) -> Amount:
    """Share of a pass over memory that misses a cache: the part that does not fit, none below half its size."""
    return np.clip(2.0 * (np.asarray(moved) / cache - 0.5), 0.0, 1.0)


def _any(count: Amount) -> Amount:
    """1 where there is something to do."""
    return np.where(np.asarray(count) > 0.0, 1.0, 0.0)


_CLASSES: dict[type, KernelClass] = {
    Gemm: "gemm",
    Interaction: "gemm",
    EmbeddingLookup: "lookup",
    EmbeddingUpdate: "update",
    DenseOptimizer: "optimizer",
    Copy: "stream",
    HostWork: "host",
}

_AMOUNTS: dict[type, Callable[[Any, Caches], KernelAmounts]] = {
    Gemm: _gemm,
    EmbeddingLookup: _lookup,
    EmbeddingUpdate: _update,
    Interaction: _gemm_like,
    Elementwise: _elementwise,
    DenseOptimizer: _optimizer,
    Copy: _copy,
    HostWork: _host,
    Marker: _nothing,
    Ingest: _nothing,
}

"""Time of a matrix product by its shape: tiles, waves, split-K.

A GEMM library cuts the product into tiles of tm x tn, one for each streaming multiprocessor (SM) at a time, so that it
takes whole waves of them. A tile takes its arithmetic, at the fraction f of the peak, or the loading of its operands,
whichever is longer; b is the edge of the square tile whose operands are loaded as fast as the peak computes:

    waves = ceil(ceil(m / tm) ceil(n / tn) count splits / SMs)
    tile  = max(2 tm tn / f, (tm + tn) b) x k' / (peak / SMs),   k' = k / splits
    time  = start + max(waves x tile, bytes / memory rate) [+ start + partial sums / memory rate, when split]

taking the fastest of the tiles and splits, as the libraries' heuristics try to. Splits divide k among several tiles
that a second kernel adds up (partitioned split-K, cutlass ``efficient_gemm.md``). On tensor cores tiles of rows that do
not start at multiples of 16 bytes run at a fraction of that rate, because they are loaded element by element.
A product with a single row, column or step is a streaming kernel: kernel start + bytes / memory rate.
The constants are fitted by ``dlrmsim calibrate kernels``; docs/reference/compute.md has errors by GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simulator.operators import Amount, FloatArray, Gemm
from simulator.precisions import BYTES_PER_ELEMENT

IntArray: TypeAlias = NDArray[np.int64]

TILES = np.array([
    (256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64),
    (128, 32), (32, 128), (64, 32), (32, 64), (32, 32),
], dtype=np.float64)  # fmt: skip
"""Rows and columns of the tiles tried, elements ``[13, 2]``: the sizes in names of cuBLAS kernels on V100 and A100."""

SPLITS = np.array([1, 2, 3, 4, 6, 8, 12, 16, 32, 64], dtype=np.float64)
"""Numbers of parts that k may be divided into, ``[10]``."""

SHORTEST_SPLIT = 64.0
"""A part of k is not shorter than this (two steps of a kernel's main loop)."""

ALIGNMENT_BYTES = 16
"""Rows that start at multiples of this are loaded by whole vectors (cuBLAS, ``tensor core usage``)."""

PARTIAL_SUM_BYTES = 4.0
"""Partial sums of a split are fp32."""

RESULT_BYTES = 2
"""Smallest size of a result element, bytes: products of 8-bit numbers are stored in 16 bits."""

FEW_SHAPES = 8
"""Largest number of shapes of ranks that are computed one by one, and kept."""

CUDA_CORES = ("fp32", "fp64")
"""Precisions without tensor cores in this model: loaded element by element anyhow."""


@dataclass(frozen=True, slots=True)
class GemmRates:
    """Rates that a GPU reaches in one precision.

    Attributes:
        peak_flops_per_s: peak of all SMs.
        fraction: fraction of the peak that the best tile reaches.
        balanced_tile: edge of the square tile that is loaded as fast as the peak computes, elements.
        memory_bytes_per_s: rate of operands and results where reading and writing them takes longest.
        start_s: start of a kernel: launch, first loads, last stores.
        vector_start_s: start of a kernel for a product with a vector.
        unaligned: multiplies the rate of tiles when rows are unaligned.
        sms: streaming multiprocessors.
        element_bytes: size of an element of operands and result.
        aligned_elements: rows that start at a multiple of this are aligned; 1: all are.
    """

    peak_flops_per_s: float
    fraction: float
    balanced_tile: float
    memory_bytes_per_s: float
    start_s: float
    vector_start_s: float
    unaligned: float
    sms: int
    element_bytes: int
    aligned_elements: int


def aligned_elements(precision: str) -> int:
    """Elements that a row starts at a multiple of to be aligned."""
    return 1 if precision in CUDA_CORES else ALIGNMENT_BYTES // BYTES_PER_ELEMENT[precision]


def gemm_amounts(gemm: Gemm) -> tuple[Amount, Amount]:
    """Floating point operations, and bytes read and written when each element moves once."""
    m, n, k = gemm.m, gemm.n, gemm.k
    elements = gemm.count * (m * k + k * n + m * n)
    return 2.0 * m * n * k * gemm.count, elements * BYTES_PER_ELEMENT[gemm.precision]


def gemm_s(gemm: Gemm, rates: GemmRates) -> Amount:
    """Seconds of a GEMM: a scalar, or ``[P]``; 0 where there is nothing to compute."""
    row = gemm.m if gemm.transposed else gemm.k
    sizes = (gemm.m, gemm.n, gemm.k, gemm.count, row)
    if all(np.ndim(size) == 0 for size in sizes):
        return _one_s(tuple(float(size) for size in sizes), rates)
    table = np.stack(np.broadcast_arrays(*sizes), axis=1).astype(np.float64)
    first, place = _distinct([np.asarray(size) for size in sizes if np.ndim(size)])
    if len(first) > FEW_SHAPES:
        return _each_s(table[first], rates)[place]
    return np.array([_one_s(tuple(shape), rates) for shape in table[first].tolist()])[place]


def _distinct(columns: Sequence[NDArray[Any]]) -> tuple[IntArray, IntArray]:
    """The first row of each kind of equal rows, and the kind of each row ``[P]``; column by column, which is quick."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values, place = np.unique(column, return_inverse=True)
        code = code * len(values) + place
    _, first, kind = np.unique(code, return_index=True, return_inverse=True)
    return first, kind


@lru_cache(maxsize=65536)
def _one_s(sizes: Sequence[float], rates: GemmRates) -> float:
    """Seconds of one shape, kept: layers of a model come again and again."""
    return float(_each_s(np.array([sizes]), rates)[0])


def _each_s(sizes: FloatArray, rates: GemmRates) -> FloatArray:
    """Seconds of products by m, n, k, count and the elements of a row ``[K, 5]``; ``[K]``."""
    m, n, k, count, row = (column[:, None, None] for column in sizes.T)
    traffic = rates.element_bytes * (m * k + k * n) + max(rates.element_bytes, RESULT_BYTES) * m * n
    memory_s = count * traffic / rates.memory_bytes_per_s
    unaligned = (n % rates.aligned_elements != 0) | (row % rates.aligned_elements != 0)
    flops_per_s = rates.peak_flops_per_s / rates.sms * np.where(unaligned, rates.unaligned, 1.0)
    rows, columns = TILES[:, 0, None], TILES[:, 1, None]
    waves = np.ceil(np.ceil(m / rows) * np.ceil(n / columns) * count * SPLITS / rates.sms)
    step_flops = np.maximum(2.0 * rows * columns / rates.fraction, (rows + columns) * rates.balanced_tile)
    tiles_s = waves * step_flops * (k / SPLITS) / flops_per_s
    whole_s = np.maximum(tiles_s, memory_s) + _added_s(m * n * count, rates)
    allowed = (k / SPLITS >= SHORTEST_SPLIT) | (SPLITS == 1)
    tiled_s = np.where(allowed, whole_s, np.inf).min(axis=(1, 2)) + rates.start_s
    vector_s = rates.vector_start_s + memory_s[:, 0, 0]
    found = np.where((sizes[:, :3] == 1.0).any(axis=1), vector_s, tiled_s)
    return np.where((sizes[:, :4] == 0.0).any(axis=1), 0.0, found)


def _added_s(outputs: FloatArray, rates: GemmRates) -> FloatArray:
    """Cost of adding up the parts: a kernel that reads the partial sums, written before, and writes the result."""
    traffic = PARTIAL_SUM_BYTES * outputs * (SPLITS + 1.0)
    return np.where(SPLITS > 1, rates.start_s + traffic / rates.memory_bytes_per_s, 0.0)

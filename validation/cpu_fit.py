"""Fitting a CPU's kernel costs to micro-benchmarks of it.

Every row is an operator and a time; the costs are the non-negative numbers by which the operator's amounts
(`simulator.compute.cpu`) add up to the time. Minimised are relative errors, with a loss that grows linearly beyond
10 %, so that a few rows that were disturbed do not bend the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardware_specs.cpu_kernels import KernelClass, KernelCosts
from simulator.compute.cpu import Caches, amounts_of, class_of
from simulator.operators import (
    DenseOptimizer,
    Elementwise,
    EmbeddingLookup,
    EmbeddingUpdate,
    FloatArray,
    Gemm,
    Operator,
)
from workloads.reuse import distinct_rows

Row = Mapping[str, Any]
LINEAR_BEYOND = 0.1
SAME_PLACE = 1e-4
"""Costs that change no row's time by more than this part are left out."""


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A timed kernel: what it does, its time in each round, and the median of these."""

    operator: Operator
    rounds_s: tuple[float, ...]

    @property
    def seconds(self) -> float:
        """The median over rounds."""
        return float(np.median(self.rounds_s))

    @property
    def noise(self) -> float:
        """Half the spread of the middle half of the rounds, over their median."""
        low, high = np.quantile(self.rounds_s, [0.25, 0.75])
        return float(high - low) / 2 / self.seconds

    @staticmethod
    def of(row: Row) -> KernelRow:
        """A row as `trainer.microbench` writes it."""
        return KernelRow(_OPERATORS[row["kind"]](row), tuple(row["times_s"]))


def fit_costs(rows: Sequence[KernelRow], caches: Caches) -> dict[KernelClass, KernelCosts]:
    """Costs of every kind of kernel among the rows."""
    kinds: dict[KernelClass, list[KernelRow]] = {}
    for row in rows:
        kind = class_of(row.operator)
        if kind is not None:
            kinds.setdefault(kind, []).append(row)
    return {kind: _fit(of_kind, caches) for kind, of_kind in kinds.items()}


def _fit(rows: Sequence[KernelRow], caches: Caches) -> KernelCosts:
    amounts = [amounts_of(row.operator, caches) for row in rows]
    names = list(amounts[0])
    matrix = np.array([[float(found[name]) for name in names] for found in amounts])
    seconds = np.array([row.seconds for row in rows])
    costs = nonnegative(matrix, seconds)
    off = 100.0 * (matrix @ costs / seconds - 1.0)
    kept = {
        name: f"{float(f'{cost:.5g}')!r} s"
        for name, cost, column in zip(names, costs, matrix.T, strict=True)
        if np.max(column * cost / seconds) > SAME_PLACE
    }
    return KernelCosts.model_validate(
        {
            "seconds_per": kept,
            "rows": len(rows),
            "median_error_pct": round(float(np.median(np.abs(off))), 2),
            "worst_error_pct": round(float(off[np.argmax(np.abs(off))]), 1),
            "noise_pct": round(100.0 * float(np.median([row.noise for row in rows])), 2),
        }
    )


def nonnegative(matrix: FloatArray, seconds: FloatArray) -> FloatArray:
    """Costs ``[A]``, none negative, for which ``matrix @ costs`` is near ``seconds`` ``[R]`` in relation to it."""
    from scipy.optimize import nnls

    relative = matrix / seconds[:, None]
    scale = np.maximum(np.abs(relative).max(axis=0), 1e-300)
    weight = np.ones(len(seconds))
    costs = np.zeros(matrix.shape[1])
    for _ in range(20):  # reweighted: beyond LINEAR_BEYOND an error counts by its size, not by its square
        costs = nnls(relative / scale * weight[:, None], weight)[0]
        off = np.abs(relative / scale @ costs - 1.0)
        weight = np.sqrt(np.minimum(1.0, LINEAR_BEYOND / np.maximum(off, 1e-12)))
    fitted: FloatArray = costs / scale
    return fitted


def _gemm(row: Row) -> Operator:
    return Gemm(row["m"], row["n"], row["k"], "fp32", transposed=bool(row["transposed"]))


def _lookup(row: Row) -> Operator:
    row_bytes = 4.0 * row["dim"]
    return EmbeddingLookup(
        lookups=row["lookups"],
        row_bytes=row["lookups"] * row_bytes,
        output_bytes=row["bags"] * row_bytes,
        index_bytes=8.0 * row["lookups"] + 4.0 * row["bags"],
        tables=1.0,
        resident_bytes=row["rows"] * row_bytes,
    )


def _update(row: Row) -> Operator:
    row_bytes, lookups = 4.0 * row["dim"], float(row["lookups"])
    distinct = _distinct(row)
    gradients = min(row["bags"], lookups) * row_bytes
    return EmbeddingUpdate(
        lookups=lookups,
        unique_rows=distinct,
        gradient_bytes=gradients,
        weight_bytes=2.0 * distinct * row_bytes,
        state_bytes=2.0 * distinct * 4.0 * row["state"],
        sort_bytes=0.0,
        tables=1.0,
        repeated_gradient_bytes=lookups * row_bytes - gradients,
        gradient_block_bytes=gradients,
        resident_bytes=row["rows"] * (row_bytes + 4.0 * row["state"]),
    )


def _distinct(row: Row) -> float:
    """Rows that the lookups of a case touch, which are the same in every call."""
    return float(distinct_rows(np.array([float(row["rows"])]), np.array([float(row["lookups"])]), 1.0, None)[0])


def _stream(row: Row) -> Operator:
    return Elementwise(row["read_bytes"], row["write_bytes"])


def _columns(row: Row) -> Operator:
    return Elementwise(row["bytes"], row["bytes"], access="columns", pieces=row["pieces"])


def _transpose(row: Row) -> Operator:
    return Elementwise(2 * row["bytes"], row["bytes"], access="transpose")


def _gather(row: Row) -> Operator:
    return Elementwise(row["read_bytes"], row["write_bytes"], access="gather")


def _scatter(row: Row) -> Operator:
    return Elementwise(row["read_bytes"], row["write_bytes"], access="scatter")


def _batched(row: Row) -> Operator:
    return Gemm(row["m"], row["n"], row["k"], "fp32", count=row["count"], transposed=bool(row["transposed"]))


def _bucketize(row: Row) -> Operator:
    return Elementwise(2 * row["bytes"], row["bytes"], access="bucketize")


def _recat(row: Row) -> Operator:
    return Elementwise(row["index_bytes"], row["length_bytes"], access="recat")


def _optimizer(row: Row) -> Operator:
    return DenseOptimizer(row["parameters"], row["traffic_bytes"])


_OPERATORS: dict[str, Callable[[Row], Operator]] = {
    "gemm": _gemm,
    "lookup": _lookup,
    "update": _update,
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
"""Operators of the cases of `trainer.kernel_cases`, as the generator (`workloads`) would count them."""
KERNELS = tuple(_OPERATORS)

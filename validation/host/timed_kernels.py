"""Kernels timed alone (`trainer.bench.microbench`) as operators of the simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.operators import (
    SORTED_BYTES,
    CpuTraffic,
    DenseOptimizer,
    Elementwise,
    EmbeddingLookup,
    EmbeddingUpdate,
    Gemm,
    Misses,
)
from simulator.work import Operator
from workloads.dlrm.laws.popularity import uniform
from workloads.dlrm.rows.retention import CACHE_BYTES, Touched, kept_back, reach

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A kernel timed alone: its operator, and its time in each round, seconds."""

    operator: Operator
    rounds_s: tuple[float, ...]

    @property
    def seconds(self) -> float:
        """Median over the rounds, seconds."""
        return float(np.median(self.rounds_s))

    @property
    def noise(self) -> float:
        """Half the interquartile range of the rounds over their median."""
        low, high = np.quantile(self.rounds_s, [0.25, 0.75])
        return float(high - low) / 2 / self.seconds

    @staticmethod
    def of(row: Row) -> KernelRow:
        """The kernel of a row that `trainer.bench.microbench` wrote."""
        return KernelRow(_OPERATORS[row["kind"]](row), tuple(row["times_s"]))


def _lookup(row: Row) -> Operator:
    touched = _touched(row)
    output_bytes = row["bags"] * touched.row_bytes
    back = kept_back(reach([touched], row["evicted_bytes"] + output_bytes))
    return EmbeddingLookup(
        lookups=row["lookups"],
        row_bytes=row["lookups"] * touched.row_bytes,
        output_bytes=output_bytes,
        index_bytes=8.0 * row["lookups"] + 4.0 * row["bags"],
        tables=1.0,
        cpu=CpuTraffic(Misses(CACHE_BYTES, touched.missed_bytes(back))),
    )


def _update(row: Row) -> Operator:
    """An update of rows that no lookup has touched, different rows in each call."""
    touched, lookups = _touched(row), float(row["lookups"])
    gradients = min(row["bags"], lookups) * touched.row_bytes
    back = kept_back(reach([touched], row["evicted_bytes"] + gradients + SORTED_BYTES * lookups))
    distinct = float(touched.distinct(1.0))
    rows, state = (
        Misses(CACHE_BYTES, 2.0 * touched.fetched_bytes(size, touched.new_bytes(size, back)))
        for size in (touched.row_bytes, touched.state_bytes)
    )
    return EmbeddingUpdate(
        lookups=lookups,
        unique_rows=distinct,
        gradient_bytes=gradients,
        weight_bytes=2.0 * distinct * touched.row_bytes,
        state_bytes=2.0 * distinct * touched.state_bytes,
        sort_bytes=0.0,
        tables=1.0,
        repeated_gradient_bytes=lookups * touched.row_bytes - gradients,
        gradient_block_bytes=gradients,
        cpu=CpuTraffic(rows, state),
    )


def _touched(row: Row) -> Touched:
    """Rows of a case's table; each call draws its own uniformly."""
    return Touched(uniform(int(row["rows"])), 1.0, float(row["lookups"]), 4.0 * row["dim"], 4.0 * row.get("state", 0))


_OPERATORS: dict[str, Callable[[Row], Operator]] = {
    "gemm": lambda row: Gemm(row["m"], row["n"], row["k"], "fp32", transposed=bool(row["transposed"])),
    "lookup": _lookup,
    "update": _update,
    "stream": lambda row: Elementwise(row["read_bytes"], row["write_bytes"]),
    "columns": lambda row: Elementwise(
        row["bytes"], row["bytes"], access="columns", pieces=row["pieces"], parts=row["parts"]
    ),
    "transpose": lambda row: Elementwise(2 * row["bytes"], row["bytes"], access="transpose"),
    "gather": lambda row: Elementwise(row["read_bytes"], row["write_bytes"], access="gather"),
    "scatter": lambda row: Elementwise(row["read_bytes"], row["write_bytes"], access="scatter"),
    "batched": lambda row: Gemm(
        row["m"], row["n"], row["k"], "fp32", count=row["count"], transposed=bool(row["transposed"])
    ),
    "bucketize": lambda row: Elementwise(2 * row["bytes"], row["bytes"], access="bucketize"),
    "recat": lambda row: Elementwise(row["index_bytes"], row["length_bytes"], access="recat"),
    "optimizer": lambda row: DenseOptimizer(row["parameters"], row["traffic_bytes"]),
}
"""Operators of the cases of `trainer.bench.cases`, with the amounts that the generator (`workloads`) counts."""
KERNELS = tuple(_OPERATORS)

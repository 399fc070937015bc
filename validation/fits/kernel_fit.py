"""Fitting the rates of a GPU's kernels to kernels that were timed on it.

Only constants that the rows determine are fitted: elementwise kernels give the stream fraction and the start of a
kernel, GEMMs their fraction of the peak, the feed of their operands, their start and what is left without alignment,
lookups the embedding rate. The search starts from round values, the same for every GPU, independent of its spec; a
constant is drawn to its start with a weight too small to matter where rows depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from hardware_specs.bounds import Latency, Ratio, Share, limits
from hardware_specs.loader import load_cluster
from hardware_specs.processors import AchievedRates, Gpu
from hardware_specs.types import Node
from inputs.errors import InputError
from inputs.sourced import Sourced
from scenarios.progress import Progress, Silent
from simulator.compute import GpuModel
from simulator.operators import FloatArray
from simulator.work import Operator
from validation.fits.least_squares import fitted_logs
from validation.suites.errors import error_pct
from validation.suites.kernel_rows import MeasuredKernel

SHARES = (
    "stream_fraction", "gemm_fraction", "gemm_memory_fraction", "gemm_unaligned_fraction", "embedding_fraction",
)  # fmt: skip
"""Constants that are at most 1."""

_GEMM = (
    "gemm_fraction", "gemm_balanced_tile", "gemm_memory_fraction", "gemm_start_s", "gemm_unaligned_fraction",
)  # fmt: skip
STEPS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("elementwise",), ("stream_fraction", "kernel_floor_s")),
    (("gemm",), _GEMM),
    (("lookup",), ("embedding_fraction",)),
)
"""Kinds of rows, and the constants they give, in the order of fitting."""

START = {
    "stream_fraction": 0.85, "kernel_floor_s": 3e-6, "gemm_fraction": 0.8, "gemm_balanced_tile": 128.0,
    "gemm_memory_fraction": 0.6, "gemm_start_s": 5e-6, "gemm_unaligned_fraction": 0.5,
    "embedding_fraction": 0.85,
}  # fmt: skip
EDGES = (1.0, 0.5, 2.0)
"""Factors on the balanced tile to start from; the best end is taken."""


@dataclass(frozen=True, slots=True)
class TimedKernel:
    """A kernel that was timed: its kind, a key of `STEPS`, its operator and its time."""

    kind: str
    operator: Operator
    time_s: float


Kernel: TypeAlias = TimedKernel | MeasuredKernel


@dataclass(frozen=True, slots=True)
class KernelFit:
    """Result of the fit.

    Attributes:
        gpu: the GPU with the constants found.
        fitted: their names.
    """

    gpu: Gpu
    fitted: tuple[str, ...]

    def error_pct(self, rows: Sequence[Kernel]) -> list[float]:
        """100 (predicted / measured - 1) of each row."""
        pairs = zip(predicted_s(self.gpu, rows).tolist(), rows, strict=True)
        return [error for seconds, row in pairs if (error := error_pct(seconds, row.time_s)) is not None]


def predicted_s(gpu: Gpu, rows: Sequence[Kernel]) -> FloatArray:
    """Seconds of each row on a GPU ``[R]``.

    Raises:
        InputError: the GPU does not compute in a row's precision.
    """
    model = GpuModel(gpu, _any_host(), launch_s=0.0)
    return np.array([model.duration_s(row.operator) for row in rows], dtype=np.float64)


def fit_kernels(gpu: Gpu, rows: Sequence[Kernel], note: str, progress: Progress | None = None) -> KernelFit:
    """The constants that fit ``rows`` best.

    Args:
        gpu: start of the fit.
        rows: measurements on it.
        note: method of the fit, for the ``source`` of every value.
        progress: shows the number of predictions of the rows.

    Raises:
        InputError: there are no rows, or the GPU does not compute in the precision of one.
    """
    if not rows:
        raise InputError("nothing to fit", expected="at least one measured kernel")
    shown, fitted = progress or Silent(), []
    for kinds, names in STEPS:
        used = [row for row in rows if row.kind in kinds]
        fittable = [name for name in names if name != "gemm_unaligned_fraction" or _depends_on_alignment(gpu, used)]
        if used:
            gpu = _fit(gpu, used, fittable, note, shown)
            fitted += fittable
    return KernelFit(gpu, tuple(fitted))


def _fit(gpu: Gpu, rows: Sequence[Kernel], names: Sequence[str], note: str, shown: Progress) -> Gpu:
    measured = np.log([row.time_s for row in rows])
    start = np.log([START[name] for name in names])
    shares = np.array([name in SHARES for name in names])

    def errors(logs: FloatArray) -> FloatArray:
        off: FloatArray = np.log(predicted_s(_with(gpu, names, np.exp(logs)), rows)) - measured
        return off

    edged = np.array([name == "gemm_balanced_tile" for name in names])
    least, most = np.array([limits(_kind(name)) for name in names]).T
    ends = [
        fitted_logs(
            errors,
            start,
            first=start + np.where(edged, np.log(edge), 0.0),
            highest=np.where(shares, 0.0, np.inf),
            within=(least, most),
            on_evaluation=lambda number: shown.stage(f"fitting {len(rows)} {rows[0].kind} rows, evaluation {number}"),
        )
        for edge in (EDGES if edged.any() else EDGES[:1])
    ]
    best = min(ends, key=lambda end: end.cost)
    off = np.abs(100.0 * np.expm1(errors(best.logs)))
    spread = f"{note}; median error {np.median(off):.1f} %, worst {off.max():.0f} %, of {len(rows)} rows"
    return _with(gpu, names, np.exp(best.logs), spread)


def _kind(name: str) -> Any:
    """Quantity of a constant."""
    return Share if name in SHARES else Latency if name.endswith("_s") else Ratio


def _with(gpu: Gpu, names: Sequence[str], values: FloatArray, note: str = "trial") -> Gpu:
    source, _, how = note.partition("; ")
    new = {
        name: Sourced[float](value=float(value), source=source, grade="derived", note=how or "a fit")
        for name, value in zip(names, values, strict=True)
    }
    return gpu.model_copy(update={"achieved": AchievedRates.model_construct(**{**dict(gpu.achieved), **new})})


def _depends_on_alignment(gpu: Gpu, rows: Sequence[Kernel]) -> bool:
    """Whether any time depends on the cost of unaligned rows."""
    halved = _with(gpu, ["gemm_unaligned_fraction"], np.array([gpu.achieved.gemm_unaligned_fraction.value / 2]))
    return bool(np.any(predicted_s(halved, rows) != predicted_s(gpu, rows)))


@cache
def _any_host() -> Node:
    """The kernels fitted here do not touch their host, so that any node will do."""
    return load_cluster("zionex").node

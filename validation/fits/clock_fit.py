"""Fitting the clock that a GPU keeps in training to the calibration cases of suites.

Benchmarks time a kernel alone. In training kernels follow each other for minutes, the chip is at its power limit, and
collectives take some of its multiprocessors: tensor cores reach a fraction of that rate
(`hardware_specs.processors.AchievedRates.sustained_fraction`). One number for each GPU is fitted, by least squares of
logarithms of iteration times with a loss that grows linearly beyond 5 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from hardware_specs.processors import Gpu
from inputs.sourced import Sourced
from scenarios.mapping import Keep, keep_nothing
from scenarios.progress import Progress, Silent
from validation.fits.framework_fit import LINEAR_BEYOND, Configuration, configurations_of

LEAST = 0.2
"""Lowest fraction that is tried."""

TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class ClockFit:
    """A GPU with the fraction found, and the errors of the cases.

    Attributes:
        errors_pct: 100 (predicted / measured iteration time - 1) of each case.
    """

    gpu: Gpu
    fraction: float
    errors_pct: Sequence[float]


def clock_cases(gpu: str, suites: Sequence[str]) -> list[Configuration]:
    """The configurations of the suites' calibration cases on a GPU; raises as `configurations_of`."""
    return configurations_of(suites, lambda job: job.cluster.node.processor_name == gpu, f"GPU {gpu}")


def fit_clock(
    gpu: Gpu, cases: Sequence[Configuration], source: str, progress: Progress | None = None, keep: Keep = keep_nothing
) -> ClockFit:
    """The fraction of the rate of kernels timed alone with which a GPU meets the cases best.

    Args:
        source: command that fits, for the ``source`` of the value.
        keep: keeps the iteration times of every evaluation: the same search goes on from there.
    """
    from scipy.optimize import minimize_scalar

    shown, evaluations = progress or Silent(), count(1)
    measured = [np.array(case.measured_s) for case in cases]

    def errors(fraction: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        shown.stage(f"fitting {len(cases)} configurations, evaluation {next(evaluations)}")
        trial = with_fraction(gpu, fraction, "a trial", "a trial")
        question = "\n".join([trial.model_dump_json(), *(case.hash for case in cases)])
        times_s = keep(question, lambda: [case.with_gpu_s(trial) for case in cases])
        return np.concatenate([np.log(seconds / known) for seconds, known in zip(times_s, measured, strict=True)])

    def loss(fraction: float) -> float:
        return float(np.sum(np.sqrt(1.0 + (errors(fraction) / LINEAR_BEYOND) ** 2)))

    found = minimize_scalar(loss, bounds=(LEAST, 1.0), method="bounded", options={"xatol": TOLERANCE})
    best = min((1.0, float(f"{found.x:.3g}")), key=loss)
    off = 100.0 * np.expm1(errors(best))
    note = f"median error {np.median(np.abs(off)):.1f} %, worst {np.abs(off).max():.0f} %, of {len(off)} cases"
    return ClockFit(with_fraction(gpu, best, source, note), best, off.tolist())


def with_fraction(gpu: Gpu, fraction: float, source: str, note: str) -> Gpu:
    """The GPU with another fraction."""
    value = Sourced[float](value=fraction, source=source, grade="derived", note=note)
    return gpu.model_copy(update={"achieved": gpu.achieved.model_copy(update={"sustained_fraction": value})})

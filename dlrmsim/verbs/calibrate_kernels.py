"""``calibrate_kernels``: fit a GPU's achieved rates to measured kernels and write a GPU spec."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from dlrmsim.output.folders import file_written_whole
from dlrmsim.verbs.what import Name
from hardware_specs.loader import load_gpu
from scenarios.located import of_file
from scenarios.progress import Progress, Silent
from validation.fits.kernel_fit import KernelFit, fit_kernels, predicted_s
from validation.fits.rules import rows_to_fit
from validation.fits.spec_text import gpu_text
from validation.suites.errors import KernelErrors, statistics
from validation.suites.kernel_rows import MeasuredKernel, kernel_rows


@dataclass(frozen=True, slots=True)
class FittedKernel:
    """A measured kernel and its time after the fit.

    Attributes:
        what: the kernel in words.
        kind: ``gemm``, ``lookup``...
        role: ``calibration`` (fitted on) or ``validation`` (left out by the rule).
        source: origin of the row.
    """

    what: str
    kind: str
    role: str
    source: str
    measured_s: float
    predicted_s: float
    error_pct: float


@dataclass(frozen=True, slots=True)
class CalibrateKernelsResult:
    """A fit and its errors.

    Attributes:
        file: the spec that was written.
        fit: the constants.
        cases: a kernel each.
        groups: statistics of the errors, by role, kind and source.
    """

    file: Path
    fit: KernelFit
    cases: Sequence[FittedKernel]
    groups: Sequence[KernelErrors]


def calibrate_kernels(
    what: Name, *, gpu: Name, rule: str | None = None, out: Name, progress: Progress | None = None
) -> CalibrateKernelsResult:
    """Fit a GPU's achieved rates to measured kernels and write the spec.

    Args:
        what: CSV of kernels, or the name of a shipped table (`validation.suites.kernel_rows`).
        gpu: the GPU that the fit starts from.
        rule: rows to fit on, such as ``kind == gemm``; the others are predicted. All by default.
        out: YAML file to write; the GPU is named after it.

    Raises:
        InputError: the table, the rule or the GPU is wrong, or ``out`` cannot be written.
    """
    shown, file = progress or Silent(), Path(out)
    shown.stage("reading the measurements")
    start, measured = load_gpu(gpu), kernel_rows(str(what))
    used = rows_to_fit(measured, rule)
    words = ["dlrmsim", "calibrate", "kernels", str(what), "--gpu", str(gpu), *(["--rule", rule] if rule else [])]
    with of_file(gpu):
        fit = fit_kernels(start, used, shlex.join(words), shown)
    cases = _cases(fit, measured, used)
    file_written_whole(file, gpu_text(gpu, file.stem, fit.gpu, fit.fitted))
    return CalibrateKernelsResult(file, fit, cases, _groups(cases))


def _cases(fit: KernelFit, measured: Sequence[MeasuredKernel], used: Sequence[MeasuredKernel]) -> list[FittedKernel]:
    return [
        FittedKernel(
            what=str(row),
            kind=row.kind,
            role="calibration" if any(row is one for one in used) else "validation",
            source=str(row.inputs["source"]),
            measured_s=row.time_s,
            predicted_s=seconds,
            error_pct=100.0 * (seconds / row.time_s - 1.0),
        )
        for row, seconds in zip(measured, predicted_s(fit.gpu, measured).tolist(), strict=True)
    ]


def _groups(cases: Sequence[FittedKernel]) -> list[KernelErrors]:
    place = attrgetter("role", "kind", "source")
    return [
        KernelErrors(role=role, kind=kind, source=source, cases=len(errors), **statistics(errors))
        for (role, kind, source), group in groupby(sorted(cases, key=place), key=place)
        for errors in [[case.error_pct for case in group]]
    ]

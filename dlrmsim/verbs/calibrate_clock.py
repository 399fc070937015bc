"""``calibrate_clock``: fit the clock that a GPU keeps in training to the calibration cases of suites."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dlrmsim.output.folders import file_written_whole, require_file_writable
from dlrmsim.output.kept import kept_results
from dlrmsim.verbs.what import Name, Names, names_of
from hardware_specs.loader import load_gpu
from scenarios.progress import Progress, Silent
from validation.fits.clock_fit import clock_cases, fit_clock
from validation.fits.spec_text import gpu_text


@dataclass(frozen=True, slots=True)
class CalibrateClockResult:
    """A fit.

    Attributes:
        file: the GPU that was written.
        fraction: rate of tensor cores in training over that of kernels timed alone.
        errors_pct: 100 (predicted / measured iteration time - 1) of each case.
        taken_over: number of evaluations that an interrupted run had made.
    """

    file: Path
    fraction: float
    errors_pct: Sequence[float]
    taken_over: int = 0


def calibrate_clock(
    what: Names, *, gpu: Name, out: Name, fresh: bool = False, progress: Progress | None = None
) -> CalibrateClockResult:
    """Fit `AchievedRates.sustained_fraction` of a GPU to the calibration cases of suites on it, and write the GPU.

    Evaluations are kept until then (`dlrmsim.output.kept`): an interrupted fit goes on with them.

    Args:
        what: suites to fit to.
        gpu: the GPU, of the name that the cases' clusters have.
        out: YAML file to write; the GPU is named after it.
        fresh: whether to make evaluations again that an interrupted run had made.

    Raises:
        InputError: the GPU or a suite is wrong, there is no case, or ``out`` cannot be written.
    """
    shown, file, named = progress or Silent(), Path(out), list(map(str, names_of(what)))
    shown.stage("reading the suites")
    start = load_gpu(gpu)
    require_file_writable(file)
    source = shlex.join(["dlrmsim", "calibrate", "clock", *named, "--gpu", str(gpu)])
    with kept_results(file, fresh=fresh) as kept:
        fit = fit_clock(start, clock_cases(start.name, named), source, kept.shown(shown), kept)
        file_written_whole(file, gpu_text(gpu, file.stem, fit.gpu, ["sustained_fraction"]))
    return CalibrateClockResult(file, fit.fraction, fit.errors_pct, kept.taken_over)

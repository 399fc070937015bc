"""``calibrate_frameworks``: fit constants of a framework profile to the calibration cases of suites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from dlrmsim.output.folders import file_written_whole, require_file_writable
from dlrmsim.output.kept import kept_results
from dlrmsim.verbs.what import Name, Names, names_of
from inputs.errors import InputError, nearest_name
from scenarios.progress import Progress, Silent
from validation.fits.framework_fit import Configuration, FittedConstants, calibration_of, fit_framework
from validation.fits.spec_text import with_constants, with_entry
from workloads.catalogs import FRAMEWORKS
from workloads.graph.framework import Constant, load_framework

MOST_CONSTANTS = 4


@dataclass(frozen=True, slots=True)
class CalibrateFrameworksResult:
    """A fit.

    Attributes:
        file: the profile that was written.
        taken_over: number of evaluations that an interrupted run had made.
    """

    file: Path
    fitted: FittedConstants
    taken_over: int = 0


def calibrate_frameworks(
    what: Name,
    *,
    suites: Names = (),
    constants: Sequence[str] = (),
    out: Name,
    fresh: bool = False,
    progress: Progress | None = None,
) -> CalibrateFrameworksResult:
    """Fit constants of a profile to the calibration cases of suites that use it, and write the profile.

    Evaluations are kept until then (`dlrmsim.output.kept`): an interrupted fit goes on with them.

    Args:
        suites: suites to fit to; by default those that the profile names in its ``fit``.
        constants: constants to fit; by default those that its ``fit`` names.
        out: YAML file to write: the profile's own text with the fitted values in it.
        fresh: whether to make evaluations again that an interrupted run had made.

    Raises:
        InputError: the profile or a suite is wrong, there is nothing to fit, or ``out`` cannot be written.
    """
    text, profile, file = FRAMEWORKS.find(what).read_text(encoding="utf-8"), load_framework(what), Path(out)
    chosen = _constants(constants or (profile.fit.constants if profile.fit else ()))
    named = tuple(map(str, names_of(suites))) or (profile.fit.suites if profile.fit else ())
    if not named:
        raise InputError("no suite to fit to", file="--suite", expected="a suite, or a profile whose fit names some")
    shown = progress or Silent()
    shown.stage("reading the suites")
    require_file_writable(file)
    with kept_results(file, fresh=fresh) as kept:
        cases = calibration_of(profile.name, named)
        fitted = fit_framework(chosen, cases, kept.shown(shown), kept)
        text = with_constants(text, f"dlrmsim calibrate framework {profile.name}: {', '.join(named)}", fitted)
        file_written_whole(file, with_entry(text, "fit", _fit_entry(fitted, named, cases)))
    return CalibrateFrameworksResult(file, fitted, kept.taken_over)


def _fit_entry(fitted: FittedConstants, suites: Sequence[str], cases: Sequence[Configuration]) -> str:
    """The line of the profile that says what was fitted, and on what."""
    gpus = sorted({case.resolved.cluster.node.processor_name for case in cases})
    nodes = max(case.resolved.nodes for case in cases)
    return (
        f"fit: {{constants: [{', '.join(fitted.values)}], suites: [{', '.join(suites)}], "
        f'residuals: "{fitted.residuals}", gpus: [{", ".join(gpus)}], nodes: {nodes}}}\n'
    )


def _constants(names: Sequence[str]) -> tuple[Constant, ...]:
    """The names, checked.

    Raises:
        InputError: there are none, too many, or an unknown one.
    """
    known: tuple[Constant, ...] = get_args(Constant)
    for name in names:
        if name not in known:
            near = nearest_name(name, known)
            raise InputError("no such constant", file="--constant", given=name, expected=", ".join(known), nearest=near)
    if not 1 <= len(names) <= MOST_CONSTANTS:
        raise InputError(
            "one to four constants are fitted", file="--constant", given=len(names), expected=", ".join(known)
        )
    return tuple(name for name in known if name in names)

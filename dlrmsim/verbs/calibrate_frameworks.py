"""Calibration of a framework profile: from the calibration cases of suites to a profile with fitted constants."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from dlrmsim.output.folders import file_written_whole
from inputs.errors import InputError, nearest_name
from scenarios.progress import Progress, Silent
from validation.fits.framework_fit import FittedConstants, calibration_of, fit_framework, in_words
from workloads.graph.framework import FRAMEWORKS, Constant, load_framework

MOST_CONSTANTS = 4


@dataclass(frozen=True, slots=True)
class CalibratedFramework:
    """A fit and the profile that was written."""

    fitted: FittedConstants
    file: Path


def calibrate_framework(
    framework: str,
    out: Path,
    *,
    suites: Sequence[str] = (),
    constants: Sequence[str] = (),
    progress: Progress | None = None,
) -> CalibratedFramework:
    """Fit constants of a profile to the calibration cases of suites that use it, and write the profile.

    Args:
        framework: name or path of the profile.
        out: YAML file to write: the profile's own text with the fitted values in it.
        suites: names or paths; by default those that the profile names in its ``fit``.
        constants: what to fit; by default what its ``fit`` names.
        progress: told what is being done.

    Raises:
        InputError: the profile or a suite is wrong, there is nothing to fit, or ``out`` cannot be written.
    """
    file = FRAMEWORKS.find(framework)
    profile = load_framework(framework)
    chosen = _constants(constants or (profile.fit.constants if profile.fit else ()))
    named = tuple(suites) or (profile.fit.suites if profile.fit else ())
    if not named:
        raise InputError("no suite to fit to", file="--suite", expected="a suite, or a profile whose fit names some")
    shown = progress or Silent()
    shown.stage("reading the suites")
    fitted = fit_framework(chosen, calibration_of(profile.name, named), shown)
    file_written_whole(out, _text(file.read_text(encoding="utf-8"), profile.name, named, fitted))
    return CalibratedFramework(fitted, out)


def _constants(names: Sequence[str]) -> tuple[Constant, ...]:
    """The names, checked.

    Raises:
        InputError: there are none, too many, or an unknown one.
    """
    known: tuple[Constant, ...] = get_args(Constant)
    for name in names:
        if name not in known:
            raise InputError(
                "no such constant",
                file="--constant",
                given=name,
                expected=", ".join(known),
                nearest=nearest_name(name, known),
            )
    if not 1 <= len(names) <= MOST_CONSTANTS:
        raise InputError(
            "one to four constants are fitted", file="--constant", given=len(names), expected=", ".join(known)
        )
    return tuple(name for name in known if name in names)


def fitted_profile(framework: str, name: str, source: str, fitted: FittedConstants) -> str:
    """The text of a profile of another name with fitted constants.

    Args:
        framework: name or path of the profile that they were fitted in.
        name: of the new one.
        source: where the cases are from.
        fitted: the constants.

    Raises:
        InputError: there is no such profile.
    """
    text = _with_constants(FRAMEWORKS.find(framework).read_text(encoding="utf-8"), source, fitted)
    return _replaced(text, "name", f"name: {name}\n")


def _text(profile: str, name: str, suites: Sequence[str], fitted: FittedConstants) -> str:
    """The profile's text with the fitted entries, and from which suites they are."""
    text = _with_constants(profile, f"dlrmsim calibrate framework {name}: {', '.join(suites)}", fitted)
    names = ", ".join(fitted.values)
    fit = f'fit: {{constants: [{names}], suites: [{", ".join(suites)}], residuals: "{fitted.residuals}"}}\n'
    return _replaced(text, "fit", fit)


def _with_constants(profile: str, source: str, fitted: FittedConstants) -> str:
    """The profile's text with the fitted entries in the place of the old ones, or at its end."""
    for constant, value in fitted.values.items():
        line = (
            f'{constant}: {{value: {in_words(constant, value)}, source: "{source}", grade: derived, '
            f'note: "least squares of logarithms over {fitted.cases} calibration cases"}}\n'
        )
        profile = _replaced(profile, constant, line)
    return profile


def _replaced(text: str, key: str, line: str) -> str:
    """The text with ``line`` instead of the top-level entry of ``key``, appended where there is none."""
    entry = re.compile(rf"^{key}:.*\n(?:[ ].*\n)*", re.MULTILINE)
    if entry.search(text):
        return entry.sub(lambda _: line, text, count=1)
    return text.rstrip("\n") + "\n" + line

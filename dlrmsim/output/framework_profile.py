"""The text of a framework profile with fitted constants in the place of its own."""

from __future__ import annotations

import re

from validation.fits.framework_fit import FittedConstants, in_words
from workloads.graph.framework import FRAMEWORKS


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
    text = with_constants(FRAMEWORKS.find(framework).read_text(encoding="utf-8"), source, fitted)
    return with_entry(text, "name", f"name: {name}\n")


def with_constants(profile: str, source: str, fitted: FittedConstants) -> str:
    """The text with the fitted entries in the place of the old ones, or at its end."""
    for constant, value in fitted.values.items():
        line = (
            f'{constant}: {{value: {in_words(constant, value)}, source: "{source}", grade: derived, '
            f'note: "least squares of logarithms over {fitted.cases} calibration cases"}}\n'
        )
        profile = with_entry(profile, constant, line)
    return profile


def with_entry(text: str, key: str, line: str) -> str:
    """The text with ``line`` instead of the top-level entry of ``key``, appended where there is none."""
    entry = re.compile(rf"^{key}:.*\n(?:[ ].*\n)*", re.MULTILINE)
    if entry.search(text):
        return entry.sub(lambda _: line, text, count=1)
    return text.rstrip("\n") + "\n" + line

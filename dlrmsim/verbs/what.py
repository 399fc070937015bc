"""The first argument of verbs: names that ship, paths, and resolved scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from inputs.errors import InputError
from scenarios.resolve import ResolvedScenario, load_scenario

Name: TypeAlias = str | Path
"""A name that ships, or a path."""

Names: TypeAlias = Name | Sequence[Name]
"""One or several."""

Job: TypeAlias = Name | ResolvedScenario
"""A scenario: its name, its file, or resolved."""


def scenario_of(what: Job, settings: Sequence[str] = ()) -> ResolvedScenario:
    """The resolved scenario.

    Raises:
        InputError: the scenario or a ``KEY=VALUE`` setting is wrong, or settings stand beside a resolved scenario.
    """
    if not isinstance(what, ResolvedScenario):
        return load_scenario(what, settings)
    if settings:
        expected = "settings of load_scenario, or the scenario's name"
        raise InputError("the scenario is resolved already", file="settings", given=settings[0], expected=expected)
    return what


def names_of(what: Names) -> tuple[Name, ...]:
    """One name as a tuple of one."""
    return (what,) if isinstance(what, str | Path) else tuple(what)


def paths_of(what: Names) -> list[Path]:
    """The names as paths."""
    return [Path(name) for name in names_of(what)]

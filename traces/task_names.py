"""Names of tasks: the suffix that makes a task's name unique, and the name without it."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"( @\d+)?( \(tail\))?( #\d+)?$")
"""Iteration, part of a collective, number among tasks of the same name."""


def common_name(name: str) -> str:
    """The name without the suffix that makes it unique in its program."""
    return _NUMBER.sub("", name)

"""Names of tasks: what tells tasks of one name apart, and what they have in common."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"( @\d+)?( \(tail\))?( #\d+)?$")
"""Iteration, part of a collective, number among tasks of the same name."""


def common_name(name: str) -> str:
    """The name without what makes it unique in its program."""
    return _NUMBER.sub("", name)

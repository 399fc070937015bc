"""Suites of measurements with their predictions, each made once in a process."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from dlrmsim.verbs.validate import validate


@cache
def suite_run(name: str) -> Mapping[str, Any]:
    """A suite as ``validate --json`` prints it."""
    [suite] = validate([name]).to_dict()["suites"]
    return suite

"""Inputs of a job that nobody counted, as constants of the interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from scenarios.uncertainty.constant import Constant


@runtime_checkable
class UncertainJob(Protocol):
    """A placed job (`scenarios.family.PlacedJob`) with inputs that nobody counted."""

    def uncertain_inputs(self) -> Sequence[tuple[float, Constant]]:
        """Constants of the interval, each with the relative change of the time for one of it."""
        ...

"""Settings that a search for levers tries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["free", "numerics", "hardware"]
Basis: TypeAlias = Literal["run", "plan kept", "at most", "even loads"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A setting to try.

    Attributes:
        kind: ``free``; ``numerics`` where the numbers that the job trains change; ``hardware``.
        most: share of the critical path that it could shorten.
        plans: whether it is tried with a placement of its own, not the run's.
        basis: basis of its gain with the run's placement.
        note: a limit of the comparison, in words.
    """

    setting: str
    kind: Kind = "free"
    most: float = 1.0
    plans: bool = False
    basis: Basis = "plan kept"
    note: str = ""

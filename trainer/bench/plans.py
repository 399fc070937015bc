"""Plans of `trainer.bench.microbench`, and the rows of its ranks in one table. Needs no PyTorch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

FEWEST_CASES = 4
"""Cases of each kind that are timed without regard to the time limit."""


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest sizes that are drawn; the usual ones take one core some 10 ms.

    Attributes:
        table_bytes: size of a rank's table with its optimizer state.
        batch: rows of activations.
        flops: FLOPs of a product.
        lookups: lookups of a call.
        gathered: elements that these gather.
        paired: elements of a dot interaction's vectors and products.
    """

    table_bytes: float = 5e8
    batch: int = 8192
    flops: float = 1.5e9
    lookups: float = 6e5
    gathered: float = 4e7
    paired: float = 4e7


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """Kernels and collectives to time.

    Attributes:
        cases: number of cases of each kind of kernel; 0: collectives alone.
        rounds: how often all of them.
        case_s: time for the calls of one case in one round.
        collective_bytes: sizes of collectives.
        kinds: kinds of kernels to time; empty: all.
        seconds: time after which nothing further is timed, but `FEWEST_CASES` of each kind and each collective once.
    """

    seed: int = 0
    cases: int = 12
    rounds: int = 3
    case_s: float = 0.03
    collective_bytes: tuple[int, ...] = ()
    largest: Largest = Largest()
    kinds: tuple[str, ...] = ()
    seconds: float = 60.0

    def write(self, file: Path) -> None:
        """Write it where ranks read it."""
        file.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @staticmethod
    def read(file: Path) -> BenchPlan:
        """The plan in a file of `write`."""
        found = json.loads(file.read_text(encoding="utf-8"))
        return BenchPlan(**{**found, "largest": Largest(**found["largest"])})


def joined(ranks: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Rows with the mean of all ranks' times of each round."""
    rows = []
    for same in zip(*ranks, strict=True):
        row = dict(same[0])
        for name in ("times_s", "issue_s", "cores"):
            if name in row:
                rounds = min(len(other[name]) for other in same)
                row[name] = np.mean([other[name][:rounds] for other in same], axis=0).tolist()
        rows.append(row)
    return rows

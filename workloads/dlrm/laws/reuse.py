"""Number of distinct rows that a batch touches.

Two bounds, of which the smaller counts for each table:

- chance: n lookups, uniform over R rows, touch ``R (1 - (1 - 1/R)^n)`` distinct rows in the mean; no other
  distribution over R rows touches more;
- measured reuse: facebookresearch/dlrm_datasets publishes for batches of production-like indices how many rows were
  touched once, twice, and so on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from inputs.model import Strict, problem
from inputs.quantities import Count, Quantity
from inputs.validate import validate
from inputs.yaml_lines import Document, load_yaml
from simulator.operators import FloatArray
from workloads.catalogs import REUSE

UNIFORM = "uniform"

_MIN_ROW_SHARE = 0.01
"""Smallest row share that is used: below it the three printed digits say too little, and the bin's geometric middle
stands in."""


_ROUNDED = 0.0006
"""Shares have three printed digits: each is off by at most half of the last one."""


Positive = Annotated[int, Quantity("count", 1)]


class ReuseBin(Strict):
    """Rows touched more than ``above`` times, up to the next bin; shares of all touched rows and of all lookups."""

    above: Count = Field(description="its rows are touched more often, and at most as often as the next bin says")
    row_share: Annotated[float, Field(ge=0, le=1)] = Field(description="of all touched rows")
    lookup_share: Annotated[float, Field(ge=0, le=1)] = Field(description="of all lookups")


class ReuseFile(Strict):
    """A histogram file."""

    name: str = Field(description="of the histogram")
    title: str = Field(description="one line for people")
    source: str = Field(description="source of the histogram")
    samples: Positive = Field(description="the batch it was taken on")
    lookups: Positive = Field(description="of that batch")
    distinct_rows: Positive = Field(description="rows that they touched")
    bins: Annotated[tuple[ReuseBin, ...], Field(min_length=1)] = Field(description="by how often rows are touched")

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        above = [bin_.above for bin_ in self.bins]
        if above[0] != 0 or any(after <= before for before, after in pairwise(above)):
            raise problem(
                "bins are not in ascending order from 0", expected="above: 0, then larger numbers", key="bins"
            )
        for key in ("row_share", "lookup_share"):
            total = sum(getattr(bin_, key) for bin_ in self.bins)
            if not math.isclose(total, 1.0, abs_tol=_ROUNDED * len(self.bins)):
                raise problem(f"{key} sums to {total:.3f}", expected="1, rounded to three digits each", key="bins")
        if self.distinct_rows > self.lookups:
            raise problem("more rows than lookups", expected=f"at most {self.lookups}", key="distinct_rows")
        return self


@dataclass(frozen=True, slots=True)
class Reuse:
    """A measured reuse histogram.

    Attributes:
        samples: batch it was taken on.
        fraction: distinct rows per lookup in that batch.
        touches: lookups per row ``[K]``, one entry per bin.
        weight: share of the touched rows ``[K]``, sums to 1.
        singletons: share of the touched rows that one lookup touched.
    """

    samples: float
    fraction: float
    touches: FloatArray
    weight: FloatArray
    singletons: float

    def distinct_fraction(self, samples: float) -> float:
        """Distinct rows per lookup in a batch of ``samples``.

        Below the measured batch each lookup is kept with probability p = samples / measured, so that a row with c
        lookups is still touched with probability ``1 - (1 - p)^c``. Above it, the chance that one more lookup finds
        a new row is the share of lookups that found a singleton (Good, The population frequencies of species,
        Biometrika 40, 1953), so the number of distinct rows goes on as ``p^s``, s = singletons / distinct rows.
        """
        p = samples / self.samples
        if p >= 1:
            return self.fraction * float(p ** (self.singletons - 1))
        kept = float(self.weight @ -np.expm1(self.touches * np.log1p(-p)))
        return self.fraction * kept / p


def load_reuse(name: str) -> Reuse | None:
    """A shipped histogram (or one by path); None for ``uniform``.

    Raises:
        InputError: no such histogram.
    """
    return None if name == UNIFORM else reuse_of(read_reuse(name))


def read_reuse(name: str, *, origin: Document | None = None, key: str = "") -> ReuseFile:
    """The file of a shipped histogram or of a path, which starts at the folder of ``origin``, where ``key`` names it.

    Raises:
        InputError: no such histogram, or the file is wrong.
    """
    return validate(ReuseFile, load_yaml(REUSE.find(name, origin=origin, key=key)))


def reuse_of(file: ReuseFile) -> Reuse:
    """The law of a histogram file."""
    above = np.array([b.above for b in file.bins], dtype=np.float64)
    rows = np.array([b.row_share for b in file.bins]) * file.distinct_rows
    lookups = np.array([b.lookup_share for b in file.bins]) * file.lookups
    middle = np.where(above < 1, 1.0, above * np.sqrt(2.0))
    known = rows >= _MIN_ROW_SHARE * file.distinct_rows
    touches = np.where(known, np.maximum(1.0, lookups / np.maximum(rows, 1.0)), middle)
    count = np.where(known, rows, lookups / middle)
    return Reuse(
        samples=float(file.samples),
        fraction=file.distinct_rows / file.lookups,
        touches=touches,
        weight=count / count.sum(),
        singletons=float(count[above < 1].sum() / count.sum()),
    )


def distinct_rows(rows: FloatArray, lookups: FloatArray, samples: float, reuse: Reuse | None) -> FloatArray:
    """Distinct rows that a batch touches ``[N]``.

    Args:
        rows: rows of each table or shard ``[N]``.
        lookups: lookups of the whole batch into them ``[N]``.
        samples: the batch, over all ranks.
        reuse: measured reuse, or None for chance alone.
    """
    rows = np.maximum(np.asarray(rows, dtype=np.float64), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):  # of tables with one row, which are not taken
        chance = np.where(rows > 1, -rows * np.expm1(lookups * np.log1p(-1.0 / rows)), np.minimum(lookups, 1.0))
    if reuse is None:
        return np.asarray(chance)
    return np.minimum(chance, lookups * min(1.0, reuse.distinct_fraction(samples)))

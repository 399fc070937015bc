"""Lengths of sequence features: positions of a sample's history, as a distribution or as counted in a file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from inputs.csv_table import csv_rows, csv_text
from inputs.errors import InputError
from inputs.model import Strict, problem
from inputs.quantities import Quantity
from simulator.operators import FloatArray
from workloads.dlrm.laws.pooling import MAX_LENGTH, Length, PoolingSpread, Weight

MaxLength = Annotated[int, Quantity("count", 1, MAX_LENGTH)]

TAILS = ("poisson", "geometric", "lognormal")
"""Distributions without a largest length: longer ones are cut to the maximum."""

_KEYS = {
    "fixed": (),
    "uniform": ("low", "high"),
    "poisson": ("mean",),
    "geometric": ("mean",),
    "lognormal": ("mean", "deviation"),
    "histogram": ("lengths", "weights"),
    "file": ("file",),
}
"""Keys of each distribution; ``fixed`` may have ``mean``."""


class LengthLaw(Strict):
    """The distribution of the lengths of a sequence, before longer ones are cut to the sequence's maximum."""

    distribution: Literal["fixed", "uniform", "poisson", "geometric", "lognormal", "histogram", "file"] = Field(
        description="fixed: all equal; uniform; poisson; geometric, from 0 on; lognormal; histogram; file"
    )
    mean: Annotated[float, Field(ge=1e-3, le=MAX_LENGTH)] | None = Field(
        None, description="mean before longer ones are cut; of fixed: the length (default: the maximum)"
    )
    deviation: Annotated[float, Field(gt=0, le=20)] | None = Field(
        None, description="of lognormal: standard deviation over mean"
    )
    low: Length | None = Field(None, description="of uniform: the shortest")
    high: Length | None = Field(None, description="of uniform: the longest")
    lengths: Annotated[tuple[Length, ...], Field(min_length=1)] | None = Field(
        None, description="of histogram: lengths, none beyond the maximum"
    )
    weights: Annotated[tuple[Weight, ...], Field(min_length=1)] | None = Field(
        None, description="of histogram: how often each comes, in any unit"
    )
    cut: bool | None = Field(
        None,
        description="of fixed, uniform, histogram, file: lengths beyond the maximum are cut to it (default: refused)",
    )
    file: str | None = Field(
        None, description="of file: a CSV with a column length and, where lengths are counted, a column count"
    )

    @model_validator(mode="after")
    def _keys_of_the_distribution(self) -> Self:
        wanted = _KEYS[self.distribution]
        for key in sorted({name for names in _KEYS.values() for name in names}):
            given = getattr(self, key) is not None
            if given != (key in wanted) and not (key == "mean" and self.distribution == "fixed"):
                what = "a key of another distribution than" if given else "the key is missing for"
                raise problem(f"{what} {self.distribution}", expected=", ".join(wanted) or "no such key", key=key)
        self._check_values()
        return self

    def _check_values(self) -> None:
        if self.cut is not None and self.distribution in TAILS:
            raise problem(f"{self.distribution} is always cut to the maximum", expected="no such key", key="cut")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise problem(f"the range {self.low} to {self.high} is empty", expected="low <= high", key="low")
        if self.distribution == "fixed" and self.mean is not None and self.mean != int(self.mean):
            raise problem("a length is a whole number", expected="positions, such as 512", key="mean")
        if self.lengths is not None and self.weights is not None:
            if len(self.lengths) != len(self.weights):
                raise problem("as many weights as lengths are needed", expected=f"{len(self.lengths)}", key="weights")
            if sum(self.weights) == 0:
                raise problem("the weights sum to 0", expected="a weight above 0", key="weights")

    def longest(self, maximum: int) -> int:
        """Largest length that the law itself states; 0 where it has a tail that is cut."""
        stated = {"fixed": int(self.mean or maximum), "uniform": self.high or 0}
        return max(self.lengths) if self.lengths is not None else stated.get(self.distribution, 0)

    def probabilities(self, maximum: int) -> FloatArray:
        """Chance of each length from 0 to ``maximum`` ``[maximum + 1]``; longer ones are cut to it."""
        return _probabilities(self, maximum).copy()

    def mean_length(self, maximum: int) -> float:
        """Mean of the lengths, longer ones cut to ``maximum``."""
        return float(_probabilities(self, maximum) @ np.arange(maximum + 1))


@lru_cache(maxsize=64)
def _probabilities(law: LengthLaw, maximum: int) -> FloatArray:
    found = np.zeros(maximum + 1)
    chance = _before_cut(law, maximum)
    np.add.at(found, np.minimum(np.arange(len(chance)), maximum), chance / chance.sum())
    return found


def _before_cut(law: LengthLaw, maximum: int) -> FloatArray:
    """Weights of the lengths from 0 on ``[M]``."""
    if law.lengths is not None and law.weights is not None:
        return np.bincount(np.array(law.lengths), weights=np.array(law.weights)).astype(np.float64)
    if law.distribution == "uniform" and law.low is not None and law.high is not None:
        return np.where(np.arange(law.high + 1) >= law.low, 1.0, 0.0)
    if law.distribution == "fixed":
        return np.where(np.arange(law.longest(maximum) + 1) == law.longest(maximum), 1.0, 0.0)
    if law.distribution == "file":
        raise InputError("the file of lengths has not been read", given=law.file, expected="a histogram")
    around = law.model_dump(include={"distribution", "deviation"})
    return PoolingSpread.model_validate(around).probabilities(law.mean or 1.0)


BEYOND = "a length beyond the maximum of the sequence"


def check_longest(law: LengthLaw, maximum: int) -> None:
    """Check that no length of a law lies beyond the maximum of its sequence; distributions with a tail are cut.

    Raises:
        InputError: one does.
    """
    if law.longest(maximum) > maximum and not law.cut:
        raise InputError(
            BEYOND,
            given=law.longest(maximum),
            expected=f"at most max_length, {maximum:,}, or cut: true",
        )


def read_lengths(file: Path, maximum: int, *, cut: bool = False) -> LengthLaw:
    """The histogram of a CSV of lengths: a column ``length``, and ``count`` where equal lengths share a row.

    Args:
        cut: whether lengths beyond ``maximum`` are cut to it instead of refused.

    Raises:
        InputError: the file is wrong, with the line; or has a length beyond ``maximum``.
    """
    counts = np.zeros(maximum + 1)
    for row in csv_rows(csv_text(file), file, partial(_header, file=file)):
        given = row.number("length", least=0)
        length = int(given)
        if length != given:
            message, expected = "a length is a whole number", "positions, such as 512"
            raise InputError(message, file=file, line=row.line, key="length", given=given, expected=expected)
        if length > maximum and not cut:
            expected = f"at most max_length, {maximum:,}, or cut: true"
            raise InputError(BEYOND, file=file, line=row.line, given=length, expected=expected)
        counts[min(length, maximum)] += row.number("count") if "count" in row.cells else 1.0
    found = np.flatnonzero(counts)
    if not len(found):
        raise InputError("the file has no lengths", given=file.name, expected="at least one length")
    return LengthLaw(distribution="histogram", lengths=tuple(found.tolist()), weights=tuple(counts[found].tolist()))


def _header(given: Sequence[str], file: Path) -> Sequence[str]:
    """The columns of a file of lengths.

    Raises:
        InputError: there are others.
    """
    if sorted(given) not in (["length"], ["count", "length"]):
        expected = "a column length, and count where a row stands for several"
        raise InputError("wrong columns", file=file, line=1, given=",".join(given), expected=expected)
    return given

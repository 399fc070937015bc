"""Bag lengths: the pooling factor as a distribution around its mean."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from inputs.errors import InputError
from inputs.model import Strict, problem
from inputs.quantities import Quantity
from simulator.operators import FloatArray
from simulator.program import IntArray

Weight = Annotated[float, Field(ge=0, le=1e18)]

MAX_LENGTH = 100_000
"""Largest bag length with a probability of its own, lookups of one sample for one feature."""

Length = Annotated[int, Quantity("count", 0, MAX_LENGTH)]

_TAIL = 1e-9
"""Share of the samples whose length may be cut."""


class PoolingSpread(Strict):
    """The distribution of bag lengths; its mean is the table's pooling factor."""

    distribution: Literal["fixed", "poisson", "geometric", "lognormal", "histogram"] = Field(
        description="fixed: the mean, or for a part of a lookup one more in that part of the samples; poisson; "
        "geometric, from 0 on; lognormal; histogram"
    )
    deviation: Annotated[float, Field(gt=0, le=20)] | None = Field(
        None, description="of lognormal: standard deviation over mean"
    )
    lengths: Annotated[tuple[Length, ...], Field(min_length=1)] | None = Field(
        None, description="of histogram; their mean must be the pooling factor to within 1 %"
    )
    weights: Annotated[tuple[Weight, ...], Field(min_length=1)] | None = Field(
        None, description="of histogram: how often each length comes, in any unit"
    )

    @model_validator(mode="after")
    def _keys_of_the_distribution(self) -> Self:
        wanted = {"lognormal": ("deviation",), "histogram": ("lengths", "weights")}
        for key in ("deviation", "lengths", "weights"):
            needed = key in wanted.get(self.distribution, ())
            if needed != (getattr(self, key) is not None):
                what = "the key is missing" if needed else f"a key of another distribution than {self.distribution}"
                raise problem(what, expected=", ".join(wanted.get(self.distribution, ("no such key",))), key=key)
        if self.lengths is not None and self.weights is not None:
            if len(self.lengths) != len(self.weights):
                raise problem("as many weights as lengths are needed", expected=f"{len(self.lengths)}", key="weights")
            if sum(self.weights) == 0:
                raise problem("the weights sum to 0", expected="a weight above 0", key="weights")
        return self

    def probabilities(self, mean: float) -> FloatArray:
        """Chance of each length from 0 on ``[M]``; sums to 1, with the given mean.

        Raises:
            InputError: a histogram has another mean.
        """
        found = _MAKE[self.distribution](self, mean)
        return np.asarray(found / found.sum())

    def variance(self, mean: float) -> float:
        """Variance of the length of a bag; raises as `probabilities`."""
        chance = self.probabilities(mean)
        length = np.arange(len(chance))
        return float(chance @ length**2 - (chance @ length) ** 2)


FIXED = PoolingSpread(distribution="fixed")


def lengths(probabilities: FloatArray, u: FloatArray) -> IntArray:
    """Bag lengths drawn by inversion of uniform numbers ``u [n]`` in [0, 1)."""
    ends = np.cumsum(probabilities)
    return np.asarray(np.minimum(np.searchsorted(ends, u * ends[-1], side="right"), len(ends) - 1), dtype=np.int64)


def _fixed(spread: PoolingSpread, mean: float) -> FloatArray:  # noqa: ARG001 - one signature for all
    whole, part = divmod(mean, 1.0)
    chance = np.zeros(int(whole) + 2)
    chance[int(whole) : int(whole) + 2] = 1.0 - part, part
    return chance


def _poisson(spread: PoolingSpread, mean: float) -> FloatArray:  # noqa: ARG001
    length = np.arange(math.ceil(mean + 8.0 * math.sqrt(mean) + 20.0))
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(length[1:]))])
    return np.asarray(np.exp(length * math.log(mean) - mean - log_factorial))


def _geometric(spread: PoolingSpread, mean: float) -> FloatArray:  # noqa: ARG001
    again = mean / (1.0 + mean)
    length = np.arange(min(MAX_LENGTH, math.ceil(math.log(_TAIL) / math.log(again)) + 2))
    return np.asarray((1.0 - again) * again**length)


def _lognormal(spread: PoolingSpread, mean: float) -> FloatArray:
    """A length x between two whole numbers is one of them, with the chance that keeps its mean.

    So the chance of k is ``C(k - 1) - 2 C(k) + C(k + 1)``, where C(k) is the mean of max(x - k, 0), known in closed
    form (Black and Scholes, 1973).
    """
    sigma = math.sqrt(math.log1p((spread.deviation or 0.0) ** 2))
    past = mean * math.exp(6.0 * sigma - sigma**2 / 2)
    k = np.arange(1.0, min(MAX_LENGTH, math.ceil(past)) + 2.0)
    d = np.log(mean / k) / sigma + sigma / 2
    over = mean * _normal(d) - k * _normal(d - sigma)
    return np.maximum(np.diff(np.concatenate([[mean + 1.0, mean], over]), 2), 0.0)


def _histogram(spread: PoolingSpread, mean: float) -> FloatArray:
    chance = np.bincount(np.array(spread.lengths), weights=np.array(spread.weights)).astype(np.float64)
    found = float(chance @ np.arange(len(chance)) / chance.sum())
    if not math.isclose(found, mean, rel_tol=0.01):
        raise InputError(
            "the histogram of lengths has another mean than the table's pooling factor",
            key="pooling_spread",
            given=round(found, 4),
            expected=f"{mean:g}, within 1 %",
        )
    return np.asarray(chance)


def _normal(d: FloatArray) -> FloatArray:
    return np.array([0.5 * math.erfc(-x / math.sqrt(2.0)) for x in d.tolist()])


_MAKE = {
    "fixed": _fixed,
    "poisson": _poisson,
    "geometric": _geometric,
    "lognormal": _lognormal,
    "histogram": _histogram,
}

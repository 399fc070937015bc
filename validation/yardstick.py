"""How fast a shared machine was while something was measured, against while it was calibrated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hardware_specs.cpu_kernels import Followed
from simulator.operators import FloatArray

PIECES = ("product", "gather", "copy", "far", "calls")
"""Pieces of the yardstick (`trainer.yardstick`) that each tell how fast a rank does one kind of work."""
STEP = "step"
"""Its training step of a small model, which tells of all kinds one after the other, as jobs do them."""
MOST_STOLEN = 0.03
"""Share of the cores' time that the host of a virtual machine takes without doing harm; iterations last longer by it,
and that looks like waiting."""
FEWEST_TRIMMED = 4
"""Pieces, of which the least and the most do not count."""
MOST_MIDDLES = 3.0
"""An interruption that is longer says nothing of how fast work goes."""
FULLY = Followed()
"""Jobs that go with the yardstick as it is."""
FEWEST = 8
"""Jobs that tell anything of what they have in common."""
POWERS = np.linspace(0.0, 1.0, 51)
"""That are tried."""


def slowness(now_s: Mapping[str, float], then_s: Mapping[str, float], followed: Followed = FULLY) -> float:
    """By how much longer work takes now than then, by the pieces that are known; 1 where none is.

    The small step counts as much as all `PIECES` together (`docs/decisions/126`); records from before there was one
    have these alone. Of lookups `lookups_slowness` tells.

    Args:
        now_s: usual times of the yardstick's pieces now.
        then_s: the same then.
        followed: how closely jobs go with it.
    """
    return float(told(now_s, then_s) ** followed.work)


def told(now_s: Mapping[str, float], then_s: Mapping[str, float]) -> float:
    """By how much longer the yardstick itself takes; arguments as above."""
    by = longer(now_s, then_s)
    of_kinds = np.log([by[name] for name in PIECES if name in by])
    logarithms = [middle(of_kinds)] if len(of_kinds) else []
    logarithms += [np.log(by[STEP])] if STEP in by else []
    return float(np.exp(np.mean(logarithms))) if logarithms else 1.0


def lookups_slowness(now_s: Mapping[str, float], then_s: Mapping[str, float], followed: Followed = FULLY) -> float:
    """The same of lookups of rows, which go with `PIECES` alone (`docs/decisions/128`); arguments as above."""
    of_pieces = {name: seconds for name, seconds in now_s.items() if name != STEP}
    return float(told(of_pieces, then_s) ** followed.lookups)


def followed_by(slower: Sequence[float], longer: Sequence[float], weights: Sequence[float]) -> float:
    """The power of how much slower the yardstick was, 0 to 1, with which jobs differ least in what they took longer.

    Args:
        slower: by the yardstick, of each job ``[J]``.
        longer: what the job took over what was expected of it ``[J]``.
        weights: of jobs ``[J]``; fewer jobs than `FEWEST` tell nothing, and go with it as it is.
    """
    if len(slower) < FEWEST:
        return 1.0
    yardstick, jobs, weight = np.log(slower), np.log(longer), np.array(weights)
    off = [from_middle(jobs - power * yardstick, weight) for power in POWERS]
    return round(float(POWERS[int(np.argmin(off))]), 2)


def from_middle(values: FloatArray, weights: FloatArray) -> float:
    """The mean distance of values ``[N]`` from their `weighted_median`."""
    return float(np.average(np.abs(values - weighted_median(values, weights)), weights=weights))


def weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """The least value up to which there is half of all weight."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])


def longer(now_s: Mapping[str, float], then_s: Mapping[str, float]) -> dict[str, float]:
    """How many times as long each piece takes now as then, of those that are known of both; arguments as above."""
    return {name: seconds / then_s[name] for name, seconds in now_s.items() if name in then_s}


def middle(logarithms: FloatArray) -> FloatArray:
    """The mean over pieces ``[..., P]`` without the least and the most of them where there are `FEWEST_TRIMMED`.

    Times of jobs go with it (``python -m benchmarks yardstick``, `docs/decisions/056`); one piece that differs from all
    others, as a gather does for which a cache has become too small, says little of them.
    """
    ordered = np.sort(logarithms, axis=-1)
    return np.asarray(np.mean(ordered[..., 1:-1] if ordered.shape[-1] >= FEWEST_TRIMMED else ordered, axis=-1))


def usual_s(times_s: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The mean of each piece's times, none of which counts for more than `MOST_MIDDLES` times the middle one.

    What others do in short bursts lengthens iterations as it lengthens the mean; the least or the middle time misses
    it.
    """
    return {name: _mean(np.array(of_piece)) for name, of_piece in times_s.items() if len(of_piece)}


def usual_of_all(
    told_s: Iterable[Mapping[str, float]], middle_of: Callable[[Sequence[float]], np.floating[Any]] = np.mean
) -> dict[str, float]:
    """Each piece's mean, or another middle, over all that tell it: a rank without a partner passes nothing on.

    Args:
        told_s: pieces of ranks, or of jobs.
        middle_of: what is told of their times.
    """
    known: dict[str, list[float]] = {}
    for pieces_s in told_s:
        for name, seconds in pieces_s.items():
            known.setdefault(name, []).append(seconds)
    return {name: float(middle_of(seconds)) for name, seconds in known.items()}


def _mean(seconds: FloatArray) -> float:
    return float(np.minimum(seconds, MOST_MIDDLES * np.median(seconds)).mean())

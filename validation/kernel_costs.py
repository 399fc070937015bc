"""Costs of kernels that fit parts of iterations, and kernels timed alone (`validation.in_situ`).

What a part takes is the sum of amounts times costs, of several kinds of kernels and of the host's work at once. Errors
are relative to what is predicted, so that noise, which multiplies, does not pull costs down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hardware_specs.cpu_kernels import CpuKernels, KernelClass, KernelCosts
from simulator.compute.cpu_amounts import Caches, caches_of
from simulator.operators import FloatArray
from validation.fits.nonnegative import Usual, nonnegative
from validation.in_situ import Key, PartRow

CALL, ALONE_CALL = "call", "alone_call"
"""What a call costs within an iteration, and alone, which no spec tells."""
SAME_PLACE = 1e-4
"""Costs that change no row's time by more than this part are left out."""


def fit(
    rows: Sequence[PartRow], machine: Caches, usual: Mapping[str, Mapping[str, float | None]] | None = None
) -> dict[KernelClass, KernelCosts]:
    """Costs of all kinds of kernels among the rows, none negative; of a call as within an iteration, where any has one.

    Args:
        rows: what was timed.
        machine: its caches.
        usual: costs of another CPU by kind and amount, which count where few rows tell; None: they do not. An amount
            without one cost nothing there, one of None is not known.
    """
    keys, matrix, seconds, floors, weights = _amounts(rows, machine)
    costs = nonnegative(matrix, seconds, floors, weights, None if usual is None else _held(keys, usual))
    expected = matrix @ costs
    off = 100.0 * (expected - seconds) / np.maximum(seconds, floors)
    parts_of = matrix * costs
    kinds = sorted({kind for kind, _ in keys})
    of_kind = np.array([[key[0] == kind for key in keys] for kind in kinds], dtype=np.float64)
    share = of_kind @ parts_of.T
    told = np.argmax(share, axis=0)
    found: dict[KernelClass, KernelCosts] = {}
    for number, kind in enumerate(kinds):
        mine = np.flatnonzero(told == number)
        noise = [rows[row].noise for row in mine.tolist()]
        worst = float(off[mine[np.argmax(np.abs(off[mine]))]]) if len(mine) else 0.0
        left_out = (kind, ALONE_CALL if (kind, CALL) in keys else CALL)
        kept = {
            CALL if key[1] == ALONE_CALL else key[1]: f"{float(f'{cost:.5g}')!r} s"
            for key, cost, column in zip(keys, costs, parts_of.T, strict=True)
            if key[0] == kind and key != left_out and np.max(column / np.maximum(expected, floors)) > SAME_PLACE
        }
        found[kind] = KernelCosts.model_validate(
            {
                "seconds_per": kept,
                "rows": max(1, len(mine)),
                "median_error_pct": round(float(np.median(np.abs(off[mine]))), 2) if len(mine) else 0.0,
                "worst_error_pct": round(worst, 1),
                "noise_pct": round(100.0 * float(np.median(noise)), 2) if noise else 0.0,
            }
        )
    return found


def misfit(rows: Sequence[PartRow], machine: Caches) -> float:
    """Mean error of the rows with the costs that fit them best, were the machine's caches these; relative."""
    _, matrix, seconds, floors, weights = _amounts(rows, machine)
    expected = matrix @ nonnegative(matrix, seconds, floors, weights)
    off = np.minimum(np.abs(expected - seconds) / (expected + floors), 1.0)
    return float(np.average(off, weights=weights))


def expected_s(part: PartRow, kernels: CpuKernels) -> float:
    """What a part should take with a spec's costs, seconds."""
    counts = part.counts(caches_of(kernels)).items()
    return sum(
        count * kernels.costs[kind].seconds_per.get(name, 0.0)
        for (kind, name), count in counts
        if kind in kernels.costs
    )


class _Amounts(NamedTuple):
    """Kinds and amounts ``[A]`` of rows ``[R, A]``, what they took, what is added to it, and their weights ``[R]``."""

    keys: list[Key]
    matrix: FloatArray
    seconds: FloatArray
    floors: FloatArray
    weights: FloatArray


def _amounts(rows: Sequence[PartRow], machine: Caches) -> _Amounts:
    counted = [_in_fit(row, machine) for row in rows]
    keys = sorted({key for counts in counted for key in counts})
    matrix = np.array([[counts.get(key, 0.0) for key in keys] for counts in counted])
    return _Amounts(keys, matrix, *np.array([(row.seconds, row.floor_s, row.weight) for row in rows]).T)


def _in_fit(row: PartRow, machine: Caches) -> dict[Key, float]:
    """What costs are fitted to: a call alone, again and again, finds its code in the caches, and costs less."""
    counts = row.counts(machine)
    return {(kind, ALONE_CALL if row.alone and name == CALL else name): n for (kind, name), n in counts.items()}


def _held(keys: Sequence[Key], usual: Mapping[str, Mapping[str, float | None]]) -> Usual:
    kinds = sorted({kind for kind, _ in keys})
    costs = [usual[kind].get(name, 0.0) if kind in usual and name != ALONE_CALL else None for kind, name in keys]
    return Usual(np.array(costs, dtype=np.float64), np.array([kinds.index(kind) for kind, _ in keys]))

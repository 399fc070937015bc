"""Costs of CPU kernels, fitted to parts of iterations and to kernels timed alone (`validation.host.iteration_parts`).

The time of a part is the sum of amounts times costs, over several kinds of kernels and the host's work. Errors are
relative to the prediction, so that multiplicative noise does not bias costs downwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hardware_specs.bounds import MOST_PERCENT, Latency, limits
from hardware_specs.cpu_kernels import CpuKernels, KernelClass, KernelCosts
from simulator.compute.cpu_amounts import Caches, caches_of
from simulator.operators import FloatArray
from validation.fits.nonnegative import Usual, nonnegative
from validation.host.iteration_parts import Key, PartRow
from validation.host.machine import HostFacts

CALL, ALONE_CALL = "call", "alone_call"
"""Amounts that count calls within an iteration, and calls of kernels timed alone, which no spec holds."""
LEAST_EFFECT = 1e-4
"""Largest fraction of a row's time that a cost may contribute and still be left out of the spec."""
MOST_HALVED = 5
"""Number of times that the shared cache is halved at most in the search for its effective size."""


def fit(
    rows: Sequence[PartRow], machine: Caches, usual: Mapping[str, Mapping[str, float | None]] | None = None
) -> dict[KernelClass, KernelCosts]:
    """Costs of all kinds of kernels among the rows, none negative; a call costs what it costs within an iteration.

    Args:
        rows: timed parts and kernels.
        usual: costs of a well-known CPU by kind and amount, seconds, towards which amounts lean that few rows
            determine; an absent amount costs nothing there, None is unknown. Without it no cost leans on another.
    """
    keys, matrix, seconds, floors, weights = _amounts(rows, machine)
    costs = nonnegative(matrix, seconds, floors, weights, None if usual is None else _held(keys, usual))
    costs = np.minimum(costs, limits(Latency)[1])
    expected = matrix @ costs
    off = np.clip(100.0 * (expected - seconds) / np.maximum(seconds, floors), -MOST_PERCENT, MOST_PERCENT)
    parts_of = matrix * costs
    kinds = sorted({kind for kind, _ in keys})
    of_kind = np.array([[key[0] == kind for key in keys] for kind in kinds], dtype=np.float64)
    share = of_kind @ parts_of.T
    main_kind = np.argmax(share, axis=0)
    found: dict[KernelClass, KernelCosts] = {}
    for number, kind in enumerate(kinds):
        mine = np.flatnonzero(main_kind == number)
        noise = [rows[row].noise for row in mine.tolist()]
        worst = float(off[mine[np.argmax(np.abs(off[mine]))]]) if len(mine) else 0.0
        left_out = (kind, ALONE_CALL if (kind, CALL) in keys else CALL)
        kept = {
            CALL if key[1] == ALONE_CALL else key[1]: f"{float(f'{cost:.5g}')!r} s"
            for key, cost, column in zip(keys, costs, parts_of.T, strict=True)
            if key[0] == kind and key != left_out and np.max(column / np.maximum(expected, floors)) > LEAST_EFFECT
        }
        found[kind] = KernelCosts.model_validate(
            {
                "seconds_per": kept,
                "rows": max(1, len(mine)),
                "median_error_pct": round(float(np.median(np.abs(off[mine]))), 2) if len(mine) else 0.0,
                "worst_error_pct": round(worst, 1),
                "noise_pct": round(min(100.0 * float(np.median(noise)), MOST_PERCENT), 2) if noise else 0.0,
            }
        )
    return found


def with_effective_cache(facts: HostFacts, rows: Sequence[PartRow]) -> HostFacts:
    """The facts with the size of the shared cache, halved 0 to `MOST_HALVED` times, with which costs fit tables best.

    Other tenants of a virtual machine's host use the cache, too, so that the operating system's size is an upper bound.

    Args:
        rows: parts of iterations and kernels timed alone.
    """
    tables = [row for row in rows if row.is_of_tables]
    if not tables:
        return facts
    sizes = [facts.shared_cache_bytes / 2**halved for halved in range(MOST_HALVED + 1)]
    sizes = [size for size in sizes if size >= facts.core_cache_bytes * facts.cores] or sizes[:1]
    errors = [misfit(tables, Caches(facts.core_cache_bytes, size)) for size in sizes]
    size = sizes[int(np.argmin(errors))]
    each = ", ".join(f"{100.0 * off:.1f} % with {of / 2**20:g} MiB" for of, off in zip(sizes, errors, strict=True))
    return replace(facts, shared_cache_bytes=size, shared_cache_note=f"mean error of lookups and updates: {each}")


def misfit(rows: Sequence[PartRow], machine: Caches) -> float:
    """Mean relative error, 0 to 1, of rows under the costs that fit them best on a machine with these caches."""
    _, matrix, seconds, floors, weights = _amounts(rows, machine)
    expected = matrix @ nonnegative(matrix, seconds, floors, weights)
    off = np.minimum(np.abs(expected - seconds) / (expected + floors), 1.0)
    return float(np.average(off, weights=weights))


def expected_s(part: PartRow, kernels: CpuKernels) -> float:
    """Predicted time of a part under the costs of a spec, seconds."""
    counts = part.counts(caches_of(kernels)).items()
    return sum(
        count * kernels.costs[kind].seconds_per.get(name, 0.0)
        for (kind, name), count in counts
        if kind in kernels.costs
    )


class _Amounts(NamedTuple):
    """Kinds and amounts ``[A]``, their counts ``[R, A]``, times, floors and weights of rows ``[R]``."""

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
    """Counts of a row; calls of a kernel timed alone cost less, because they find their code in the caches."""
    counts = row.counts(machine)
    return {(kind, ALONE_CALL if row.alone and name == CALL else name): n for (kind, name), n in counts.items()}


def _held(keys: Sequence[Key], usual: Mapping[str, Mapping[str, float | None]]) -> Usual:
    kinds = sorted({kind for kind, _ in keys})
    costs = [usual[kind].get(name, 0.0) if kind in usual and name != ALONE_CALL else None for kind, name in keys]
    return Usual(np.array(costs, dtype=np.float64), np.array([kinds.index(kind) for kind, _ in keys]))

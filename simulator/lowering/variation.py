"""Variation of durations over ranks and iterations, drawn by name so that nothing else changes a draw.

A factor ``exp(sigma z - sigma^2 / 2)`` (log-normal with mean 1) multiplies the duration of a kernel or host task. z is
standard normal, drawn with Philox keyed by (seed, iteration, task name) as a vector over global ranks: the number of
workers, what is recorded and which other tasks exist never change it. Embedding kernels vary besides with the lookups
of a batch, where the model's bag lengths are not fixed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simulator.categories import Category
from simulator.operators import Amount, FloatArray
from simulator.program import IntArray, Program

BATCH = "batch contents"
"""Names the draw of how many lookups a rank's batch has."""


@dataclass(frozen=True, slots=True)
class Variation:
    """Variation of durations.

    Attributes:
        compute_jitter: sigma of the factor on kernels.
        host_jitter: sigma of the factor on host work.
        input_jitter: sigma of the factor on reading and receiving batches.
        straggler_ranks: ranks that compute slower in every iteration.
        straggler_slowdown: factor on the kernels of those ranks.
    """

    seed: int = 0
    compute_jitter: float = 0.0
    host_jitter: float = 0.0
    input_jitter: float = 0.0
    straggler_ranks: tuple[int, ...] = ()
    straggler_slowdown: float = 1.0

    def sigma(self, category: Category) -> float:
        """Sigma of the factor on a task of this category."""
        sigmas = {
            Category.COMPUTE: self.compute_jitter,
            Category.HOST: self.host_jitter,
            Category.INPUT: self.input_jitter,
        }
        return sigmas.get(category, 0.0)

    @property
    def varies(self) -> bool:
        """Whether iterations differ."""
        return bool(self.compute_jitter or self.host_jitter or self.input_jitter)

    def slowdown(self, ranks: IntArray) -> FloatArray:
        """Static factor on the kernels of each rank ``[P]``."""
        return np.where(np.isin(ranks, self.straggler_ranks), self.straggler_slowdown, 1.0)


def draw(seed: int, iteration: int, task: str, world_size: int) -> FloatArray:
    """Standard normal numbers of a task in an iteration, one per global rank ``[world_size]``."""
    key = hashlib.blake2b(f"{seed}/{iteration}/{task}".encode(), digest_size=16).digest()
    generator = np.random.Generator(np.random.Philox(key=int.from_bytes(key, "little")))
    return generator.standard_normal(world_size)


@dataclass(frozen=True, slots=True, eq=False)
class VariedDurations:
    """Durations with a fresh draw in each iteration (a `simulator.lowered.Durations`).

    Attributes:
        base_ps: durations without jitter ``[T, P]`` or ``[T, 1]``, ps, not rounded.
        sigma: standard deviation of the logarithm of each task's factor ``[T]``.
        contents: tasks whose work differs from batch to batch -> its standard deviation over its mean, scalar or
            ``[P]``. One draw per rank and iteration: a batch with more lookups has more in all kernels.
        world_size: length of a draw.
    """

    program: Program
    base_ps: FloatArray
    sigma: FloatArray
    contents: Mapping[int, Amount]
    seed: int
    world_size: int

    def at(self, iteration: int) -> IntArray:
        """Durations in ps of iteration ``iteration`` ``[T, P]``, rounded half up."""
        values = np.array(np.broadcast_to(self.base_ps, (self.program.task_count, self.program.rank_count)))
        for task in np.flatnonzero((self.sigma > 0.0) & (self.base_ps > 0.0).any(axis=1)):
            sigma = self.sigma[task]
            z = draw(self.seed, iteration, self.program.names[task], self.world_size)[self.program.ranks]
            values[task] *= np.exp(sigma * z - 0.5 * sigma**2)
        if self.contents:
            z = draw(self.seed, iteration, BATCH, self.world_size)[self.program.ranks]
            for kernel, deviation in self.contents.items():
                values[kernel] *= np.maximum(1.0 + deviation * z, 0.0)
        return np.floor(values + 0.5).astype(np.int64)

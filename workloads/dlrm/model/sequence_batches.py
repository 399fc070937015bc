"""Lengths of the sequences in a batch, sample by sample, and how samples are dealt to the ranks.

The lengths of a global batch are drawn once, keyed by the seed and the sequence's name (Philox), so that the plan, the
number of workers and other features never change them; one batch stands for all. Samples are then dealt:

- ``random``: as they come;
- ``sorted``: by length, so that the samples of a rank are alike (a sampler that buckets by length);
- ``balanced``: every rank has as many samples, and about as much work: in order of length, a sample for each rank at a
  time, the longest one for the rank with the least work so far.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

import numpy as np

from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.dlrm.laws.pooling import lengths as drawn_by_inversion
from workloads.dlrm.model.sequences import SequenceLengths

Batching: TypeAlias = Literal["random", "sorted", "balanced"]
BATCHINGS: tuple[Batching, ...] = get_args(Batching)


@dataclass(frozen=True, slots=True)
class RankLengths:
    """Positions of a sequence on the ranks of a batch, all ``[P]``, or ``[1]`` where all ranks are alike.

    Attributes:
        samples: number of samples.
        positions: sum of their positions, candidates included.
        squares: sum of the squares of their positions.
        longest: positions of the longest one.
    """

    samples: FloatArray
    positions: FloatArray
    squares: FloatArray
    longest: FloatArray

    def beside(self, context: int) -> RankLengths:
        """The same with ``context`` more positions in every sample."""
        squares = self.squares + 2.0 * context * self.positions + self.samples * float(context * context)
        return RankLengths(self.samples, self.positions + self.samples * context, squares, self.longest + context)

    def padded(self) -> RankLengths:
        """The same with every sample as long as the longest one on its rank."""
        longest = self.longest
        return RankLengths(self.samples, self.samples * longest, self.samples * longest**2, longest)


@dataclass(frozen=True, slots=True)
class Dealing:
    """A batch of ``samples`` samples over all ranks, and how it is dealt to them (see the module); hashable."""

    samples: int
    ranks: int
    seed: int
    batching: Batching = "random"


@lru_cache(maxsize=32)
def lengths_on_ranks(sequence: SequenceLengths, dealing: Dealing) -> RankLengths:
    """Positions of a sequence on each rank."""
    samples = shares(dealing).astype(np.float64)
    if sequence.fixed:
        length, alike = sequence.mean_positions, samples[:1] if dealing.samples % dealing.ranks == 0 else samples
        return RankLengths(alike, alike * length, alike * length**2, np.full(len(alike), length))
    drawn = _dealt(sequence, dealing)
    starts = np.cumsum(shares(dealing)) - shares(dealing)
    return RankLengths(
        samples,
        np.add.reduceat(drawn, starts),
        np.add.reduceat(drawn**2, starts),
        np.maximum.reduceat(drawn, starts),
    )


def shares(dealing: Dealing) -> IntArray:
    """Samples of each rank ``[P]``: the first ranks have one more where they do not divide the batch."""
    each, more = divmod(dealing.samples, dealing.ranks)
    return np.asarray(each + (np.arange(dealing.ranks) < more), dtype=np.int64)


def _dealt(sequence: SequenceLengths, dealing: Dealing) -> FloatArray:
    """Positions of every sample, the samples of a rank after each other ``[samples]``."""
    drawn = _drawn(sequence, dealing.samples, dealing.seed)
    if dealing.batching == "random" or not sequence.attended:
        return drawn
    by_length = np.sort(drawn)[::-1]
    return by_length if dealing.batching == "sorted" else _balanced(by_length, sequence, dealing)


def _drawn(sequence: SequenceLengths, samples: int, seed: int) -> FloatArray:
    """Positions of samples as they come ``[samples]``."""
    key = hashlib.blake2b(f"{seed}/sequence/{sequence.name}".encode(), digest_size=16).digest()
    u = np.random.Generator(np.random.Philox(key=int.from_bytes(key, "little"))).random(samples)
    found = drawn_by_inversion(sequence.law.probabilities(sequence.maximum), u)
    return found.astype(np.float64) + sequence.targets


def _balanced(by_length: FloatArray, sequence: SequenceLengths, dealing: Dealing) -> FloatArray:
    """Samples dealt evenly in descending order of length, then ordered by rank ``[samples]``."""
    ranks, sizes = dealing.ranks, shares(dealing)
    rounds = int(sizes.max())
    place = np.cumsum(sizes) - sizes
    found, work = np.zeros_like(by_length), np.zeros(ranks)
    for number in range(rounds):
        some = by_length[number * ranks : (number + 1) * ranks]
        open_ranks = np.flatnonzero(sizes > number)
        order = open_ranks[np.argsort(work[open_ranks], kind="stable")]
        found[place[order] + number] = some
        positions = some + sequence.context
        work[order] += positions * (positions + sequence.even_positions)
    return found

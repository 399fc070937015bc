"""Random numbers that are addressed, not drawn one after the other: any slice can be made by itself.

Philox is a counter-based generator (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011): the value
at a position depends on the key and the position alone. So every rank makes its part of a batch or of a table, and
together they have the numbers of one rank alone.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

BitArray = npt.NDArray[np.uint64]
FloatArray = npt.NDArray[np.float64]

_PER_BLOCK = 4
"""64-bit values per counter of Philox 4x64."""


class Purpose(IntEnum):
    """Purpose of random numbers: no two purposes share any."""

    DENSE_FEATURES = 0
    LENGTHS = 1
    INDICES = 2
    LABELS = 3
    TABLE_WEIGHTS = 4
    LAYER_WEIGHTS = 5
    TEACHER = 6


def bits(seed: int, purpose: Purpose, item: int, iteration: int, start: int, count: int) -> BitArray:
    """64-bit values at positions ``start`` to ``start + count`` of a sequence ``[count]``.

    Args:
        item: table or layer.
        iteration: iteration of the training, 0 where it plays no role.
    """
    skipped = start % _PER_BLOCK
    key = np.array([seed, (int(purpose) << 32) | item], dtype=np.uint64)
    counter = np.array([start // _PER_BLOCK, iteration, 0, 0], dtype=np.uint64)
    raw: BitArray = np.random.Philox(key=key, counter=counter).random_raw(skipped + count)
    return raw[skipped:]


def uniforms(seed: int, purpose: Purpose, item: int, iteration: int, start: int, count: int) -> FloatArray:
    """Uniform numbers in [0, 1) at those positions ``[count]``; arguments as of `bits`."""
    return unit(bits(seed, purpose, item, iteration, start, count))


def unit(values: BitArray) -> FloatArray:
    """The upper 53 bits as numbers in [0, 1)."""
    return np.asarray((values >> np.uint64(11)) * 2.0**-53)


def normals(seed: int, purpose: Purpose, item: int, count: int) -> FloatArray:
    """Standard normal numbers ``[count]`` of a sequence of their own."""
    key = np.array([seed, (int(purpose) << 32) | item], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key)).standard_normal(count)

"""Integer columns as short text for a page: differences, zigzag, LEB128, zlib, base64.

Times of tasks differ little from row to row, so the differences take one to three bytes and compress well. The page's
``payload.js`` undoes it; integers are exact up to 2^53, the range of a JavaScript number.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

_GROUP_BITS = np.uint64(7)
_GROUP_MASK = np.uint64(0x7F)
_MORE = 0x80
_MAX_EXACT = 2**53


def encode_integers(values: NDArray[Any]) -> str:
    """Pack integers ``[N]`` of at most 2^53 into base64 text.

    Raises:
        ValueError: a value has no exact JavaScript number.
    """
    column = np.asarray(values, dtype=np.int64).ravel()
    if len(column) and int(np.abs(column).max()) > _MAX_EXACT:
        raise ValueError(f"{np.abs(column).max()} exceeds 2^53: a page cannot hold it exactly")
    differences = np.diff(column, prepend=np.int64(0))
    zigzag = ((differences << 1) ^ (differences >> 63)).astype(np.uint64)
    return base64.b64encode(zlib.compress(_leb128(zigzag), 9)).decode("ascii")


def _leb128(values: NDArray[np.uint64]) -> bytes:
    """Seven bits per byte, lowest first, the top bit set on all bytes but a value's last."""
    groups = int(values.max()).bit_length() // 7 + 1 if len(values) else 1
    shifts = np.arange(groups, dtype=np.uint64) * _GROUP_BITS
    rest = values[:, None] >> shifts
    present = rest != 0
    present[:, 0] = True
    more = np.zeros_like(present)
    more[:, :-1] = present[:, 1:]
    coded = (rest & _GROUP_MASK).astype(np.uint8) | np.where(more, _MORE, 0).astype(np.uint8)
    return bytes(coded[present].tobytes())

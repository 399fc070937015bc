"""Arrow columns over buffers: numbers of numpy arrays, and texts.

``pyarrow.array`` loads pandas to look at any argument, which takes longer than the rest of a small job's file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulator.program import IntArray

if TYPE_CHECKING:  # takes longer to import than the command line may take to start
    import pyarrow as pa


def arrow_numbers(values: NDArray[Any]) -> pa.Array:
    """A column over the memory of an array of whole numbers or floats, ``[N]``, without nulls."""
    import pyarrow as pa

    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def arrow_texts(texts: Sequence[str]) -> pa.Array:
    """A column of texts, without nulls; at most 2 GiB of UTF-8."""
    import pyarrow as pa

    parts = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, parts)], dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(parts), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(parts))])


def arrow_names(numbers: IntArray | NDArray[np.int32], names: Sequence[str]) -> pa.DictionaryArray:
    """A dictionary column: numbers into names."""
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(arrow_numbers(numbers), arrow_texts(names))

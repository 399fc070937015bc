"""Files of measured indices: read in pieces, counted, and forgotten.

- ``.npy``: one array of whole numbers; ``.npz``: several, by name;
- ``.csv``: a header of names, a column of whole numbers for each (empty cells are left out);
- ``.parquet``: columns of whole numbers or of lists of them.

A file with one column or array is that of whatever table asks; else the table's name says which.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from inputs.errors import InputError, nearest_name
from inputs.given import cut
from simulator.program import IntArray
from workloads.dlrm.laws.counted_rows import CountedRows, count_rows

Piece: TypeAlias = NDArray[np.generic]

_PIECE = 4_000_000
"""Indices counted at a time: 32 MB."""

MAX_INDEX = 2**48
"""Rows of the largest table that anyone would want to count."""


def read_counts(file: Path, table: str) -> CountedRows:
    """Count the lookups of each row.

    Args:
        table: name of the table, where the file has several.

    Raises:
        InputError: the file is missing, of no known kind, broken, empty, lacks the table, or has something else than
            indices.
    """
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        raise InputError("not a file of indices", given=str(file), expected="one of " + ", ".join(sorted(_READERS)))
    if not file.is_file():
        raise InputError("no such file", given=str(file), expected="a file of indices")
    rows, lookups = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    try:
        with closing(reader(file, table)) as pieces:
            for piece in pieces:
                rows, lookups = _added(rows, lookups, _whole(piece, file))
    except InputError:
        raise
    except MemoryError:
        raise InputError("has more than memory holds", file=file, expected="indices") from None
    except Exception as error:  # noqa: BLE001 - numpy, pandas and pyarrow raise what they like on broken files
        reason = f"cannot be read: {cut(str(error) or type(error).__name__)}"
        raise InputError(reason, file=file, expected="indices") from None
    if not len(rows):
        raise InputError("the file has no indices", file=file, expected="at least one index")
    return count_rows(rows, lookups)


def _added(rows: IntArray, lookups: IntArray, piece: IntArray) -> tuple[IntArray, IntArray]:
    """Rows and lookups with those of a piece."""
    new, count = np.unique(piece, return_counts=True)
    together, place = np.unique(np.concatenate([rows, new]), return_inverse=True)
    total = np.bincount(place, weights=np.concatenate([lookups, count]).astype(np.float64), minlength=len(together))
    return together, total.astype(np.int64)


def _whole(piece: Piece, file: Path) -> IntArray:
    """A piece as indices.

    Raises:
        InputError: they are no whole numbers, negative, or absurdly large.
    """
    values = np.asarray(piece).ravel()
    if not np.issubdtype(values.dtype, np.integer):
        raise InputError("indices must be whole numbers", file=file, given=str(values.dtype), expected="integers")
    for bad in (values.min(initial=0), values.max(initial=0)):
        if not 0 <= int(bad) < MAX_INDEX:
            raise InputError("an index out of range", file=file, given=int(bad), expected=f"0 to {MAX_INDEX - 1}")
    return np.asarray(values, dtype=np.int64)


def _chosen(names: list[str], file: Path, table: str) -> str:
    """The column or array of a table: the only one, or the one of its name."""
    if len(names) == 1:
        return names[0]
    if table not in names:
        raise InputError(
            "the file has no indices of this table",
            file=file,
            given=table,
            expected="one of " + ", ".join(names[:8]),
            nearest=nearest_name(table, names),
        )
    return table


def _pieces(array: Piece) -> Generator[Piece, None, None]:
    flat = array.reshape(-1)
    for start in range(0, len(flat), _PIECE):
        yield flat[start : start + _PIECE]


def _npy(file: Path, table: str) -> Generator[Piece, None, None]:  # noqa: ARG001 - one signature
    yield from _pieces(np.load(file, mmap_mode="r", allow_pickle=False))


def _npz(file: Path, table: str) -> Generator[Piece, None, None]:
    with np.load(file, allow_pickle=False) as arrays:
        yield from _pieces(arrays[_chosen(list(arrays.files), file, table)])


def _csv(file: Path, table: str) -> Generator[Piece, None, None]:
    import pandas as pd

    names = [str(name) for name in pd.read_csv(file, nrows=0, skipinitialspace=True).columns]
    column = _chosen(names, file, table)
    with pd.read_csv(file, usecols=[column], dtype="Int64", chunksize=_PIECE, skipinitialspace=True) as parts:
        for part in parts:
            yield part[column].dropna().to_numpy(dtype=np.int64)


def _parquet(file: Path, table: str) -> Generator[Piece, None, None]:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    parquet = pq.ParquetFile(file)
    column = _chosen(list(parquet.schema_arrow.names), file, table)
    for batch in parquet.iter_batches(batch_size=_PIECE // 16, columns=[column]):
        values = batch.column(0)
        while hasattr(values.type, "value_type"):
            values = pc.list_flatten(values)
        yield values.drop_null().to_numpy(zero_copy_only=False)


_READERS: dict[str, Callable[[Path, str], Generator[Piece, None, None]]] = {
    ".npy": _npy, ".npz": _npz, ".csv": _csv, ".parquet": _parquet,
}  # fmt: skip

"""Files of measured indices: read in pieces, counted, and forgotten.

- ``.npy``: one array of whole numbers; ``.npz``: several, by name;
- ``.csv``: a header of names, a column of whole numbers for each (empty cells are left out);
- ``.parquet``: columns of whole numbers or of lists of them.

A file with one column or array is that of whatever table asks; else the table's name says which.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from math import prod
from pathlib import Path
from typing import IO, TypeAlias
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from inputs.errors import DlrmsimError, InfeasibleError, InputError, nearest_name
from inputs.given import cut
from simulator.program import IntArray
from workloads.dlrm.laws.counted_rows import CountedRows, count_rows

Piece: TypeAlias = NDArray[np.generic]

_PIECE = 4_000_000
"""Indices counted at a time: 32 MB."""

MAX_INDICES = 100_000_000
"""Most indices of a table in a file: counting takes 0.1 us for each, and 48 bytes for each row that differs."""
COUNTING_S, COUNTING_BYTES = 1e-7, 48
"""Time and memory to count an index, at most (sorted pieces; rows and lookups, old and new, int64)."""
_CSV_SAMPLE = 2**16
"""Bytes of a CSV from which the number of its rows is estimated."""

MAX_INDEX = 2**48
"""Rows of the largest table that anyone would want to count."""


def read_counts(file: Path, table: str) -> CountedRows:
    """Count the lookups of each row.

    Args:
        table: name of the table, where the file has several.

    Raises:
        InputError: the file is missing, of no known kind, broken, empty, lacks the table, or has something else than
            indices.
        InfeasibleError: it has more than `MAX_INDICES`; found before they are read where its head says so.
    """
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        raise InputError("not a file of indices", given=str(file), expected="one of " + ", ".join(sorted(_READERS)))
    if not file.is_file():
        raise InputError("no such file", given=str(file), expected="a file of indices")
    rows, lookups = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    try:
        with np.errstate(invalid="ignore"), closing(reader(file, table)) as pieces:  # numbers too large are refused
            count = 0
            for piece in pieces:
                count += piece.size
                _require_countable(count, file)
                rows, lookups = _added(rows, lookups, _whole(piece, file))
    except DlrmsimError:
        raise
    except MemoryError:
        raise InputError("has more than memory holds", file=file, expected="indices") from None
    except Exception as error:  # noqa: BLE001 - numpy, pandas and pyarrow raise what they like on broken files
        reason = f"cannot be read: {cut(str(error) or type(error).__name__)}"
        raise InputError(reason, file=file, expected="indices") from None
    if not len(rows):
        raise InputError("the file has no indices", file=file, expected="at least one index")
    return count_rows(rows, lookups)


def _require_countable(count: int, file: Path) -> None:
    """Check the number of indices in a file, as read or as its head says.

    Raises:
        InfeasibleError: they are too many; with the estimate.
    """
    if count > MAX_INDICES:
        raise InfeasibleError(
            f"{file} has {count:,} indices or more: counting them would take about {count * COUNTING_S:,.0f} s and up "
            f"to {count * COUNTING_BYTES / 1e9:,.1f} GB; a sample of at most {MAX_INDICES:,} says the same"
        )


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
    array = np.load(file, mmap_mode="r", allow_pickle=False)
    _require_countable(array.size, file)
    yield from _pieces(array)


def _npz(file: Path, table: str) -> Generator[Piece, None, None]:
    with np.load(file, allow_pickle=False) as arrays:
        name = _chosen(list(arrays.files), file, table)
        with ZipFile(file) as archive, archive.open(f"{name}.npy") as member:
            yield from _unpacked(member, file)


def _unpacked(member: IO[bytes], file: Path) -> Generator[Piece, None, None]:
    """Pieces of a compressed array, unpacked one by one.

    Raises:
        ValueError: it is no array of numbers, or shorter than its head says.
    """
    version = np.lib.format.read_magic(member)
    read_head = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_head(member)
    if dtype.hasobject:
        raise ValueError("an array of objects")
    left = prod(shape)
    _require_countable(left, file)
    while left > 0:
        count = min(left, _PIECE)
        raw = member.read(count * dtype.itemsize)
        if len(raw) < count * dtype.itemsize:
            raise ValueError("the array is shorter than its head says")
        yield np.frombuffer(raw, dtype=dtype)
        left -= count


def _csv(file: Path, table: str) -> Generator[Piece, None, None]:
    import pandas as pd

    with file.open("rb") as head:
        sample = head.read(_CSV_SAMPLE)
    _require_countable(file.stat().st_size * sample.count(b"\n") // max(len(sample), 1), file)
    names = [str(name) for name in pd.read_csv(file, nrows=0, skipinitialspace=True).columns]
    column = _chosen(names, file, table)
    with pd.read_csv(file, usecols=[column], dtype="Int64", chunksize=_PIECE, skipinitialspace=True) as parts:
        for part in parts:
            yield part[column].dropna().to_numpy(dtype=np.int64)


def _parquet(file: Path, table: str) -> Generator[Piece, None, None]:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    parquet = pq.ParquetFile(file)
    names = list(parquet.schema_arrow.names)
    column = _chosen(names, file, table)
    groups, place = (parquet.metadata.row_group(n) for n in range(parquet.num_row_groups)), names.index(column)
    _require_countable(sum(group.column(place).num_values for group in groups), file)
    for batch in parquet.iter_batches(batch_size=_PIECE // 16, columns=[column]):
        values = batch.column(0)
        while hasattr(values.type, "value_type"):
            values = pc.list_flatten(values)
        yield values.drop_null().to_numpy(zero_copy_only=False)


_READERS: dict[str, Callable[[Path, str], Generator[Piece, None, None]]] = {
    ".npy": _npy, ".npz": _npz, ".csv": _csv, ".parquet": _parquet,
}  # fmt: skip

"""Our own timeline.parquet: the programs that stand in its metadata, and importing a file of a run or an import."""

from __future__ import annotations

import zlib
from base64 import b85decode, b85encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from inputs.errors import InputError
from simulator.analysis.timeline import COLUMNS
from simulator.program import IntArray, TaskGraph
from traces.description import VERSION, About, described
from traces.imported import Gap, Imported, RankStep
from traces.rebuilding import Rows, check, import_rows
from traces.source import require_file

KEY = b"dlrmsim.programs"
_OURS = "a file that this version of dlrmsim wrote"


def program_metadata(
    graph: TaskGraph, ends_ps: IntArray, steps: Sequence[RankStep] = (), gaps: Sequence[Gap] = ()
) -> dict[bytes, bytes]:
    """Metadata of the file's schema from which a timeline can be imported again; arguments as of `described`."""
    return {KEY: packed(described(graph, ends_ps, steps, gaps))}


def packed(about: About) -> bytes:
    """A description as text without quotes, compressed."""
    return b85encode(zlib.compress(msgspec.json.encode(about), level=6))


class _Versioned(msgspec.Struct):
    version: Any = None


def unpacked(file: Path, stored: bytes | str) -> About:
    """The description that `packed` wrote.

    Raises:
        InputError: it cannot be read, contradicts itself, or is of another version.
    """
    try:
        text = zlib.decompress(b85decode(stored))
        version = msgspec.json.decode(text, type=_Versioned).version
        if version != VERSION:
            raise InputError("has programs of another version", file=file, given=version, expected=str(VERSION))
        about = msgspec.json.decode(text, type=About)
    except (ValueError, zlib.error, RecursionError) as error:
        raise InputError(f"has programs that cannot be read: {error}", file=file, expected=_OURS) from None
    check(file, about)
    return about


def import_parquet(files: Sequence[Path], ranks: Sequence[int] | None = None) -> Imported:
    """Import the timeline of one run.

    Args:
        files: one file.
        ranks: ranks to keep; default: all that were recorded.

    Raises:
        InputError: several files, or one that is no timeline of ours with its programs.
    """
    if len(files) != 1:
        raise InputError(
            "is one run; import one at a time", file=files[0], given=f"{len(files)} files", expected="one file"
        )
    about, table = _read(files[0], ranks)
    rows = Rows(*(_numbers(files[0], table, name) for name in ("rank", "iteration", "start_ps", "end_ps")))
    return import_rows(files, about, rows, "dlrmsim timeline")


def _read(file: Path, ranks: Sequence[int] | None) -> tuple[About, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    require_file(file)
    try:
        schema = pq.read_schema(file)
        stored = (schema.metadata or {}).get(KEY)
        if stored is None:
            raise InputError("has no programs in its metadata", file=file, expected=_EXPECTED)
        _check_schema(file, schema)
        filters = None if ranks is None else [("rank", "in", list(ranks))]
        table = pq.read_table(file, columns=list(COLUMNS), filters=filters)
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error)[:200].split())
        raise InputError(f"is no Parquet file that can be read: {reason}", file=file, expected=_EXPECTED) from None
    return unpacked(file, stored), table


_EXPECTED = "a timeline.parquet that dlrmsim run or dlrmsim import wrote"
_NAMES = ("task", "stream")
"""Columns of names; the others are whole numbers."""


def _check_schema(file: Path, schema: Any) -> None:
    """Check that each column stands once, with its type.

    Raises:
        InputError: one does not.
    """
    import pyarrow.types as kinds

    for name in COLUMNS:
        count = schema.names.count(name)
        if count != 1:
            message = "the column is missing" if count == 0 else "the column stands twice"
            raise InputError(message, file=file, key=name, expected=_EXPECTED)
        kind = schema.field(name).type
        is_names = kinds.is_dictionary(kind) and kinds.is_string(kind.value_type)
        if not (is_names if name in _NAMES else kinds.is_integer(kind)):
            expected = "text (dictionary)" if name in _NAMES else "whole numbers"
            raise InputError("a column of another type", file=file, key=name, given=str(kind), expected=expected)


def _numbers(file: Path, table: Any, name: str) -> IntArray:
    """A column of whole numbers, none of them null.

    Raises:
        InputError: one is null, or beyond 64 bits.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    column = table.column(name)
    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise InputError("wrong value", file=file, key=f"row {row}: {name}", given="nothing", expected="a whole number")
    try:
        found: IntArray = column.cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid as error:
        raise InputError(f"impossible value: {error}", file=file, key=name, expected="a whole number") from None
    return found

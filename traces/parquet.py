"""Our own timeline.parquet: the programs that stand in its metadata, and importing a file of a run or an import."""

from __future__ import annotations

import zlib
from base64 import b85decode, b85encode
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from inputs.errors import InputError
from simulator.analysis.timeline import COLUMNS
from simulator.engine import EngineRun
from simulator.program import IntArray, TaskGraph
from traces.description import VERSION, About, described
from traces.imported import Gap, Imported, RankStep
from traces.rebuilding import Rows, check, check_ranges, import_rows
from traces.source import require_file

if TYPE_CHECKING:
    import pandas as pd

KEY = b"dlrmsim.programs"
_OURS = "a file that this version of dlrmsim wrote"


def program_metadata(
    graph: TaskGraph,
    result: EngineRun,
    steps: Sequence[RankStep] = (),
    gaps: Sequence[Gap] = (),
    *,
    shared: bool = True,
) -> dict[bytes, bytes]:
    """Metadata of the file's schema from which a timeline can be imported again.

    Args:
        graph: the programs.
        result: the run, or measured times.
        steps: see `described`.
        gaps: see `described`.
        shared: whether ranks with the same times share rows, as `simulator.analysis.timeline_blocks` of all ranks does.
    """
    classes = [times.classes for times in result.records[-1].groups] if shared else []
    return {KEY: packed(described(graph, result.iteration_end_ps, steps, gaps, classes))}


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
    names = ("rank", "iteration", "start_ps", "end_ps")
    rank, iteration, start_ps, end_ps = (_numbers(files[0], table, name) for name in names)
    check_ranges(files[0], Rows(rank, iteration, start_ps, end_ps))
    owner, row = _rows_of_ranks(files[0], about, rank, ranks)
    return import_rows(files, about, Rows(owner, iteration[row], start_ps[row], end_ps[row]), "dlrmsim timeline")


def read_timeline(file: Path | str, ranks: Sequence[int] | None = None) -> pd.DataFrame:
    """A data frame of a ``timeline.parquet`` in which every rank has its own rows.

    Args:
        file: the file of a run, replay or import.
        ranks: ranks to keep; default: all that were recorded.

    Returns:
        The columns of the file without ``ranks``; rows in the order of the file, ranks that share rows one after the
        other.

    Raises:
        InputError: it is no such file, or it has no rows of these ranks.
    """
    about, table = _read(Path(file), ranks)
    owner, row = _rows_of_ranks(Path(file), about, _numbers(Path(file), table, "rank"), ranks)
    frame: pd.DataFrame = table.take(row).to_pandas()
    return frame.assign(rank=owner.astype("int32")).drop(columns="ranks")


def _rows_of_ranks(file: Path, about: About, rank: IntArray, ranks: Sequence[int] | None) -> tuple[IntArray, IntArray]:
    """Rank and row of the file for each row of every rank, whose rows may stand for other ranks too ``[N]`` each.

    Args:
        rank: rank of each row of the file.
        ranks: ranks wanted; None: all.

    Raises:
        InputError: rows that stand for a wanted rank are missing.
    """
    like = _like(about)
    if not like or not len(rank):
        return rank, np.arange(len(rank))
    wanted = None if ranks is None else set(ranks)
    members: dict[int, list[int]] = {}
    for own, first in like.items():
        if wanted is None or own in wanted:
            members.setdefault(first, []).append(own)
    absent = sorted(members.keys() - set(np.unique(rank).tolist()))
    if absent:
        stands = f"rows of rank {absent[0]}, which stand for rank {members[absent[0]][-1]}"
        raise InputError("has rows missing", file=file, given="none", expected=stands)
    owners, rows = [], []
    begins = np.flatnonzero(np.diff(rank, prepend=rank[0] - 1)).tolist()
    for begin, end in zip(begins, [*begins[1:], len(rank)], strict=True):
        own = int(rank[begin])
        for member in members.get(own, [own] if own not in like else []):
            owners.append(np.full(end - begin, member))
            rows.append(np.arange(begin, end))
    nothing = np.zeros(0, dtype=np.int64)
    return np.concatenate([nothing, *owners]), np.concatenate([nothing, *rows])


def _read(file: Path, ranks: Sequence[int] | None) -> tuple[About, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    require_file(file)
    try:
        schema = pq.read_schema(file)
        stored = (schema.metadata or {}).get(KEY)
        if stored is None:
            raise InputError("has no programs in its metadata", file=file, expected=_EXPECTED)
        about = unpacked(file, stored)
        _check_schema(file, schema)
        table = pq.read_table(file, columns=list(COLUMNS), filters=_with_rows(about, ranks))
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error)[:200].split())
        raise InputError(f"is no Parquet file that can be read: {reason}", file=file, expected=_EXPECTED) from None
    return about, table


def _with_rows(about: About, ranks: Sequence[int] | None) -> list[tuple[str, str, list[int]]] | None:
    """Filter of the ranks whose rows stand for these; None: all rows."""
    if ranks is None:
        return None
    like = _like(about)
    return [("rank", "in", sorted({like.get(rank, rank) for rank in ranks}))]


_EXPECTED = "a timeline.parquet that dlrmsim run or dlrmsim import wrote"


def _like(about: About) -> dict[int, int]:
    """Rank whose rows stand for each rank; empty where each has its own."""
    return {own: first for program in about.programs for own, first in zip(program.ranks, program.like, strict=False)}


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

"""Our own timeline.parquet: the programs that stand in its metadata, and importing a file of a run or an import."""

from __future__ import annotations

import json
import zlib
from base64 import b85decode, b85encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from inputs.errors import InputError
from simulator.analysis.timeline import COLUMNS
from simulator.program import IntArray, TaskGraph
from traces.description import described
from traces.imported import Gap, Imported, RankStep
from traces.rebuilding import Rows, check_version, import_rows
from traces.source import require_file

KEY = b"dlrmsim.programs"


def program_metadata(
    graph: TaskGraph, ends_ps: IntArray, steps: Sequence[RankStep] = (), gaps: Sequence[Gap] = ()
) -> dict[bytes, bytes]:
    """What a timeline needs to be imported again, for the file's schema; arguments as of `described`."""
    return {KEY: packed(described(graph, ends_ps, steps, gaps))}


def packed(about: Mapping[str, Any]) -> bytes:
    """JSON values as text without quotes, compressed."""
    return b85encode(zlib.compress(json.dumps(about, separators=(",", ":")).encode(), level=6))


def unpacked(file: Path, stored: bytes | str) -> Any:
    """What `packed` packed.

    Raises:
        InputError: it cannot be read, or is of another version.
    """
    try:
        about = json.loads(zlib.decompress(b85decode(stored)))
    except (ValueError, zlib.error) as error:
        raise InputError(f"has programs that cannot be read: {error}", file=file) from None
    check_version(file, about)
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
        raise InputError("is one run; import one at a time", file=files[0], given=f"{len(files)} files")
    about, table = _read(files[0], ranks)
    rows = Rows(*(table.column(name).to_numpy() for name in ("rank", "iteration", "start_ps", "end_ps")))
    return import_rows(files, about, rows, "dlrmsim timeline")


def _read(file: Path, ranks: Sequence[int] | None) -> tuple[Mapping[str, Any], Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    require_file(file)
    try:
        stored = (pq.read_schema(file).metadata or {}).get(KEY)
        filters = None if ranks is None else [("rank", "in", list(ranks))]
        table = pq.read_table(file, filters=filters)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"is no Parquet file that can be read: {str(error)[:200]}", file=file) from None
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing or stored is None:
        raise InputError(
            "has no programs in its metadata" if stored is None else f"has no column {missing[0]}",
            file=file,
            expected="a timeline.parquet that dlrmsim run or dlrmsim import wrote",
        )
    return unpacked(file, stored), table

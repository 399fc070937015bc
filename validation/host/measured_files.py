"""Files of a measurement, checked before anything is calculated from them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from inputs.errors import InputError
from inputs.given import shown
from inputs.typed import typed
from traces.typed import RankCount
from validation.host.ranges import LONGEST_S, MOST, SHORTEST_S, Cores, Duration, Text

if TYPE_CHECKING:  # loading it takes longer than a command line may take to start
    import pandas as pd

ENVIRONMENT, ITERATIONS, SUMMARY = "environment.json", "iterations.parquet", "measured.json"
_WRITTEN = "what this `dlrmsim measure` wrote"
_COLUMNS: Mapping[str, tuple[float, float]] = {
    "rank": (0, MOST), "iteration": (0, MOST), "page_faults": (0, MOST), "time_s": (SHORTEST_S, LONGEST_S),
    "iteration_time_s": (SHORTEST_S, LONGEST_S), "cpu_s": (0.0, LONGEST_S), "collectives_s": (0.0, LONGEST_S),
}  # fmt: skip
"""Columns of numbers with their least and most."""


class MeasuredSummary(msgspec.Struct):
    """The part of ``measured.json`` that is used."""

    scenario: Text
    world_size: RankCount
    device: str
    yardstick_s: Duration | None
    warnings: list[str]


class _Rank(msgspec.Struct):
    threads: Cores


class _Environment(msgspec.Struct):
    ranks: Annotated[list[_Rank], msgspec.Meta(min_length=1)]


def read_summary(folder: Path) -> Mapping[str, Any]:
    """Content of ``measured.json``.

    Raises:
        InputError: it is no JSON, or a value is not of its type or out of its range.
    """
    found = _json(folder / SUMMARY)
    typed(found, MeasuredSummary, folder / SUMMARY)
    return dict(found)


def threads_of_ranks(folder: Path) -> list[int]:
    """Threads of each rank, from ``environment.json``; raises as `read_summary`."""
    file = folder / ENVIRONMENT
    return [rank.threads for rank in typed(_json(file), _Environment, file).ranks]


def _json(file: Path) -> Any:
    try:
        return msgspec.json.decode(file.read_bytes())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=file, expected=_WRITTEN) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"is no JSON: {error}", file=file, expected=_WRITTEN) from None


def read_iterations(folder: Path, ranks: int) -> pd.DataFrame:
    """Rows of ``iterations.parquet``: all iterations of rank 0, then those of rank 1...

    Args:
        ranks: number of ranks.

    Raises:
        InputError: it is no such table, or a value is out of its range.
    """
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = folder / ITERATIONS
    try:
        names = pq.read_schema(file).names
        wrong = next((name for name in (*_COLUMNS, "phase") if names.count(name) != 1), None)
        if wrong is not None:
            raise InputError("the column is not there once", file=file, key=wrong, expected=_WRITTEN)
        table = pq.read_table(file, columns=[*_COLUMNS, "phase"])
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error)[:200].split())
        raise InputError(f"is no Parquet file that can be read: {reason}", file=file, expected=_WRITTEN) from None
    columns = {name: _numbers(file, table.column(name), name) for name in _COLUMNS}
    columns["phase"] = np.array(_texts(file, table.column("phase")))
    _require_all_iterations(file, columns, ranks)
    return pd.DataFrame(columns)


def _numbers(file: Path, column: Any, name: str) -> np.ndarray[Any, Any]:
    """A column of numbers in their range.

    Raises:
        InputError: one is missing, no number, or out of range.
    """
    import pyarrow.types as kinds

    least, most = _COLUMNS[name]
    expected = f"a number, {least:g} to {most:g}"
    if not (kinds.is_integer(column.type) or (kinds.is_floating(column.type) and name.endswith("_s"))):
        raise InputError("a column of another type", file=file, key=name, given=str(column.type), expected=expected)
    found: np.ndarray[Any, Any] = column.to_numpy()  # nan where there is none
    wrong = np.flatnonzero(~((found >= least) & (found <= most)))
    if len(wrong):
        key, given = f"row {wrong[0]}: {name}", shown(found[wrong[0]].item())
        raise InputError("impossible value", file=file, key=key, given=given, expected=expected)
    return found


def _texts(file: Path, column: Any) -> list[str]:
    found = column.to_pylist()
    wrong = next((row for row, value in enumerate(found) if not isinstance(value, str)), None)
    if wrong is not None:
        given = shown(found[wrong])
        raise InputError("wrong type", file=file, key=f"row {wrong}: phase", given=given, expected="the stage's name")
    return list(found)


def _require_all_iterations(file: Path, columns: Mapping[str, np.ndarray[Any, Any]], ranks: int) -> None:
    """Check that each rank has the same iterations in the same stages, and some were measured.

    Raises:
        InputError: one has not.
    """
    count = len(columns["rank"]) // ranks
    expected = f"iterations 0, 1... of each of {ranks} ranks, rank by rank, some of them measured"
    stages = columns["phase"][:count]
    if (
        count * ranks != len(columns["rank"])
        or not np.array_equal(columns["rank"], np.repeat(np.arange(ranks), count))
        or not np.array_equal(columns["iteration"], np.tile(np.arange(count), ranks))
        or not np.array_equal(columns["phase"], np.tile(stages, ranks))
        or "measured" not in stages
        or "timed" not in stages
    ):
        given = f"{len(columns['rank'])} rows"
        raise InputError("lacks iterations of ranks", file=file, given=given, expected=expected)

"""Imports Chrome traces that `dlrmsim export` wrote, without loss: they carry their programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
import numpy as np

from inputs.errors import InputError
from simulator.program import IntArray
from traces.chrome import KEY, PS_PER_US
from traces.description import About
from traces.imported import Imported
from traces.json_array import JsonArray
from traces.parquet import unpacked
from traces.rebuilding import LONGEST_PS, Rows, import_rows
from traces.typed import ONE_EACH, Rank

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
"""A number of a task or an iteration."""
_LONGEST_US = LONGEST_PS / PS_PER_US
TimeUs: TypeAlias = Annotated[float, msgspec.Meta(ge=-_LONGEST_US, le=_LONGEST_US)]
LengthUs: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=_LONGEST_US)]


class TaskArgs(msgspec.Struct, gc=False):
    """The task of an event."""

    task: Number | None = None
    iteration: Number = 0


class TaskEvent(msgspec.Struct, gc=False):
    """One event of ``traceEvents``."""

    ph: str = ""
    pid: Rank = 0
    ts: TimeUs = 0.0
    dur: LengthUs = 0.0
    args: TaskArgs | None = None


def import_chrome(files: Sequence[Path], ranks: Sequence[int] | None = None) -> Imported:
    """Import the traces of one job.

    Args:
        files: one per rank.
        ranks: ranks to keep; default: all.

    Raises:
        InputError: a file is no such trace, or two are of one rank.
        ProgramError: ranks disagree on a collective.
    """
    abouts, columns = [], []
    source: dict[int, Path] = {}
    for file in files:
        about, own = _read(file)
        for rank in np.unique(own[0]).tolist():
            if rank in source:
                raise InputError(f"is of rank {rank}, and so is {source[rank]}", file=file, expected=ONE_EACH)
            source[rank] = file
        abouts.append(about)
        columns.append(own)
    table = np.concatenate(columns, axis=1)
    if ranks is not None:
        table = table[:, np.isin(table[0], np.array(list(ranks)))]
    return import_rows(files, _joined(abouts), Rows(*table[[0, 1, 3, 4]]), "dlrmsim Chrome trace")


def _read(file: Path) -> tuple[About, IntArray]:
    """Description of a file's programs, and rank, iteration, task, start and end of its tasks in order ``[5, N]``."""
    array = JsonArray(file, "traceEvents", TaskEvent)
    rows = []
    for batch in array.batches():
        for event in batch:
            if event.ph == "X" and event.args is not None and event.args.task is not None:
                start = round(event.ts * PS_PER_US)
                end = start + round(event.dur * PS_PER_US)
                rows.append((event.pid, event.args.iteration, event.args.task, start, end))
    stored = array.head.get(KEY)
    if not isinstance(stored, str):
        raise InputError("has no programs in its head", file=file, key=KEY, expected="a trace of dlrmsim export")
    table = np.array(sorted(rows), dtype=np.int64).reshape(-1, 5).T
    return unpacked(file, stored), table


def _joined(abouts: Sequence[About]) -> About:
    """The programs of all files."""
    return msgspec.structs.replace(
        abouts[0],
        verbatim=all(about.verbatim for about in abouts),
        programs=[program for about in abouts for program in about.programs],
        steps=[step for about in abouts for step in about.steps],
    )

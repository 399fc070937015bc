"""The timeline: one row per rank, iteration and task, as columns; ranks with the same times may share their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simulator.arrow_columns import arrow_names, arrow_numbers
from simulator.categories import Category
from simulator.engine.records import EngineRun, GroupTimes, IterationRecord
from simulator.program import IntArray, Program

if TYPE_CHECKING:  # both take longer to import than the command line may take to start
    import pandas as pd
    import pyarrow as pa

Int32Array: TypeAlias = NDArray[np.int32]

RANKS_PER_BLOCK = 512
"""Ranks with rows per block of a streamed timeline, and per Parquet row group: some 150,000 rows for 300 tasks."""


@dataclass(frozen=True, slots=True)
class Symbols:
    """Meaning of the numbers in the columns ``task`` and ``stream``.

    Programs that share a task name share its symbol; section and category are the first program's.
    """

    tasks: tuple[str, ...]
    sections: tuple[str, ...]
    categories: tuple[Category, ...]
    streams: tuple[str, ...]

    @classmethod
    def of(cls, programs: Sequence[Program]) -> Symbols:
        """Number the tasks and streams of all programs, in program order."""
        tasks: dict[str, tuple[str, Category]] = {}
        for program in programs:
            for name, section, category in zip(program.names, program.sections, program.categories, strict=True):
                tasks.setdefault(name, (section, category))
        streams = dict.fromkeys(stream.name for program in programs for stream in program.streams)
        sections, categories = zip(*tasks.values(), strict=True) if tasks else ((), ())
        return cls(tuple(tasks), sections, categories, tuple(streams))


@dataclass(frozen=True, slots=True)
class Timeline:
    """Columns of N rows, ordered by iteration, group, rank and task.

    Attributes:
        symbols: names of the numbered tasks and streams.
        rank: global rank ``[N]``.
        ranks: number of ranks whose row it is, all with the same times; ``rank`` is the lowest of them ``[N]``.
        iteration: ``[N]``.
        task: number into ``symbols.tasks`` ``[N]``.
        stream: number into ``symbols.streams`` ``[N]``.
        start_ps: start; of a collective: the rank's arrival ``[N]``.
        end_ps: end ``[N]``.
        waiting_ps: part of a collective before the last member's arrival ``[N]``.
    """

    symbols: Symbols
    rank: Int32Array
    ranks: Int32Array
    iteration: Int32Array
    task: Int32Array
    stream: Int32Array
    start_ps: IntArray
    end_ps: IntArray
    waiting_ps: IntArray

    @classmethod
    def from_run(
        cls, programs: Sequence[Program], result: EngineRun, *, ranks: Iterable[int] | None = None
    ) -> Timeline:
        """All recorded rows of ``ranks`` (default: every rank) in memory, each rank's own, 44 bytes a row.

        Args:
            programs: the program of each group, in the run's group order.
            ranks: global rank numbers; those the run does not have are ignored.
        """
        wanted = result.ranks if ranks is None else np.unique(np.fromiter(ranks, dtype=np.int64))
        return cls.concatenate(list(timeline_blocks(programs, result, ranks=wanted)))

    @classmethod
    def empty(cls, symbols: Symbols) -> Timeline:
        """No rows."""
        few, wide = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
        return cls(symbols, few, few, few, few, few, wide, wide, wide)

    @classmethod
    def concatenate(cls, blocks: Sequence[Timeline]) -> Timeline:
        """One timeline out of blocks that share their symbols."""
        columns = [np.concatenate([getattr(block, name) for block in blocks]) for name in COLUMNS]
        return cls(blocks[0].symbols, *columns)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.rank)

    def select(self, *, ranks: Iterable[int]) -> Timeline:
        """The rows of the given global ranks, in the same order."""
        keep = np.isin(self.rank, np.fromiter(ranks, dtype=np.int32))
        return Timeline(self.symbols, *(getattr(self, name)[keep] for name in COLUMNS))

    def to_arrow(self) -> pa.Table:
        """A pyarrow table; task and stream are dictionary columns."""
        import pyarrow as pa

        columns = {name: arrow_numbers(getattr(self, name)) for name in COLUMNS}
        columns["task"] = arrow_names(self.task, self.symbols.tasks)
        columns["stream"] = arrow_names(self.stream, self.symbols.streams)
        return pa.Table.from_arrays(list(columns.values()), names=list(columns))

    def to_pandas(self) -> pd.DataFrame:
        """A data frame; task and stream are categorical."""
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame


COLUMNS = ("rank", "ranks", "iteration", "task", "stream", "start_ps", "end_ps", "waiting_ps")
"""The columns, in order."""


def timeline_blocks(
    programs: Sequence[Program],
    result: EngineRun,
    *,
    ranks: IntArray | None = None,
    ranks_per_block: int = RANKS_PER_BLOCK,
) -> Iterator[Timeline]:
    """The recorded rows, a block of ranks at a time; one empty block when no rank is wanted.

    Args:
        programs: the program of each group, in the run's group order.
        ranks: global ranks wanted, each with its own rows; default: all ranks; ranks with the same times share rows.
    """
    symbols = Symbols.of(programs)
    for record in result.records:
        for program, times in zip(programs, record.groups, strict=True):
            columns = times.classes.first if ranks is None else np.flatnonzero(np.isin(program.ranks, ranks))
            for first in range(0, len(columns), ranks_per_block):
                of_block = columns[first : first + ranks_per_block]
                yield _block(symbols, program, record, times, of_block, shared=ranks is None)
    if ranks is not None and not np.isin(result.ranks, ranks).any():
        yield Timeline.empty(symbols)


def _block(
    symbols: Symbols,
    program: Program,
    record: IterationRecord,
    times: GroupTimes,
    columns: IntArray,
    *,
    shared: bool,
) -> Timeline:
    task_numbers = {name: number for number, name in enumerate(symbols.tasks)}
    stream_numbers = {name: number for number, name in enumerate(symbols.streams)}
    tasks = np.array([task_numbers[name] for name in program.names], dtype=np.int32)
    streams = np.array([stream_numbers[stream.name] for stream in program.streams], dtype=np.int32)
    rows, own = len(tasks) * len(columns), times.classes.of_rank[columns]
    numbers = times.classes.sizes[own] if shared else np.ones(len(own), dtype=np.int64)
    return Timeline(
        symbols,
        rank=np.repeat(program.ranks[columns].astype(np.int32), len(tasks)),
        ranks=np.repeat(numbers.astype(np.int32), len(tasks)),
        iteration=np.full(rows, record.iteration, dtype=np.int32),
        task=np.tile(tasks, len(columns)),
        stream=np.tile(streams[program.stream_of], len(columns)),
        start_ps=times.class_start_ps[:, own].T.ravel(),
        end_ps=times.class_end_ps[:, own].T.ravel(),
        waiting_ps=times.class_waiting_ps[:, own].T.ravel(),
    )


def write_parquet(blocks: Iterable[Timeline], path: Path, *, metadata: Mapping[bytes, bytes] | None = None) -> int:
    """Write blocks as row groups of one Parquet file and return the number of rows.

    ``metadata`` goes into the file's schema.

    Times are delta encoded, numbers and names dictionary encoded, all compressed with zstd.

    Raises:
        ValueError: there is no block, so the schema is unknown.
    """
    import pyarrow.parquet as pq

    writer, rows = None, 0
    try:
        for block in blocks:
            table = block.to_arrow().replace_schema_metadata(metadata)
            if writer is None:
                writer = pq.ParquetWriter(path, table.schema, **_ENCODING)
            writer.write_table(table, row_group_size=max(len(block), 1))
            rows += len(block)
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        raise ValueError("a timeline without blocks has no schema to write")
    return rows


_ENCODING = {
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": ["rank", "ranks", "iteration", "task", "stream"],
    "column_encoding": dict.fromkeys(("start_ps", "end_ps", "waiting_ps"), "DELTA_BINARY_PACKED"),
}

"""An import as files of other formats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from inputs.errors import InputError
from simulator.analysis import Timeline, timeline_blocks, write_parquet
from simulator.program import TaskGraph
from traces.chrome import chrome_trace, write_chrome_trace
from traces.description import described
from traces.imported import Imported
from traces.measured import MeasuredRun
from traces.parquet import packed, program_metadata
from traces.replay.job import amounts_of


def write_timeline(imported: Imported, path: Path) -> None:
    """Write an import as our own Parquet file.

    Raises:
        InputError: it has no times.
    """
    measured = with_times(imported)
    blocks = timeline_blocks(measured.graph.programs, measured.result)
    metadata = program_metadata(measured.graph, measured.result, imported.steps, imported.gaps)
    write_parquet(blocks, path, metadata=metadata)


def with_times(imported: Imported) -> MeasuredRun:
    """The times of an import.

    Raises:
        InputError: it has none.
    """
    if imported.measured is None:
        raise InputError(
            "has no times to export",
            file=imported.files[0],
            given=imported.format,
            expected="a trace with times, or a folder that `dlrmsim replay --cluster NAME --out` wrote",
        )
    return imported.measured


def write_chrome(imported: Imported, folder: Path) -> None:
    """Write ``rankN.json.gz`` of each rank, in the shape of Kineto's traces.

    Raises:
        InputError: it has no times.
    """
    measured = with_times(imported)
    for program in measured.graph.programs:
        for rank in program.ranks.tolist():
            timeline = Timeline.from_run(measured.graph.programs, measured.result, ranks=[rank])
            graph = _of_rank(measured.graph, rank)
            steps = [step for step in imported.steps if step.rank == rank]
            about = described(graph, measured.result.iteration_end_ps, steps, imported.gaps)
            trace = chrome_trace(
                measured.graph,
                timeline,
                name=f"rank {rank}",
                steps=steps,
                device=imported.device,
                world_size=imported.world_size,
                programs=packed(about).decode("ascii"),
            )
            write_chrome_trace(trace, folder / f"rank{rank}.json.gz")


def _of_rank(graph: TaskGraph, rank: int) -> TaskGraph:
    program = next(program for program in graph.programs if rank in program.ranks)
    column = np.flatnonzero(program.ranks == rank)
    alone = replace(program, ranks=program.ranks[column], work=tuple(amounts_of(w, column) for w in program.work))
    return replace(graph, programs=(alone,))

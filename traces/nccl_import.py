"""Imports logs of nccl-tests: timed collectives, without ranks' programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from simulator.program import TaskGraph
from traces.imported import Gap, Imported
from traces.nccl_tests import read_timed_collectives


def import_nccl_tests(files: Sequence[Path], ranks: Sequence[int] | None = None, op: str | None = None) -> Imported:  # noqa: ARG001 - a log has no ranks to choose
    """Import logs.

    Raises:
        InputError: a file is no such log; with the line.
    """
    rows = tuple(row for file in files for row in read_timed_collectives(file, op))
    counts = Counter(f"sizes of {row.op}" for row in rows)
    what = "programs of ranks: a log of nccl-tests has times of collectives only, nothing to replay"
    return Imported(
        format="nccl-tests log",
        files=tuple(files),
        graph=TaskGraph((), {}),
        world_size=max(row.nodes * row.ranks_per_node for row in rows),
        found={"logs": len(files), **counts},
        gaps=(Gap(what, 0, ()),),
        collectives=rows,
    )

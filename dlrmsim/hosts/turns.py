"""Training of drawn jobs by turns for a time, each kept as soon as it is trained."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlrmsim.output.kept import Kept
from trainer.bench.series import by_turns, started_by_turns
from trainer.process.runs import Run


@dataclass(frozen=True, slots=True)
class Training:
    """Jobs to train.

    Attributes:
        run: how each number of ranks trains.
        folders: folders of jobs by number of ranks, each with a scenario.
        root: folder of theirs.
        seconds: training time, process start included.
        fewest: number of jobs that are trained however long they take.
        question: text on which all of it depends, but the number of ranks and the name of a folder.
    """

    run: Run
    folders: Mapping[int, Sequence[Path]]
    root: Path
    seconds: float
    fewest: int
    question: str

    def asked(self, ranks: int, folder: Path) -> str:
        """Question of a job."""
        return f"{self.question}\n{folder.name} on {ranks} ranks"


def trained_by_turns(training: Training, kept: Kept, record: Callable[[int, Path], Any]) -> dict[tuple[int, Path], Any]:
    """Records of the jobs that were trained in the time, those of an interrupted run first, which had a part of it.

    Args:
        record: reads the files that ranks have left in a folder, as JSON values.

    Raises:
        RankFailedError: a rank died.
    """
    asked = {(ranks, at): training.asked(ranks, at) for ranks, folders in training.folders.items() for at in folders}
    known = {job: kept.found(question) for job, question in asked.items() if kept.knows(question)}
    left = {ranks: [at for at in of if (ranks, at) not in known] for ranks, of in training.folders.items()}

    def late() -> bool:
        """Whether the time is over; reading records takes nothing from it."""
        spent_s = sum(entry["seconds"] for entry in known.values())
        return bool(spent_s >= training.seconds) and len(known) >= training.fewest

    every = {ranks for ranks, _ in known} == set(left)
    if all(left.values()) and not (late() and every):
        begin = time.perf_counter()
        with started_by_turns(dict.fromkeys(left, training.run), left, training.root) as series:
            for ranks, at in by_turns(series, late):
                seconds = time.perf_counter() - begin
                entry = {"record": record(ranks, at), "seconds": seconds}
                known[ranks, at] = kept.add(asked[ranks, at], entry)
                begin = time.perf_counter()
    return {job: entry["record"] for job, entry in known.items()}

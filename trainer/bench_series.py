"""Series of scenarios that the same ranks train, and groups of ranks that do so by turns. Needs no PyTorch."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from trainer.launch import Ranks, started_ranks
from trainer.pin import usable_cores
from trainer.runs import Run

SCENARIO = "scenario.resolved.yaml"
"""The scenario in each folder."""


def done_file(folder: Path, rank: int) -> Path:
    """The file that tells that a rank has trained a folder's scenario and left nothing running."""
    return folder / f"rank{rank}.done"


@dataclass(slots=True)
class Series:
    """Ranks and the folders whose scenarios they train, one each turn.

    Attributes:
        ranks: those that train.
        folders: each with a scenario; takes its record.
        done: how many were trained.
    """

    ranks: Ranks
    folders: Sequence[Path]
    done: int = 0

    def turn(self) -> None:
        """Train the next one; raises as `trainer.launch.started_ranks`."""
        ended = [done_file(self.folders[self.done], rank) for rank in range(len(self.ranks.processes))]
        for file in ended:
            file.unlink(missing_ok=True)
        self.ranks.turn(lambda: all(file.is_file() for file in ended))
        self.done += 1

    @property
    def left(self) -> bool:
        """Whether there are more to train."""
        return self.done < len(self.folders)


@contextmanager
def started_series(run: Run, ranks: int, folders: Sequence[Path], root: Path) -> Iterator[Series]:
    """Ranks that wait for their first turn, on all cores; they are ended when this is left.

    Args:
        run: how each is trained.
        ranks: how many.
        folders: each with a scenario.
        root: where to write what the ranks read.

    Raises:
        InputError: as `trainer.launch.started_ranks`.
        RankFailedError: likewise.
    """
    file = root / f"series_{ranks}.json"
    file.write_text(json.dumps([str(folder) for folder in folders]), encoding="utf-8")
    with started_ranks(replace(run, scenario=file, out=root), ranks, usable_cores(), "trainer.series") as started:
        yield Series(started, folders)


@contextmanager
def started_by_turns(
    runs: Mapping[int, Run], folders: Mapping[int, Sequence[Path]], root: Path
) -> Iterator[Mapping[int, Series]]:
    """Series of several numbers of ranks, each started and trained once on its first folder, which is trained anew.

    Args:
        runs: how each number of ranks trains.
        folders: of each number of ranks.
        root: where to write what the ranks read.

    Raises:
        InputError: as `started_series`.
        RankFailedError: likewise.
    """
    with ExitStack() as stack:
        series = {
            ranks: stack.enter_context(started_series(runs[ranks], ranks, [of_ranks[0], *of_ranks], root))
            for ranks, of_ranks in folders.items()
        }
        for of_ranks in series.values():  # PyTorch is loaded; on GPUs profilers start
            of_ranks.turn()
        yield series


def by_turns(series: Mapping[int, Series], late: Callable[[], bool]) -> Iterator[tuple[int, Path]]:
    """Let those train that have had the least time, until it is late and all have trained, or one has no folder left.

    Yields:
        The number of ranks and the folder that they have trained.
    """
    taken_s = dict.fromkeys(series, 0.0)
    while all(of.left for of in series.values()) and not (late() and min(taken_s.values()) > 0.0):
        ranks = min(taken_s, key=taken_s.__getitem__)
        begin, folder = time.perf_counter(), series[ranks].folders[series[ranks].done]
        series[ranks].turn()
        taken_s[ranks] += time.perf_counter() - begin
        yield ranks, folder

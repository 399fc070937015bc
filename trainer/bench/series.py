"""Series of scenarios that the same ranks train, and groups of ranks that do so by turns.

The launcher's part needs no PyTorch. Each rank is ``python -m trainer.bench.series FILE``: the file, in place of a
scenario, lists folders, and each has a scenario and takes its record. On CPUs a process of its own trains each
scenario, as jobs are trained: one that has trained others is slower (`docs/decisions/079`). That is a child of one that
has loaded PyTorch, which takes longer than to train.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.process.launch import Ranks, started_ranks
from trainer.process.launcher_turns import wait_for_turn
from trainer.process.pin import usable_cores
from trainer.process.rank import begun, do_part, in_child, own_rank
from trainer.process.runs import Run

if TYPE_CHECKING:  # the launcher needs no PyTorch
    import torch

SCENARIO = "scenario.resolved.yaml"
"""The scenario in each folder."""


def done_file(folder: Path, rank: int) -> Path:
    """The file that a rank leaves when it has trained a folder's scenario and nothing of it runs any more."""
    return folder / f"rank{rank}.done"


@dataclass(slots=True)
class Series:
    """Ranks and the folders whose scenarios they train, one each turn.

    Attributes:
        ranks: processes that train.
        folders: each with a scenario; takes its record.
        done: number of trained folders.
    """

    ranks: Ranks
    folders: Sequence[Path]
    done: int = 0

    def turn(self) -> None:
        """Train the next one; raises as `trainer.process.launch.started_ranks`."""
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

    Raises as `trainer.process.launch.started_ranks`.

    Args:
        folders: each with a scenario.
        root: folder for the file that the ranks read.
    """
    file = root / f"series_{ranks}.json"
    file.write_text(json.dumps([str(folder) for folder in folders]), encoding="utf-8")
    with started_ranks(replace(run, scenario=file, out=root), ranks, usable_cores(), "trainer.bench.series") as started:
        yield Series(started, folders)


@contextmanager
def started_by_turns(
    runs: Mapping[int, Run], folders: Mapping[int, Sequence[Path]], root: Path
) -> Iterator[Mapping[int, Series]]:
    """Series of several numbers of ranks, each started and warmed up on its first folder, which it then trains again.

    Raises as `started_series`.

    Args:
        runs: how each number of ranks trains.
        folders: folders by number of ranks.
        root: folder for the file that the ranks read.
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


def train_each(run: Run) -> int:
    """Train one scenario after the other as ``run`` says, each at a turn of this group; returns an exit code."""
    import trainer.loop  # noqa: F401 - loads PyTorch before the first fork

    for number, name in enumerate(json.loads(run.scenario.read_text(encoding="utf-8"))):
        wait_for_turn()
        folder = Path(name)
        meeting = run.rendezvous.with_name(f"{run.rendezvous.name}_{number}") if run.rendezvous else None
        one = replace(run, scenario=folder / SCENARIO, out=folder, rendezvous=meeting)
        code = do_part(_train, one) if run.device == "cuda" else in_child(partial(do_part, _train, one))
        if code < 0:
            os.kill(os.getpid(), -code)  # as the child ended
        if code:
            return code
        done_file(folder, own_rank()).touch()
    return 0


def _train(run: Run, rank: int, device: torch.device) -> None:
    from trainer.job import read_job
    from trainer.loop import train

    train(read_job(run.scenario), run, rank, device)
    if device.type == "cuda":  # the next one trains in the same process, and others on the same GPU
        import torch

        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(train_each(begun()))

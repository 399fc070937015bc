"""Has a job trained under several plans by turns (`trainer.rounds`). Needs no PyTorch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trainer.launch import run_ranks
from trainer.pin import usable_cores
from trainer.runs import Run


def train_in_rounds(run: Run, ranks: int, folders: Sequence[Path], rounds: Sequence[Sequence[int]], root: Path) -> None:
    """Train a job under several plans; each folder takes its ranks' records, one iteration after the other.

    Args:
        run: how often a plan is trained in each turn: iterations that warm up, then those that count.
        ranks: how many, on all cores.
        folders: of the plans, each with a scenario; they differ in their plans alone, and take the same batches.
        rounds: places in ``folders``, in the order of turns in each round.
        root: where to write what the ranks read.

    Raises:
        InputError: as `trainer.launch.started_ranks`.
        RankFailedError: likewise.
    """
    file = root / "rounds.json"
    file.write_text(json.dumps({"folders": [str(folder) for folder in folders], "rounds": rounds}), encoding="utf-8")
    run_ranks(replace(run, scenario=file, out=root), ranks, usable_cores(), "trainer.rounds")

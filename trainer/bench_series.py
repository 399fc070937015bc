"""What `trainer.series` is asked to train. Needs no PyTorch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

SCENARIO = "scenario.resolved.yaml"
"""The scenario in each folder."""


def write_series(file: Path, folders: Sequence[Path], seconds: float) -> None:
    """Write where the scenarios are, and after how many seconds none is begun any more."""
    file.write_text(json.dumps({"folders": [str(folder) for folder in folders], "seconds": seconds}), encoding="utf-8")

"""Two runs or traces beside each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from inputs.errors import InputError
from reports.comparison import Difference, differences


def compare(first: Path, second: Path) -> tuple[Difference, ...]:
    """What differs between two output folders or traces.

    Args:
        first: a folder that `run` or `import` wrote, or a trace with times.
        second: another.

    Raises:
        InputError: neither, or a trace without times.
    """
    return differences(_summary(first), _summary(second))


def _summary(path: Path) -> dict[str, Any]:
    if path.is_dir():
        return _written(path / "summary.json")
    from dlrmsim.verbs.import_traces import run_import

    finished = run_import([path])
    if finished.analysis is None:
        raise InputError("has no times to compare", file=path, given=finished.imported.format)
    return finished.summary


def _written(file: Path) -> dict[str, Any]:
    try:
        summary = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=file, expected="a folder of run or import") from None
    except ValueError as error:
        raise InputError(f"is no JSON: {error}", file=file) from None
    if not isinstance(summary, dict) or "iteration_time_s" not in summary:
        raise InputError(
            "has no times to compare", file=file, expected="summary.json of run, or of an import with times"
        )
    return summary

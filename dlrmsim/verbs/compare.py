"""``compare``: two runs or traces beside each other."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from dlrmsim.verbs.what import Name
from inputs.errors import InputError
from inputs.typed import typed
from reports.comparison import Difference, Summary, differences
from scenarios.progress import Progress


@dataclass(frozen=True, slots=True)
class CompareResult:
    """Two runs or traces.

    Attributes:
        differences: iteration, its parts, latencies of requests, then collectives and kernels by descending change.
    """

    differences: tuple[Difference, ...]


def compare(what: Name, against: Name, *, progress: Progress | None = None) -> CompareResult:
    """Compare two output folders or traces.

    Args:
        what: a folder that `run` or `import_traces` wrote, or a trace with times.
        against: another.

    Raises:
        InputError: neither, or a trace without times.
    """
    return CompareResult(differences(_summary(Path(what), progress), _summary(Path(against), progress)))


def _summary(path: Path, progress: Progress | None) -> dict[str, Any]:
    """The summary of a folder or trace; with a timeline it has all operators instead of the longest ones."""
    summary = _written(path / "summary.json") if path.is_dir() else {}
    timeline = path / "timeline.parquet" if path.is_dir() else path
    if path.is_dir() and ("operators" not in summary or not timeline.exists()):
        return summary
    from dlrmsim.verbs.import_traces import import_traces

    found = import_traces(timeline, progress=progress)
    if found.analysis is None:
        raise InputError(
            "has no times to compare", file=path, given=found.imported.format, expected="traces with times"
        )
    operators = [asdict(row) for row in found.analysis.operators]
    return {**(summary or found.summary), "operators": operators, "operators_are_all": True}


def _written(file: Path) -> dict[str, Any]:
    try:
        summary = msgspec.json.decode(file.read_bytes())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=file, expected="a folder of run or import") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"is no JSON: {error}", file=file, expected="summary.json of run or import") from None
    if not isinstance(summary, dict) or "iteration_time_s" not in summary:
        raise InputError(
            "has no times to compare", file=file, expected="summary.json of run, or of an import with times"
        )
    typed(summary, Summary, file)
    return summary

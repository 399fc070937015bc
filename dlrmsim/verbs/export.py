"""Exports of runs and traces: Chrome traces, Chakra execution traces, Parquet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlrmsim.output.environment import environment
from dlrmsim.output.folders import RECORD_FILE, TOOL, folder_written_whole, require_replaceable
from dlrmsim.output.results import write_json
from inputs.errors import InputError, nearest_name
from scenarios.progress import Progress, Silent
from traces.chakra.writer import write_chakra
from traces.export import write_chrome, write_timeline
from traces.formats import import_traces
from traces.imported import Imported


@dataclass(frozen=True, slots=True)
class Exported:
    """An export: what was read and the files it became."""

    imported: Imported
    folder: Path
    files: tuple[Path, ...]


def _parquet(imported: Imported, folder: Path) -> None:
    write_timeline(imported, folder / "timeline.parquet")


WRITERS: dict[str, Callable[[Imported, Path], None]] = {
    "chrome": write_chrome,
    "chakra": write_chakra,
    "parquet": _parquet,
}
"""What writes each format into a folder."""


def run_export(
    sources: Sequence[Path],
    form: str,
    out: Path,
    *,
    ranks: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> Exported:
    """Export a run or the traces of a job into ``out/FORMAT``, whole or not at all.

    Args:
        sources: a folder that `run`, `import` or `replay` wrote, or traces.
        form: key of `WRITERS`.
        out: the folder.
        ranks: ranks to keep; default: all.
        progress: told what is being done.

    Raises:
        InputError: no such format, a trace is wrong or has nothing to export, or ``out`` may not be written.
    """
    if form not in WRITERS:
        expected, near = f"one of {', '.join(WRITERS)}", nearest_name(form, WRITERS)
        raise InputError("no such format", file="--format", given=form, expected=expected, nearest=near)
    progress = progress or Silent()
    require_replaceable(out)
    progress.stage("reading traces")
    imported = import_traces([_timeline_of(source) for source in sources], ranks)
    progress.stage("writing results")
    with folder_written_whole(out) as partial:
        (partial / form).mkdir()
        WRITERS[form](imported, partial / form)
        names = sorted(path.name for path in (partial / form).iterdir())
        if not names:
            raise InputError("has no programs to export", file=imported.files[0], given=imported.format)
        record = {"tool": TOOL, "files": [form, RECORD_FILE], "exported_from": [str(file) for file in imported.files]}
        write_json(partial / RECORD_FILE, record | environment())
    return Exported(imported, out, tuple(out / form / name for name in names))


def _timeline_of(source: Path) -> Path:
    """The timeline in a folder of ours; a file is itself."""
    if not source.is_dir():
        return source
    timeline = source / "timeline.parquet"
    if not timeline.exists():
        raise InputError(
            "has no timeline.parquet", file=source, expected="a folder of run, import or replay, or traces"
        )
    return timeline

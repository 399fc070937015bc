"""``export``: runs and traces as Chrome traces, Chakra execution traces, or Parquet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlrmsim.output.captured_job import JOB_FILE, SCENARIO_FILE
from dlrmsim.output.folders import folder_written_whole, replaceable
from dlrmsim.output.record import write_record
from dlrmsim.verbs.what import Name, Names, paths_of
from inputs.errors import InputError, nearest_name
from scenarios.progress import Progress, Silent
from traces.chakra.writer import write_chakra
from traces.export import write_chrome, write_timeline
from traces.formats import import_traces
from traces.imported import Imported


@dataclass(frozen=True, slots=True)
class ExportResult:
    """An export.

    Attributes:
        folder: its output folder.
        imported: the runs or traces.
        files: the files in the folder of the format.
    """

    folder: Path
    imported: Imported
    files: tuple[Path, ...]


def _parquet(imported: Imported, folder: Path) -> None:
    write_timeline(imported, folder / "timeline.parquet")


WRITERS: dict[str, Callable[[Imported, Path], None]] = {
    "chrome": write_chrome,
    "chakra": write_chakra,
    "parquet": _parquet,
}
"""Writer of each format, which writes into a folder."""


def export(
    what: Names,
    *,
    form: str,
    ranks: Sequence[int] | None = None,
    out: Name,
    progress: Progress | None = None,
) -> ExportResult:
    """Export a run or the traces of a job into ``out/FORMAT``, whole or not at all.

    Args:
        what: a folder of `run`, `import_traces` or `replay`, or traces, or folders of traces.
        form: key of `WRITERS`.
        ranks: ranks to keep; default: all.
        out: the folder.

    Raises:
        InputError: no such format, a trace is wrong or has nothing to export, or ``out`` may not be written.
    """
    if form not in WRITERS:
        expected, near = f"one of {', '.join(WRITERS)}", nearest_name(form, WRITERS)
        raise InputError("no such format", file="--format", given=form, expected=expected, nearest=near)
    progress, folder = progress or Silent(), replaceable(out)
    _refuse_jobs(paths_of(what))
    progress.stage("reading traces")
    imported = import_traces(paths_of(what), ranks)
    progress.stage("writing results")
    with folder_written_whole(folder) as partial:
        (partial / form).mkdir()
        WRITERS[form](imported, partial / form)
        names = sorted(path.name for path in (partial / form).iterdir())
        if not names:
            raise InputError(
                "has no programs to export",
                file=imported.files[0],
                given=imported.format,
                expected="traces with tasks",
            )
        write_record(partial, {"exported_from": [str(file) for file in imported.files]})
    return ExportResult(folder, imported, tuple(folder / form / name for name in names))


def _refuse_jobs(paths: Sequence[Path]) -> None:
    """Refuse folders of captured jobs, which have no times.

    Raises:
        InputError: one is given.
    """
    for path in paths:
        if (path / JOB_FILE).is_file() and (path / SCENARIO_FILE).is_file():
            raise InputError(
                "is a captured job, which has no times",
                file=path,
                expected=f"the folder of a run: dlrmsim run {path} --out RUN, then dlrmsim export RUN",
            )

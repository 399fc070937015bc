"""``calibrate_overheads``: host overheads by operator from Kineto traces, as a framework profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dlrmsim.output.folders import file_written_whole, require_file_writable
from dlrmsim.verbs.what import Name, Names, names_of
from inputs.errors import InputError
from scenarios.progress import Progress, Silent
from traces.kineto.overheads import OperatorCall, operator_calls
from validation.fits.overheads_fit import MedianOverhead, fit_overheads
from validation.fits.spec_text import with_entry
from workloads.catalogs import FRAMEWORKS
from workloads.graph.framework import load_framework

BASE = "pytorch_2021"
"""The profile that everything but the overheads is taken from."""


@dataclass(frozen=True, slots=True)
class CalibrateOverheadsResult:
    """Overheads by operator.

    Attributes:
        file: the profile that was written.
        rows: medians of T1 to T5, with the times that count and those left out as outliers.
        operators: calls of operators that launch device work, in all traces.
        launches: their launches.
    """

    file: Path
    rows: Sequence[MedianOverhead]
    operators: int
    launches: int


def calibrate_overheads(
    what: Names, *, framework: Name = BASE, out: Name, progress: Progress | None = None
) -> CalibrateOverheadsResult:
    """Take host overheads by operator from traces and write a profile with them.

    Args:
        what: Kineto traces, of one machine and one release of the framework.
        framework: profile that the rest is taken from. Its ``overhead_factor`` and ``fit`` are of its own overheads and
            are left out.
        out: YAML file to write; the profile is named after it.

    Raises:
        InputError: a file is no Kineto trace, has no operators, no work of a GPU or no launches; there is no such
            profile; or ``out`` cannot be written.
    """
    shown, file, files = progress or Silent(), Path(out), [Path(name) for name in names_of(what)]
    if not files:
        raise InputError("no trace to take overheads from", file="TRACE", expected="Kineto traces")
    load_framework(framework)
    text = FRAMEWORKS.find(framework).read_text(encoding="utf-8")
    require_file_writable(file)
    calls: list[OperatorCall] = []
    for number, trace in enumerate(files):
        shown.stage("reading traces", number, len(files))
        calls += operator_calls(trace)
    fitted = fit_overheads(calls)
    source = f"dlrmsim calibrate overheads: {', '.join(trace.name for trace in files)}".replace('"', "'")
    for key, line in _entries(file, fitted.text(source)).items():
        text = with_entry(text, key, line)
    file_written_whole(file, text)
    return CalibrateOverheadsResult(file, fitted.rows, fitted.operators, sum(len(call.calls) for call in calls))


def _entries(file: Path, overheads: str) -> dict[str, str]:
    """Top-level entries of the new profile that differ from those of the old one; empty: it has none."""
    return {"name": f"name: {file.stem}\n", "overheads": overheads, "overhead_factor": "", "fit": ""}

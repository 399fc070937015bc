"""Detection of a file's format, and the import of a list of files."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path

from inputs.errors import InputError
from traces.imported import Imported
from traces.source import require_file, start_of


class Format(StrEnum):
    """Formats that can be imported, in words."""

    KINETO = "Kineto"
    PYTORCH_ET = "PyTorch execution trace"
    CHAKRA = "Chakra execution trace"
    NCCL_TESTS = "nccl-tests log"
    PARQUET = "dlrmsim timeline"
    CHROME = "dlrmsim Chrome trace"


SUFFIXES = (".json", ".json.gz", ".et", ".et.gz", ".log", ".log.gz", ".parquet")
"""Suffixes of the files that are read from a folder."""
CHAKRA_SUFFIXES = (".et", ".et.gz")
START_BYTES = 1 << 16
"""Bytes looked at: a Kineto trace begins with the properties of its GPUs, some kilobytes."""


def detect(file: Path) -> Format:
    """The format of a file, by its content.

    Raises:
        InputError: no such file, a folder, empty, or none of the formats.
    """
    require_file(file)
    start = start_of(file, START_BYTES)
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"PAR1"):
        return Format.PARQUET
    if re.match(rb'\{\s*"dlrmsim"', text):
        return Format.CHROME
    if b'"workload_graph"' in text[:200]:
        raise InputError("is Chakra's JSON", file=file, expected="Chakra's protobuf, PREFIX.RANK.et")
    if text.startswith((b"{", b"[")) and not file.name.endswith(".et"):
        return Format.PYTORCH_ET if b'"traceEvents"' not in text and b'"nodes"' in text else Format.KINETO
    if b"nccl-tests" in start or text.startswith(b"#") or b"nThread" in start:
        return Format.NCCL_TESTS
    if file.name.endswith(CHAKRA_SUFFIXES):
        return Format.CHAKRA
    raise InputError("is no trace we know", file=file, expected=f"one of: {', '.join(Format)}")


def import_traces(
    files: Sequence[Path], ranks: Sequence[int] | None = None, op: str | None = None, *, whole: bool = False
) -> Imported:
    """Import the traces of one job: all of one format, or Kineto traces with their execution traces.

    Args:
        files: one or more traces, or folders of traces.
        ranks: ranks to keep; default: all.
        op: operation of nccl-tests logs without its name.
        whole: whether each Kineto trace is one step and the profiler's steps are ignored.

    Raises:
        InputError: a file is no trace or contradicts itself, the formats cannot be combined, or ``op`` is given for
            another format.
        ProgramError: ranks disagree on a collective.
    """
    files = [file for given in files for file in traces_in(given)]
    named_chakra = bool(files) and all(file.name.endswith(CHAKRA_SUFFIXES) for file in files)
    if named_chakra and op is None and not whole and (found := _if_chakra(files, ranks)) is not None:
        return found
    by_format: dict[Format, list[Path]] = {}
    for file in files:
        by_format.setdefault(detect(file), []).append(file)
    formats = set(by_format)
    if formats == {Format.KINETO, Format.PYTORCH_ET}:
        from traces.kineto.importer import import_kineto

        return import_kineto(by_format[Format.KINETO], ranks, by_format[Format.PYTORCH_ET], whole=whole)
    if len(formats) != 1:
        raise InputError(
            "do not go together",
            file=", ".join(str(found[0]) for found in by_format.values()),
            given=" and ".join(by_format),
            expected="traces of one format, or Kineto traces with their PyTorch execution traces",
        )
    (form,) = formats
    if form is Format.NCCL_TESTS and not whole:
        from traces.nccl_import import import_nccl_tests

        return import_nccl_tests(files, ranks, op)
    if op is not None:
        raise InputError("only logs of nccl-tests take an operation", key="--op", given=op, expected="no --op")
    if form is Format.KINETO:
        from traces.kineto.importer import import_kineto

        return import_kineto(files, ranks, whole=whole)
    if whole:
        raise InputError(
            "applies to Kineto traces only: other traces have no profiler steps",
            file="--whole",
            given=form,
            expected="no --whole",
        )
    return _importer(form)(files, ranks)


def _if_chakra(files: Sequence[Path], ranks: Sequence[int] | None) -> Imported | None:
    """Chakra traces, each opened once; None where a file is of another format.

    Raises:
        InputError: all are Chakra traces, and something in them is wrong.
    """
    try:
        return _importer(Format.CHAKRA)(files, ranks)
    except InputError:  # only now is each opened again, for its format
        if {detect(file) for file in files} == {Format.CHAKRA}:
            raise
        return None


def traces_in(source: Path) -> list[Path]:
    """Trace files of a folder, or the timeline of a folder of dlrmsim; a file stays as it is.

    Raises:
        InputError: the folder holds no traces.
    """
    if not source.is_dir():
        return [source]
    timeline = source / "timeline.parquet"
    if timeline.exists():
        return [timeline]
    found = sorted(path for path in source.iterdir() if path.is_file() and path.name.endswith(SUFFIXES))
    if not found:
        raise InputError("is a folder without traces", file=source, expected=f"files named *{', *'.join(SUFFIXES)}")
    return found


def _importer(form: Format) -> Callable[[Sequence[Path], Sequence[int] | None], Imported]:
    if form is Format.CHAKRA:
        from traces.chakra.importer import import_chakra

        return import_chakra
    if form is Format.PYTORCH_ET:
        from traces.pytorch.importer import import_pytorch_et

        return import_pytorch_et
    if form is Format.PARQUET:
        from traces.parquet import import_parquet

        return import_parquet
    from traces.chrome_import import import_chrome

    return import_chrome

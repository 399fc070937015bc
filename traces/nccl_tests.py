"""Measured collectives from files: logs of nccl-tests, and tables as CSV.

A log is the output of ``all_reduce_perf`` and the other nccl-tests. It names its devices (one line per rank, with the
host's name), so ranks and nodes come from it; the operation comes from the line ``# Collective test starting:
all_reduce_perf`` where the release prints one, else from the name of the file, or from the caller.

A table has a header with the columns ``op``, ``nodes``, ``ranks_per_node`` (or ``ranks``, ``ngpus``), ``bytes`` (or
``size_bytes``), and ``time_us`` or ``time_s``; ``source`` (or ``repo``) is optional. Other columns are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import get_args

from hardware_specs.bounds import MAX_GPUS_PER_NODE
from hardware_specs.library import Operation
from inputs.csv_table import CsvRow, csv_rows
from inputs.errors import InputError, nearest_name
from inputs.given import Plain
from inputs.quantities import MAX_RANKS, Quantity
from traces.source import whole

OPERATIONS: tuple[str, ...] = get_args(Operation)
_OPERATION: Mapping[str, Operation] = {name: name for name in get_args(Operation)}
ALIASES = {
    "alltoall": "all_to_all", "allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter",
    "sendrecv": "sendrecv",
}  # fmt: skip
_TEST = re.compile(
    r"(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|reduce|send_?recv|gather|scatter)(?:_perf)?"
)
_RANK = re.compile(r"^#\s+Rank\s+(\d+)\s.*?\bon\s+(\S+)\s+device\b")
_ROW = re.compile(r"^\s*\d+\s+\d+\s+[a-z]\w*\s")
_STARTING = "# Collective test starting:"
US = 1e-6
_RANGES: Mapping[str, Quantity] = {
    "nodes": Quantity("count", 1, MAX_RANKS), "ranks_per_node": Quantity("count", 1, MAX_GPUS_PER_NODE),
    "bytes": Quantity("bytes", 1.0), "time": Quantity("s", 1e-9),
}  # fmt: skip
"""Ranges of the numbers of a row."""


@dataclass(frozen=True, slots=True)
class TimedCollective:
    """One row of a file.

    Attributes:
        nodes: nodes in use.
        ranks_per_node: GPUs in use on each.
        bytes: size as nccl-tests counts it.
        time_s: out-of-place duration.
        source: author of the measurement; the file's name where the file does not name one.
    """

    op: Operation
    nodes: int
    ranks_per_node: int
    bytes: float
    time_s: float
    source: str


def read_timed_collectives(file: Path, op: str | None = None) -> list[TimedCollective]:
    """All rows of a log or a CSV; rows of operations that the model does not know are left out.

    Args:
        file: path to read.
        op: the operation of a log that does not name it.

    Raises:
        InputError: the file is not readable, is a table although ``op`` is given, or is neither a log nor a table; with
            the line.
    """
    try:
        text = whole(file).decode("utf-8")
    except UnicodeDecodeError as error:
        given = Plain(f"byte 0x{error.object[error.start]:02x}")
        raise InputError("the file is not UTF-8 text", file=file, given=given, expected="UTF-8") from None
    first = next((line for line in text.splitlines() if line.strip()), "")
    is_table = "," in first and not first.startswith("#")
    if is_table and op is not None:
        raise InputError(
            "has no effect on a table, whose rows name operations",
            file="--op",
            given=op,
            expected=f"no --op for {file}",
        )
    rows = list(_table(file, text)) if is_table else list(_log(file, text, op))
    if not rows:
        raise InputError(
            "no collective was found", file=file, expected="a log of nccl-tests, or CSV with op, nodes, bytes, time_us"
        )
    return rows


@dataclass(slots=True)
class _Test:
    """The test that the lines of a log belong to: one file may hold several, one after the other."""

    op: Operation | None
    hosts: list[str]
    known: bool = True
    """Whether we have the operation at all (send and receive, gather... are left out)."""
    results: int = 2
    """Groups of (time, algbw, busbw, errors) in a row: out-of-place and in-place."""


def _log(file: Path, text: str, op: str | None) -> Iterator[TimedCollective]:
    lines = text.splitlines()
    test = _Test(None if op is None else _asked(op, file), [])
    for number, line in enumerate(lines, start=1):
        if line.startswith(_STARTING):
            named = _operation_in(line.split(":", 1)[1], file)
            test = _Test(test.op if op else named, [], known=bool(op) or named is not None)
        elif rank := _RANK.match(line):
            test.hosts.append(rank[2])
        elif line.startswith("#") and " time " in line and " size " in line:
            test.results = line.split().count("time")
        else:
            yield from _row_of(file, number, line, test)
    if not any(_RANK.match(line) for line in lines):
        raise InputError(
            "the log names no ranks", file=file, expected="nccl-tests' lines '#  Rank  0 ... on HOST device 0'"
        )


def _row_of(file: Path, number: int, line: str, test: _Test) -> Iterator[TimedCollective]:
    """The collective in a row of numbers; the time is counted from the right, releases differ on the left."""
    if not _ROW.match(line) or not test.known:
        return
    words = line.split()
    size = float(words[0])
    if size == 0 or len(words) < 3 + 4 * test.results:
        return
    nodes = len(set(test.hosts)) or 1
    if len(test.hosts) % nodes:
        given, expected = f"{len(test.hosts)} ranks on {nodes} nodes", "equally many ranks on each node"
        raise InputError("the nodes hold different numbers of ranks", file=file, given=given, expected=expected)
    operation = test.op or _operation_in(file.stem, file)
    if operation is None:
        raise InputError(
            "the log does not say which operation it timed", file=file, expected="--op, e.g. --op all_reduce"
        )
    time_s = _time_s(words[-4 * test.results])
    if time_s is None:
        given, expected = words[-4 * test.results], "microseconds, more than 0"
        raise InputError("has no time", file=file, line=number, key="time", given=given, expected=expected)
    yield _timed(file, number, operation, (nodes, max(len(test.hosts) // nodes, 1), size, time_s), file.stem)


def _time_s(text: str) -> float | None:
    """A time in microseconds as seconds; None for what no collective takes."""
    try:
        found = float(text) * US
    except ValueError:
        return None
    return found if isfinite(found) and found > 0 else None


def _asked(op: str, file: Path) -> Operation:
    """The operation that the caller names; ``alltoall_perf`` stands for all_to_all.

    Raises:
        InputError: no operation has this name.
    """
    found = _operation_in(op, file) if _TEST.fullmatch(op.lower()) else None
    if found is None:
        expected, near = f"one of {', '.join(OPERATIONS)}", nearest_name(op, OPERATIONS)
        raise InputError("no such operation", key="--op", given=op, expected=expected, nearest=near)
    return found


def _operation_in(text: str, file: Path) -> Operation | None:
    match = _TEST.search(text.lower())
    if not match:
        return None
    name = match[1].replace("_", "")
    return _known(ALIASES.get(name, name), file, None)


def _table(file: Path, text: str) -> Iterator[TimedCollective]:
    for row in csv_rows(text, file):
        op = row.text("op").lower()
        name = ALIASES.get(op.replace("_", ""), op)
        if name == "hypercube":
            continue
        nodes = row.number("nodes")
        ranks_per_node = row.number("ranks_per_node") if "ranks_per_node" in row.cells else _ranks_per_node(row, nodes)
        time_s = row.number("time_s") if "time_s" in row.cells else row.number("time_us") * US
        values = nodes, ranks_per_node, row.number("bytes", "size_bytes"), time_s
        yield _timed(file, row.line, _known(name, file, row.line), values, row.get("source", "repo") or file.stem)


def _ranks_per_node(row: CsvRow, nodes: float) -> float:
    """Ranks of each node, from those of all.

    Raises:
        InputError: the nodes cannot hold equally many.
    """
    ranks = row.number("ranks", "ngpus")
    if ranks % nodes:
        expected = f"a multiple of the {nodes:g} nodes"
        raise row.error("ranks", "the nodes hold different numbers of ranks", given=f"{ranks:g}", expected=expected)
    return ranks / nodes


def _timed(
    file: Path, line: int, op: Operation, values: tuple[float, float, float, float], source: str
) -> TimedCollective:
    """A row whose numbers are within their ranges.

    Args:
        values: nodes, ranks on each, bytes, seconds.

    Raises:
        InputError: the first number that is out of its range.
    """
    for (key, kind), value in zip(_RANGES.items(), values, strict=True):
        try:
            kind.check(value)
        except InputError as error:
            raise InputError(
                error.message, file=file, line=line, key=key, given=error.given, expected=error.expected
            ) from None
    nodes, per_node, size, time_s = values
    return TimedCollective(op, int(nodes), int(per_node), size, time_s, source)


def _known(name: str, file: Path, line: int | None) -> Operation:
    if name in _OPERATION:
        return _OPERATION[name]
    raise InputError(
        "no such operation",
        file=file,
        line=line,
        given=name,
        expected=f"one of {', '.join(OPERATIONS)}",
        nearest=nearest_name(name, OPERATIONS),
    )

"""CSV files as text cells with their lines, checked as a whole: header, length of rows, characters."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from inputs.errors import InputError
from inputs.yaml_lines import MAX_FILE_BYTES

MAX_CELL = 10_000
"""Longest cell, characters: names and lists of numbers are shorter."""
SMALLEST, LARGEST = 1e-18, 1e18
"""Range of all numbers: sizes, counts and times beyond are none of a machine."""
_CELLS = f"cells of at most {MAX_CELL:,} characters between commas, quotes around those that hold commas"


@dataclass(slots=True)
class CsvRow:
    """A row: the cells by column, without blanks at their ends."""

    file: Path
    line: int
    cells: Mapping[str, str]

    def get(self, *columns: str) -> str:
        """The first cell of these columns that holds anything; empty for none."""
        for column in columns:
            if found := self.cells.get(column):
                return found
        return ""

    def text(self, *columns: str) -> str:
        """The first cell of these columns that holds anything.

        Raises:
            InputError: there is none.
        """
        if found := self.get(*columns):
            return found
        raise self._missing(columns)

    def number(self, *columns: str, least: float | None = None) -> float:
        """A number.

        Args:
            least: smallest value; None: any above zero, that is `SMALLEST`. The largest is `LARGEST`.

        Raises:
            InputError: the cell is missing, no such number, or out of range.
        """
        for column in columns:
            if given := self.cells.get(column):
                break
        else:
            raise self._missing(columns)
        try:
            value = float(given) if given.isascii() else inf
        except ValueError:
            raise self.error(column, "not a number", given=given, expected=_expected(least)) from None
        if not (SMALLEST if least is None else least) <= value <= LARGEST:  # nan is in no range
            raise self.error(column, "impossible value", given=given, expected=_expected(least))
        return value

    def _missing(self, columns: Sequence[str]) -> InputError:
        message = f"the column {columns[0]} is missing or empty"
        return InputError(message, file=self.file, line=self.line, expected=" or ".join(columns))

    def error(
        self,
        column: str,
        message: str,
        *,
        given: str | None = None,
        expected: str | None = None,
        nearest: str | None = None,
    ) -> InputError:
        """An `InputError` about a cell."""
        return InputError(
            message, file=self.file, line=self.line, key=column, given=given, expected=expected, nearest=nearest
        )


def _expected(least: float | None) -> str:
    return f"a number, {'more than 0' if least is None else f'at least {least:g}'}, at most {LARGEST:g}"


def csv_text(file: Path) -> str:
    """The text of a small CSV.

    Raises:
        InputError: the file cannot be read, is too large, or is not UTF-8.
    """
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot be read: {reason}", file=file, expected="a CSV file") from None
    if len(raw) > MAX_FILE_BYTES:
        raise InputError("the file is too large", file=file, expected=f"at most {MAX_FILE_BYTES:,} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError("the file is not UTF-8 text", file=file, line=line, expected="UTF-8") from None


def csv_rows(text: str, file: Path, header: Callable[[Sequence[str]], Sequence[str]] = tuple) -> Iterator[CsvRow]:
    """The rows of a CSV with a header; empty lines are left out.

    Args:
        file: its name in messages.
        header: the names of the columns that the cells of the first row stand for; it may raise `InputError`.

    Raises:
        InputError: no CSV, a NUL, a cell longer than `MAX_CELL`, or a row of another length than the header; with its
            line. A column twice.
    """
    nul = text.find("\0")
    if nul >= 0:
        line = text.count("\n", 0, nul) + 1
        raise InputError(
            "a character that text files do not contain", file=file, line=line, given="\0", expected="text in UTF-8"
        )
    columns: Sequence[str] | None = None
    for line, cells in _cells(text, file):
        if columns is None:
            columns = header(cells)
            _require_distinct(columns, file)
        elif len(cells) != len(columns):
            raise InputError(
                "a row of another length than the header",
                file=file,
                line=line,
                given=f"{len(cells)} cells",
                expected=f"{len(columns)}: {', '.join(columns)}",
            )
        else:
            yield CsvRow(file, line, dict(zip(columns, cells, strict=True)))


def _cells(text: str, file: Path) -> Iterator[tuple[int, list[str]]]:
    """Line and cells of each row that has any."""
    lines = text.splitlines()
    some_are_long = max(map(len, lines), default=0) > MAX_CELL
    reader = csv.reader(lines)
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if some_are_long:
                _require_short(max(cells, key=len, default=""), file, reader.line_num)
            if any(cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise InputError(f"no CSV: {error}", file=file, line=reader.line_num, expected=_CELLS) from None


def _require_short(cell: str, file: Path, line: int) -> None:
    if len(cell) > MAX_CELL:
        message, expected = f"a cell of {len(cell):,} characters", f"at most {MAX_CELL:,}"
        raise InputError(message, file=file, line=line, given=cell, expected=expected)


def _require_distinct(columns: Sequence[str], file: Path) -> None:
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise InputError("a column stands twice", file=file, line=1, given=twice, expected="each column once")

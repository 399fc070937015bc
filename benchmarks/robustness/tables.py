"""Mutations of tables: CSV and Parquet."""

from __future__ import annotations

import csv
import io
import random
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.robustness.trees import Tree
from benchmarks.robustness.values import Change, as_text, wrong_value

HUGE_FIELD = 200_000
"""Characters of a field beyond Python's limit of 131,072 (``csv.field_size_limit``)."""
CSV_OPS = (*("cell",) * 6, "delete row", "delete column", "duplicate row", "duplicate column", "swap rows")
CSV_MORE = ("swap columns", "ragged", "short", "cut", "huge field", "nul", "rename")


@dataclass(frozen=True, slots=True)
class Csv:
    """CSV with a line of names; places are (row, column), row 0 the names."""

    def read(self, data: bytes) -> list[list[str]]:
        """Rows of cells."""
        return list(csv.reader(io.StringIO(data.decode())))

    def draw(self, content: list[list[str]], random: random.Random) -> Change:
        """A change of a row, a column or a cell."""
        if not content or not content[0]:
            return Change("ragged", (0, 0))
        op, row = random.choice([*CSV_OPS, *CSV_MORE]), random.randrange(len(content))
        place = (row, random.randrange(max(1, len(content[row]))))
        if op == "cell":
            old = (content[row] or [""])[place[1]]
            return Change(op, place, as_text(wrong_value(old, random)))
        if op.startswith("swap"):
            return Change(op, place, random.randrange(len(content) if op == "swap rows" else len(content[0])))
        return Change(op, place)

    def change(self, content: list[list[str]], change: Change) -> list[list[str]]:
        """The rows with one change."""
        row, column = int(change.place[0]), int(change.place[1])
        if row >= len(content):
            return content
        if change.op in ("delete column", "duplicate column", "swap columns"):
            for cells in content:
                _change_column(cells, column, change)
        elif change.op in ("delete row", "duplicate row", "swap rows", "cut"):
            _change_rows(content, row, change)
        else:
            _change_cell(content[row], column, change)
        return content

    def write(self, content: list[list[str]]) -> bytes:
        """The text."""
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(content)
        return out.getvalue().encode("utf-8", "surrogatepass")


def _change_column(cells: list[str], column: int, change: Change) -> None:
    if column >= len(cells):
        return
    if change.op == "delete column":
        del cells[column]
    elif change.op == "duplicate column":
        cells.insert(column, cells[column])
    elif change.value < len(cells):
        cells[column], cells[change.value] = cells[change.value], cells[column]


def _change_rows(content: list[list[str]], row: int, change: Change) -> None:
    if change.op == "delete row":
        del content[row]
    elif change.op == "duplicate row":
        content.insert(row, list(content[row]))
    elif change.op == "cut":
        del content[row:]
    elif change.value < len(content):
        content[row], content[change.value] = content[change.value], content[row]


def _change_cell(cells: list[str], column: int, change: Change) -> None:
    if change.op == "ragged":
        cells.append("1")
    elif column >= len(cells):
        return
    elif change.op == "short":
        del cells[column]
    else:
        new = {"huge field": "9" * HUGE_FIELD, "nul": cells[column] + "\0", "rename": cells[column] + "_x"}
        cells[column] = new.get(change.op, change.value)


PARQUET_OPS = (*("cell",) * 4, *("fill",) * 3, "null", "text", "delete", "rename", "duplicate rows", "cut", "swap")
PARQUET_MORE = ("metadata", "metadata", "no metadata")


@dataclass(frozen=True, slots=True)
class Parquet:
    """A Parquet file; places are (column,) or (column, row), or the key of the metadata."""

    def read(self, data: bytes) -> pa.Table:
        """The table."""
        return pq.read_table(io.BytesIO(data))

    def draw(self, content: pa.Table, random: random.Random) -> Change:
        """A change of a cell, a column, all rows, or the metadata."""
        metadata = sorted(content.schema.metadata or {})
        op = random.choice([*PARQUET_OPS, *(PARQUET_MORE if metadata else ())])
        if op in PARQUET_MORE:
            key = random.choice(metadata)
            return Change(op, (key.decode(),), _metadata_change(content.schema.metadata[key], random))
        if not content.num_columns:
            return Change("cut", (), 0)
        column, row = random.randrange(content.num_columns), random.randrange(max(1, content.num_rows))
        value = content.column(column)[row].as_py() if row < content.num_rows else 1
        wrong: dict[str, Any] = {"cell": wrong_value(value, random), "fill": wrong_value(value, random)}
        wrong |= {"cut": random.choice([0, 1, row]), "swap": random.randrange(content.num_columns)}
        return Change(op, (column, row) if op == "cell" else (column,), wrong.get(op))

    def change(self, content: pa.Table, change: Change) -> pa.Table:
        """The table with one change."""
        if change.op in PARQUET_MORE:
            return _with_metadata(content, change)
        if change.op in ("cut", "duplicate rows"):
            return content.slice(0, change.value) if change.op == "cut" else pa.concat_tables([content, content])
        return self._change_column(content, int(change.place[0]), change)

    def _change_column(self, content: pa.Table, column: int, change: Change) -> pa.Table:
        if column >= content.num_columns:
            return content
        names = content.column_names
        if change.op == "delete":
            return content.remove_column(column)
        if change.op == "rename":
            return content.rename_columns([*names[:column], names[column] + "_x", *names[column + 1 :]])
        if change.op == "swap":
            other = min(change.value, len(names) - 1)
            return content.set_column(column, names[column], content.column(other))
        return content.set_column(column, names[column], _column(content.column(column).to_pylist(), change))

    def write(self, content: pa.Table) -> bytes:
        """The bytes."""
        out = io.BytesIO()
        pq.write_table(content, out)
        return out.getvalue()


def _column(values: list[Any], change: Change) -> pa.Array:
    """A column with other values, as text where they are of several kinds."""
    if change.op == "null":
        return pa.array([None] * len(values))
    if change.op == "text":
        return pa.array([str(value) for value in values])
    if change.op == "cell" and int(change.place[1]) < len(values):
        values[int(change.place[1])] = change.value
    elif change.op == "fill":
        values = [change.value] * len(values)
    try:
        column = pa.array(values)
        pq.write_table(pa.table({"": column}), io.BytesIO())  # Parquet has no mappings without keys
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return pa.array([as_text(value).encode("utf-8", "replace").decode() for value in values])
    return column


def _metadata_change(value: bytes, random: random.Random) -> Change | None:
    """A change of the JSON of an entry; None where it is no JSON."""
    try:
        return Tree().draw(Tree().read(value), random)
    except ValueError:
        return None


def _with_metadata(content: pa.Table, change: Change) -> pa.Table:
    metadata, key = dict(content.schema.metadata or {}), str(change.place[0]).encode()
    if key not in metadata:
        return content
    if change.op == "no metadata" or change.value is None:
        del metadata[key]
    else:
        metadata[key] = Tree().write(Tree().change(Tree().read(metadata[key]), change.value))
    return content.replace_schema_metadata(metadata)

"""Tables as people list them: in a model, or in a file of their own (CSV, YAML or JSON)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from inputs.csv_table import csv_rows, csv_text
from inputs.errors import InputError, nearest_name
from inputs.keys import KeyPath
from inputs.model import Strict, problem
from inputs.quantities import Quantity
from inputs.validate import validate
from inputs.yaml_lines import Document, load_yaml
from inputs.yaml_scalars import Scalar, plain_scalar
from workloads.dlrm.laws.index_laws import IndexLaw
from workloads.dlrm.laws.pooling import MAX_LENGTH, PoolingSpread

Rows = Annotated[int, Quantity("count", 1, 1e15)]
"""Rows of a table."""
Width = Annotated[int, Quantity("count", 1, 1e6)]
"""Elements of a row, or of the output of a layer."""
TableCount = Annotated[int, Quantity("count", 1, 100_000)]
"""Tables are planned one by one; published models have thousands."""
TablePrecision = Literal["fp32", "fp16", "bf16", "fp8", "int8"]
PoolingFactor = Annotated[float, Field(ge=1e-6, le=MAX_LENGTH)]
Pooling: TypeAlias = PoolingFactor | Annotated[tuple[PoolingFactor, ...], Field(min_length=1, max_length=100_000)]
"""Mean lookups per sample: of every feature of a table, or of each of them."""

CSV = ".csv"
_BETWEEN = "|"
"""Separates the names of features, or their poolings, in a cell of a CSV."""
TORCHREC = {
    "num_embeddings": "rows",
    "embedding_dim": "dim",
    "feature_names": "features",
    "pooling_factor": "pooling",
    "pooling_factors": "pooling",
    "data_type": "dtype",
}
"""TorchRec's name of a key (``EmbeddingBagConfig`` of modules/embedding_configs.py, and the planner) -> dlrmsim's."""


def _require_one_each(pooling: Pooling, features: int) -> None:
    """Check that a list of poolings has one for each feature; ``features`` of 1 stands for as many as it has."""
    if isinstance(pooling, tuple) and features not in (1, len(pooling)):
        message = f"{len(pooling)} pooling factors for {features} features"
        raise problem(message, expected="a pooling factor for each feature")


class TableGroup(Strict):
    """``count`` equal tables.

    ``pooling_factor`` is per feature, a list where features that share a table differ; each of the ``features`` (as
    many as the list has) gives a pooled vector. ``precision`` overrides the scenario's table precision, ``name`` the
    numbers by which tables are called; ``indices`` is the law of these tables where it is not the model's,
    ``pooling_spread`` the distribution of their bag lengths. ``sequence`` names a sequence of the model, in place of
    ``pooling_factor``: each of its positions is looked up, and no vectors are summed.
    """

    rows: Rows
    dim: Width
    pooling_factor: Pooling | None = None
    count: TableCount = 1
    precision: TablePrecision | None = None
    features: TableCount = 1
    name: str | None = None
    indices: IndexLaw | None = None
    pooling_spread: PoolingSpread | None = None
    sequence: str | None = None

    @model_validator(mode="after")
    def _one_each(self) -> Self:
        if (self.pooling_factor is None) == (self.sequence is None):
            what = "neither" if self.sequence is None else "both"
            raise problem(f"{what} of pooling_factor and sequence", expected="one of the two", key="pooling_factor")
        if self.sequence is not None and self.pooling_spread is not None:
            expected = "lengths of the sequence"
            raise problem("vectors of a sequence are not pooled", expected=expected, key="pooling_spread")
        if self.pooling_factor is not None:
            _require_one_each(self.pooling_factor, self.features)
        return self

    @property
    def feature_pooling(self) -> tuple[float, ...]:
        """Mean lookups per sample of each pooled feature; empty for sequences."""
        given = self.pooling_factor
        if given is None:
            return ()
        return given if isinstance(given, tuple) else (given,) * self.features


class TableConfig(Strict):
    """A table of a list.

    Attributes:
        name: unique in the list.
        dim: elements per row.
        features: names of the features that share it, or how many they are.
        pooling: mean lookups per sample and feature, or of each feature; 1 when left out.
        sequence: sequence of the model whose positions are looked up instead.
        dtype: element type; the scenario's table precision when left out.
    """

    name: Annotated[str, Field(min_length=1)]
    rows: Rows
    dim: Width
    features: TableCount | Annotated[tuple[str, ...], Field(min_length=1)] = 1
    pooling: Pooling | None = None
    dtype: TablePrecision | None = None
    sequence: str | None = None

    @model_validator(mode="after")
    def _one_each(self) -> Self:
        if self.pooling is not None and self.sequence is not None:
            raise problem("both of pooling and sequence", expected="one of the two", key="pooling")
        if self.pooling is not None:
            _require_one_each(self.pooling, self._feature_count)
        return self

    @property
    def _feature_count(self) -> int:
        return self.features if isinstance(self.features, int) else len(self.features)

    def group(self) -> TableGroup:
        """The table as a model has it."""
        return TableGroup(
            name=self.name,
            rows=self.rows,
            dim=self.dim,
            pooling_factor=None if self.sequence is not None else self.pooling or 1.0,
            features=self._feature_count,
            precision=self.dtype,
            sequence=self.sequence,
        )


class TableList(Strict):
    """A file of tables."""

    tables: Annotated[tuple[TableConfig, ...], Field(min_length=1)]


def read_table_list(file: Path) -> tuple[TableGroup, ...]:
    """The tables of a CSV with a header, or of a YAML or JSON file ``{tables: [...]}``.

    Raises:
        InputError: the file is missing or wrong, with the line; or two tables have one name.
    """
    document = _csv_document(file) if file.suffix.lower() == CSV else _in_our_names(load_yaml(file))
    listed = validate(TableList, document)
    seen: set[str] = set()
    for number, table in enumerate(listed.tables):
        if table.name in seen:
            place = ("tables", number, "name")
            raise document.error(place, "two tables have one name", given=table.name, expected="a name of its own")
        seen.add(table.name)
    return tuple(table.group() for table in listed.tables)


def _in_our_names(document: Document) -> Document:
    """A list with dlrmsim's keys in place of TorchRec's names, at the same lines.

    Raises:
        InputError: a table has a key under both names.
    """
    given = document.data.get("tables")
    if not isinstance(given, list):
        return document
    tables, lines = [], dict(document.lines)
    for number, table in enumerate(given):
        if not isinstance(table, dict):
            tables.append(table)
            continue
        renamed: dict[str, object] = {}
        for key, value in table.items():
            name = TORCHREC.get(str(key), str(key))
            if name in renamed:
                raise document.error(("tables", number, key), f"given together with {name}", expected="one of the two")
            renamed[name] = _dtype(value) if name == "dtype" else value
            lines["tables", number, name] = lines["tables", number, key]
        tables.append(renamed)
    return replace(document, data={**document.data, "tables": tables}, lines=lines)


def _dtype(value: object) -> object:
    """``FP16`` and ``DataType.FP16`` as fp16."""
    return value.lower().removeprefix("datatype.") if isinstance(value, str) else value


def _csv_document(file: Path) -> Document:
    """A CSV as the YAML it stands for; empty cells are left out."""
    rows: list[object] = []
    lines: dict[KeyPath, int] = {(): 1, ("tables",): 1}
    for number, row in enumerate(csv_rows(csv_text(file), file, partial(_header, file=file))):
        cells: dict[str, object] = {key: _cell(key, cell) for key, cell in row.cells.items() if cell}
        rows.append(cells)
        place: KeyPath = ("tables", number)
        lines |= {place: row.line} | {(*place, key): row.line for key in cells}
    return Document({"tables": rows}, lines, file)


def _header(given: Sequence[str], file: Path) -> list[str]:
    """Keys of the columns in dlrmsim.

    Raises:
        InputError: another separator than the comma, a column twice or without a name, or names of no key.
    """
    between = next((mark for mark in ";\t|" if len(given) == 1 and mark in given[0]), None)
    if between is not None:
        raise InputError("wrong separator", file=file, line=1, given=between, expected="commas between cells")
    header = [TORCHREC.get(name, name) for name in given]
    if len(set(header)) < len(header) or "" in header:
        message, expected = "the header has a column without a name of its own", "each column once, with a name"
        raise InputError(message, file=file, line=1, given=",".join(given), expected=expected)
    keys = list(TableConfig.model_fields)
    known = [*keys, *TORCHREC]
    expected = f"{', '.join(keys)}; or TorchRec's {', '.join(TORCHREC)}"
    wrong = [
        InputError(
            "unknown column", file=file, line=1, given=name, expected=expected, nearest=nearest_name(name, known)
        )
        for name in given
        if name not in known
    ]
    required = [key for key, field in TableConfig.model_fields.items() if field.is_required()]
    wrong += [
        InputError(f"the column {key} is missing", file=file, line=1, expected=expected)
        for key in required
        if given and key not in header and not wrong
    ]
    if wrong:
        first, *others = wrong
        first.others = tuple(others)
        raise first
    return header


def _cell(key: str, text: str) -> Scalar | list[str] | list[Scalar]:
    """A cell: text where names stand, else a scalar as in YAML."""
    if key == "name":
        return text
    if key == "features" and not text.isdecimal():
        listed = text.startswith("[") and text.endswith("]")
        parts = text[1:-1].split(",") if listed else text.split(_BETWEEN)
        return [part.strip(" '\"") for part in parts]
    if key == "dtype":
        return str(_dtype(text))
    if key == "pooling" and _BETWEEN in text:
        return [_scalar(part.strip()) for part in text.split(_BETWEEN)]
    return _scalar(text)


def _scalar(text: str) -> Scalar:
    try:
        return plain_scalar(text)
    except ValueError:
        return text

"""Kernels that others timed, as rows of CSV, and the operators they are.

Columns: ``kind`` (gemm, elementwise, lookup), ``time_us``, ``source``, and the sizes of the kind: ``precision``, ``m``,
``n``, ``k``, ``count``, ``transposed`` of a gemm (`simulator.operators.Gemm`), ``bytes`` read and written by an
elementwise kernel, ``lookups``, ``row_bytes``, ``output_bytes``, ``index_bytes``, ``tables`` of a lookup
(`simulator.operators.EmbeddingLookup`). A column that no row needs may be left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from inputs.catalog import shipped_files
from inputs.csv_table import CsvRow, csv_rows, csv_text
from inputs.errors import InputError, nearest_name
from simulator.operators import Elementwise, EmbeddingLookup, Gemm
from simulator.precisions import Precision
from simulator.work import Operator

US = 1e-6
KINDS = ("gemm", "elementwise", "lookup")
_LOOKUP = ("lookups", "row_bytes", "output_bytes", "index_bytes", "tables")


@dataclass(frozen=True, slots=True)
class MeasuredKernel:
    """One timed kernel.

    Attributes:
        inputs: inputs that a rule may use: kind, precision, source and the sizes.
    """

    kind: str
    inputs: Mapping[str, Any]
    time_s: float

    def __str__(self) -> str:
        """Kind, precision and sizes, for people."""
        sizes = {key: value for key, value in self.inputs.items() if isinstance(value, float)}
        if self.kind == "gemm":
            shape = " x ".join(f"{sizes[key]:g}" for key in ("m", "n", "k"))
            many = f", {sizes['count']:g} of them" if sizes["count"] != 1 else ""
            return f"gemm {self.inputs['precision']} {shape}{many}"
        return ", ".join([self.kind, *(f"{key} {value:.6g}" for key, value in sizes.items())])

    @property
    def operator(self) -> Operator:
        """Operator that the compute model times."""
        of = self.inputs
        if self.kind == "gemm":
            return Gemm(of["m"], of["n"], of["k"], of["precision"], of["count"], transposed=bool(of["transposed"]))
        if self.kind == "lookup":
            return EmbeddingLookup(*(of[key] for key in _LOOKUP))
        return Elementwise(of["bytes"], 0.0)


def kernel_rows(name_or_path: str) -> list[MeasuredKernel]:
    """Rows of a shipped table, by the name of its GPU, or of a file.

    Raises:
        InputError: no such table or file, or a row is wrong; with line and column.
    """
    shipped = shipped_files("validation", "kernels", ".csv")
    file = shipped.get(name_or_path, Path(name_or_path))
    try:
        text = csv_text(file)
    except InputError as error:
        if file.exists():
            raise
        expected, near = f"CSV of kernels, or one of {', '.join(sorted(shipped))}", nearest_name(name_or_path, shipped)
        raise InputError(error.message, file=file, expected=expected, nearest=near) from None
    rows = [_row(row) for row in csv_rows(text, file)]
    if not rows:
        raise InputError("no kernel was found", file=file, expected="CSV with kind, time_us and the sizes of the kind")
    return rows


def _row(row: CsvRow) -> MeasuredKernel:
    kind = _one_of(row, "kind", KINDS)
    inputs: dict[str, Any] = {"kind": kind, "source": row.get("source") or row.file.stem}
    if kind == "gemm":
        inputs["precision"] = _one_of(row, "precision", get_args(Precision))
        inputs |= {key: row.number(key) for key in ("m", "n", "k")}
        inputs["count"] = row.number("count") if row.get("count") else 1.0
        inputs["transposed"] = row.number("transposed", least=0) if row.get("transposed") else 0.0
    else:
        inputs |= {key: row.number(key) for key in (_LOOKUP if kind == "lookup" else ("bytes",))}
    return MeasuredKernel(kind, inputs, row.number("time_us") * US)


def _one_of(row: CsvRow, column: str, known: tuple[str, ...]) -> str:
    """A cell that is one of some names."""
    given = row.get(column)
    if given not in known:
        expected = "one of " + ", ".join(known)
        raise row.error(column, "unknown name", given=given, expected=expected, nearest=nearest_name(given, known))
    return given

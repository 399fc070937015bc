"""Kernels and collectives of a record file, checked before anything is fitted to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from inputs.errors import InputError, nearest_name
from inputs.given import shown
from validation.host.ranges import LONGEST_S, MOST, SHORTEST_S
from validation.host.timed_kernels import Row

KERNEL_KEYS: Mapping[str, tuple[str, ...]] = {
    "gemm": ("m", "n", "k"),
    "batched": ("m", "n", "k", "count"),
    "stream": ("read_bytes", "write_bytes"),
    "gather": ("read_bytes", "write_bytes"),
    "scatter": ("read_bytes", "write_bytes"),
    "columns": ("bytes", "pieces", "parts"),
    "transpose": ("bytes",),
    "bucketize": ("bytes",),
    "recat": ("index_bytes", "length_bytes"),
    "optimizer": ("parameters", "traffic_bytes"),
    "lookup": ("rows", "dim", "bags", "lookups"),
    "update": ("rows", "dim", "bags", "lookups"),
}
"""Numbers that a row of a kernel has, by its kind; `trainer.bench.microbench` writes them."""
COLLECTIVES = ("all_reduce", "all_to_all", "all_gather", "reduce_scatter")
"""Kinds of rows of collectives; each has ``bytes``."""
FLAGS = {"gemm": ("transposed",), "batched": ("transposed",)}
"""Yes or no in a row, by its kind."""


def checked_rows(rows: Sequence[Any], file: Path, *, on_gpu: bool = False) -> Sequence[Row]:
    """Rows of a record, each with the keys of its kind in their ranges.

    Args:
        on_gpu: whether GPUs were timed: rows then lack what concerns cores.

    Raises:
        InputError: a row has not, with its place.
    """
    for number, row in enumerate(rows):
        _check(row, file, f"rows[{number}]", on_gpu=on_gpu)
    return rows


def _check(row: Any, file: Path, place: str, *, on_gpu: bool) -> None:
    kind = row.get("kind") if isinstance(row, dict) else row
    kinds = [*KERNEL_KEYS, *COLLECTIVES]
    if not isinstance(kind, str) or kind not in kinds:
        near = nearest_name(kind, kinds) if isinstance(kind, str) else None
        expected = f"one of {', '.join(kinds)}"
        raise InputError(
            "no such kernel", file=file, key=f"{place}.kind", given=shown(kind), expected=expected, nearest=near
        )
    counts = (*KERNEL_KEYS.get(kind, ("bytes",)), "threads", "ranks")
    for key in counts if kind in COLLECTIVES else (*counts, "evicted_bytes"):
        least = 0.0 if key.endswith("bytes") or key in ("lookups", "bags") else 1.0
        _require_number(row.get(key), least, MOST, file, f"{place}.{key}")
    for key in (*FLAGS.get(kind, ()), *(() if on_gpu else ("alone",))):
        if not isinstance(row.get(key), bool):
            raise InputError(
                "wrong type", file=file, key=f"{place}.{key}", given=shown(row.get(key)), expected="true or false"
            )
    for key in ("times_s", "issue_s", "cores") if kind in COLLECTIVES and not on_gpu else ("times_s",):
        _require_list(row.get(key), file, f"{place}.{key}", SHORTEST_S if key == "times_s" else 0.0)
        if len(row[key]) != len(row["times_s"]):
            expected = f"{len(row['times_s'])} numbers, as in times_s"
            raise InputError("another length", file=file, key=f"{place}.{key}", given=len(row[key]), expected=expected)


def _require_list(values: Any, file: Path, key: str, least: float) -> None:
    if not isinstance(values, list) or not values:
        raise InputError("wrong type", file=file, key=key, given=shown(values), expected="a list of numbers")
    for number, value in enumerate(values):
        _require_number(value, least, LONGEST_S, file, f"{key}[{number}]")


def _require_number(value: Any, least: float, most: float, file: Path, key: str) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:  # nan is in no range
        expected = f"a number, {least:g} to {most:g}"
        raise InputError("impossible value", file=file, key=key, given=shown(value), expected=expected)

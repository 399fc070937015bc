"""Number formats, and the bytes of an element in memory and on the wire."""

from __future__ import annotations

from typing import Literal, TypeAlias

Precision = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8"]

BYTES_PER_ELEMENT: dict[str, int] = {
    "fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1, "int32": 4, "int64": 8,
}  # fmt: skip
"""Storage size in bytes of one element (tf32 is stored as fp32)."""

WirePrecision: TypeAlias = Literal["fp32", "fp16", "bf16", "fp8", "int8"]
SumPrecision: TypeAlias = Literal["fp32", "fp16", "bf16"]
"""Number formats that a collectives library can sum; blocks of quantised numbers have different scales."""
QUANTISED = frozenset({"fp8", "int8"})
"""Types on the wire that a separate kernel converts from fp32 before an exchange, and back after it."""
WIRE_BYTES: dict[str, float] = {**{name: float(size) for name, size in BYTES_PER_ELEMENT.items()}, "int8": 40 / 32}
"""Bytes of an element on the wire: int8 has a scale and an offset of 4 bytes for every 32 elements (FBGEMM
quantize_comm.py, ``ROW_DIM_DEFAULT``)."""

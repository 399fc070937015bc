"""Arguments of collectives in traces: operation, process group, size. Names as PyTorch and NCCL write them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import msgspec
import numpy as np

from simulator.collective_calls import CollectiveOp
from simulator.operators import FloatArray
from traces.typed import MAX_BYTES, MAX_RANKS, Bytes, Rank

UNKNOWN_SPLITS = "uneven exchanges with truncated or missing splits, or not one split per member (taken: even)"
"""Text of a gap."""
UNKNOWN_SIZE = "collectives whose size the trace does not say"
"""A gap of a trace."""

DTYPES: Mapping[str, tuple[str, int]] = {
    "float": ("fp32", 4), "float32": ("fp32", 4), "double": ("fp64", 8), "half": ("fp16", 2), "float16": ("fp16", 2),
    "c10::half": ("fp16", 2), "bfloat16": ("bf16", 2), "c10::bfloat16": ("bf16", 2), "int": ("int32", 4),
    "int32": ("int32", 4), "long": ("int64", 8), "long int": ("int64", 8), "int64": ("int64", 8), "byte": ("int8", 1),
    "unsigned char": ("int8", 1), "char": ("int8", 1), "signed char": ("int8", 1), "bool": ("int8", 1),
    "float8_e4m3fn": ("fp8", 1), "float8_e5m2": ("fp8", 1),
    "fp32": ("fp32", 4), "tf32": ("tf32", 4), "fp16": ("fp16", 2), "bf16": ("bf16", 2), "fp64": ("fp64", 8),
    "fp8": ("fp8", 1), "int8": ("int8", 1),
}  # fmt: skip
"""Our name and the bytes of an element, by the trace's name in lower case."""

_OPS: Sequence[tuple[re.Pattern[str], CollectiveOp]] = tuple(
    (re.compile(pattern), op)  # type: ignore[misc]
    for pattern, op in (
        (r"reduce_?scatter", "reduce_scatter"), (r"all_?reduce", "all_reduce"), (r"all_?gather", "all_gather"),
        (r"all_?to_?all|sendrecv", "all_to_all"), (r"broadcast", "broadcast"), (r"barrier", "barrier"),
        (r"reduce", "reduce"), (r"gather", "gather"), (r"scatter", "scatter"),
    )
)  # fmt: skip
DEFAULT_GROUP = "world"
_DIGITS = 20
"""Digits of the longest number that is read as a count."""


class KeptArgs(msgspec.Struct):
    """Arguments of collectives and copies that a trace may leave out, with their types."""

    bytes: Bytes | None = None
    collective: str | None = None
    in_elements: int | str | None = None
    out_elements: int | str | None = None
    in_splits: str | list[int] | None = None
    dtype: str | None = None
    group: str | int | None = None
    group_ranks: str | list[Rank] | None = None
    group_size: int | str | None = None
    first_rank: int | str | None = None
    rank_stride: int | str | None = None


class ProcessGroup(msgspec.Struct):
    """A process group as PyTorch lists it (``pg_config``); without ranks it has all of the job, or its size of them."""

    pg_name: str | int | None = None
    ranks: list[Rank] | None = None
    group_size: int | None = None


@dataclass(frozen=True, slots=True)
class CollectiveArgs:
    """A collective of one rank.

    Attributes:
        op: the operation.
        group: name of the process group.
        ranks: its members, None where the trace does not say.
        size: number of members, None where the trace does not give it.
        bytes: nccl-tests' size, None where the trace does not say.
        dtype: our name of the element type.
        uneven: whether the ranks may send different amounts.
        peer_shares: fraction of the bytes for each member in rank order; None: even or unknown.
        splits_missing: whether the exchange is uneven and its splits are unknown.
    """

    op: CollectiveOp
    group: str
    ranks: tuple[int, ...] | None
    size: int | None
    bytes: float | None
    dtype: str
    uneven: bool
    peer_shares: tuple[float, ...] | None = None
    splits_missing: bool = False

    @property
    def shares_row(self) -> FloatArray | None:
        """`peer_shares` as the row of one rank ``[1, n]``."""
        return None if self.peer_shares is None else np.array([self.peer_shares])


OWN_SEND = "ncclDevKernel_Send ("
"""Begin of a message's kernel in Chrome traces of ours; NCCL's kernel is SendRecv, of any number of messages."""


def operation(name: str) -> CollectiveOp | None:
    """The operation in a name (``nccl:all_to_all``, ``ncclDevKernel_AllReduce_Sum_f32...``), None for none we know."""
    text = name.lower()
    return next((op for pattern, op in _OPS if pattern.search(text)), None)


def is_collective_kernel(name: str) -> bool:
    """Whether a kernel communicates: NCCL's and RCCL's are called ``ncclKernel...``, ``ncclDevKernel...``."""
    return "nccl" in name[:64].lower()


def read_args(
    name: str, args: Mapping[str, Any], groups: Mapping[str, tuple[int, ...]], world_size: int | None
) -> CollectiveArgs | None:
    """Parsed arguments of a collective's event; None where its operation is unknown.

    Args:
        name: name of the event or its kernel.
        args: arguments, those of `KeptArgs` with its types.
        groups: members of process groups by name, from the head of the trace.
        world_size: ranks of the job.
    """
    said = str(args.get("collective") or name)
    op: CollectiveOp | None = "send" if name.startswith(OWN_SEND) else operation(said)
    if op is None:
        return None
    group = str(args["group"]) if args.get("group") not in (None, "") else DEFAULT_GROUP
    ranks = _members(args.get("group_ranks")) or groups.get(group) or _strided(args)
    size = len(ranks) if ranks else _count(args.get("group_size"))
    if size is None and group == DEFAULT_GROUP:
        size = world_size
    dtype, width = DTYPES.get(_dtype(args).lower(), ("int8", 1))
    elements = _elements(op, args, size)
    size_bytes = args.get("bytes")
    if size_bytes is None and elements is not None:
        size_bytes = elements * width
    splits = args.get("in_splits") if op == "all_to_all" else None
    shares = _shares(_numbers(splits), size)
    uneven = op == "all_to_all" and (said.lower().endswith("v") or splits not in (None, "", "[]", []))
    missing = uneven and shares is None and bool(size_bytes)
    bytes_or_none = None if size_bytes is None else float(size_bytes)
    return CollectiveArgs(op, group, ranks, size, bytes_or_none, dtype, uneven, shares, missing)


def _shares(splits: tuple[int, ...] | None, size: int | None) -> tuple[float, ...] | None:
    """Fraction of the rows for each member; None if splits are missing, or their number is not the group's size."""
    if not splits or min(splits) < 0 or not sum(splits) or (size is not None and len(splits) != size):
        return None
    return tuple(split / sum(splits) for split in splits)


def _strided(args: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Members by first rank, stride and size, for groups whose list was cut."""
    first, stride, size = (_count(args.get(key)) for key in ("first_rank", "rank_stride", "group_size"))
    if first is None or not stride or not size or first + stride * (size - 1) >= MAX_RANKS:
        return None
    return tuple(range(first, first + stride * size, stride))


def _dtype(args: Mapping[str, Any]) -> str:
    if args.get("dtype"):
        return str(args["dtype"])
    types = args.get("types")
    return str(types[0]) if isinstance(types, list) and types else ""


def _elements(op: CollectiveOp, args: Mapping[str, Any], size: int | None) -> int | None:
    """Elements as nccl-tests counts them: of the input; all_gather: of the output; gather, scatter: of the root."""
    given, out = _count(args.get("in_elements")), _count(args.get("out_elements"))
    if op == "all_gather" and out is not None:
        return out
    if op == "scatter":  # the output of each rank; only the root has an input
        return out * size if out is not None and size else None
    given = given if given is not None else _shape(args.get("dims"))
    if op in ("all_gather", "gather"):
        return given * size if given is not None and size else None
    return given


def _shape(dims: Any) -> int | None:
    """Elements of the tensors of ``Input Dims``, None where it has none."""
    shapes = dims if isinstance(dims, list) else []
    counts = [prod(s) for s in shapes if isinstance(s, list) and s and all(_count(n) is not None for n in s)]
    return sum(counts) if counts and sum(counts) <= MAX_BYTES else None


def _count(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < _DIGITS:
        value = int(value)
    return value if type(value) is int and 0 <= value <= MAX_BYTES else None


def _members(value: Any) -> tuple[int, ...] | None:
    """The ranks of a list; None where it was cut, or has what is no rank."""
    ranks = _numbers(value)
    return ranks if ranks and min(ranks) >= 0 and max(ranks) < MAX_RANKS else None


def _numbers(value: Any) -> tuple[int, ...] | None:
    """The numbers in ``[0, 1, 2]``, which Kineto writes as text and cuts after 30; None where it was cut."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if isinstance(value, list) and value and all(type(v) is int for v in value):
        return tuple(value)
    return None

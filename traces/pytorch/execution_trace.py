"""Reads PyTorch execution traces (schema 1.x): operators with shapes and tensors, and the collectives among them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec

from inputs.errors import InputError
from inputs.typed import typed
from traces.collective_args import CollectiveArgs, KeptArgs, ProcessGroup, read_args
from traces.json_array import JsonArray
from traces.typed import MAX_BYTES, MAX_RANKS, rank_in_name

COMMS = "record_param_comms"
_RANK = re.compile(r"(?:rank|worker|eg|et)?[-_.]?(\d+)\.json(?:\.gz)?$")
_TENSOR_TYPE = re.compile(r"Tensor\((.+?)\)")
_WAIT = "wait"
_MATRIX, _MOST = 2, 8
"""Extents of a matrix, and the most that a tensor has."""
Extent: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
"""Rows or columns of a matrix."""
_Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_RANKS)]
_TENSOR_FIELDS = 6
"""A tensor is [tensor id, storage id, offset, elements, bytes per element, device] (``ExecutionTraceObserver``)."""


class Attribute(msgspec.Struct):
    """An attribute of a node (schema 1.1)."""

    name: str
    value: Any = None


class Values(msgspec.Struct, gc=False):
    """Inputs or outputs of a node (schema 1.1)."""

    values: list[Any] | None = None
    shapes: list[Any] | None = None
    types: list[Any] | None = None


class TraceNode(msgspec.Struct, gc=False):
    """One node; schema 1.0 has ``inputs`` and ``parent``, 1.1 nests values, shapes and attributes."""

    id: int
    name: str
    parent: int | None = None
    ctrl_deps: int | None = None
    rf_id: int | None = None
    tid: int | None = None
    inputs: list[Any] | Values | None = None
    outputs: list[Any] | Values | None = None
    input_shapes: list[Any] | None = None
    input_types: list[Any] | None = None
    attrs: list[Attribute] | None = None


@dataclass(frozen=True, slots=True)
class EtNode:
    """A node of either schema in one shape."""

    id: int
    name: str
    parent: int
    rf_id: int
    tid: int
    inputs: list[Any]
    outputs: list[Any]
    shapes: list[Any]
    types: list[Any]
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ExecutionTrace:
    """One rank's execution trace.

    Attributes:
        file: path that was read.
        rank: rank in the file's name, None where there is none.
        nodes: all nodes by id.
        groups: ranks of the process groups by name.
    """

    file: Path
    rank: int | None
    nodes: tuple[EtNode, ...]
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def read_pytorch_et(file: Path) -> ExecutionTrace:
    """Read one file.

    Raises:
        InputError: not such a file; the byte or node is named.
    """
    array = JsonArray(file, "nodes", TraceNode)
    nodes = sorted((_plain(node) for batch in array.batches() for node in batch), key=lambda node: node.id)
    if not nodes:
        raise InputError("has no nodes", file=file, expected="a PyTorch execution trace with nodes")
    schema = str(array.head.get("schema", ""))
    if not schema.startswith("1."):
        raise InputError("has another schema", file=file, key="schema", given=schema, expected="1.x")
    ids = Counter(node.id for node in nodes)
    twice = next((number for number, count in ids.items() if count > 1), None)
    if twice is not None:
        raise InputError(f"has two nodes with the id {twice}", file=file, expected="an id of its own for each node")
    found = _RANK.search(file.name)
    rank = rank_in_name(found[1], file) if found else None
    return ExecutionTrace(file, rank, tuple(nodes), _groups(file, nodes))


def _plain(node: TraceNode) -> EtNode:
    attributes = {attribute.name: attribute.value for attribute in node.attrs or ()}
    inputs = (
        node.inputs if isinstance(node.inputs, Values) else Values(node.inputs, node.input_shapes, node.input_types)
    )
    outputs = node.outputs.values if isinstance(node.outputs, Values) else node.outputs
    return EtNode(
        id=node.id,
        name=node.name,
        parent=_whole(node.parent if node.parent is not None else node.ctrl_deps),
        rf_id=_whole(node.rf_id if node.rf_id is not None else attributes.get("rf_id")),
        tid=_whole(node.tid if node.tid is not None else attributes.get("tid")),
        inputs=inputs.values or [],
        outputs=outputs or [],
        shapes=inputs.shapes or [],
        types=inputs.types or [],
        attributes=attributes,
    )


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _groups(file: Path, nodes: Sequence[EtNode]) -> dict[str, tuple[int, ...]]:
    """Process groups from the node ``## process_group:init ##``; an empty list of ranks means all of them."""
    groups: dict[str, tuple[int, ...]] = {}
    for node in nodes:
        if "process_group:init" in node.name and node.inputs and isinstance(node.inputs[0], str):
            try:
                config = json.loads(node.inputs[0])
            except (ValueError, RecursionError):
                continue
            for group in typed(config, list[ProcessGroup], file, words_of(node)):
                size = typed(group.group_size or 0, _Size, file, f"{words_of(node)}: group_size")
                groups[str(group.pg_name)] = tuple(group.ranks or range(size))
    return {name: ranks for name, ranks in groups.items() if ranks}


def collectives_of(trace: ExecutionTrace, world_size: int | None) -> Iterator[tuple[EtNode, CollectiveArgs]]:
    """The collectives in the order they were issued; waits and unknown operations left out."""
    for node in trace.nodes:
        if node.name != COMMS:
            continue
        given = _comm_args(node)
        kept = {key: given[key] for key in KeptArgs.__struct_fields__ if key in given}
        typed(kept, KeptArgs, trace.file, words_of(node), _NAMES)
        args = read_args("", given, trace.groups, world_size)
        if args is not None:
            yield node, args


_NAMES = {
    "collective": "collective_name", "group": "pg_name", "in_elements": "in_msg_nelems",
    "out_elements": "out_msg_nelems",
}  # fmt: skip
"""Attributes (schema 1.1) of the arguments that are called otherwise there."""


def is_shape(value: Any) -> bool:
    """Whether a value is the shape of a matrix or of several."""
    return isinstance(value, list) and _MATRIX <= len(value) <= _MOST and all(type(extent) is int for extent in value)


def words_of(node: EtNode) -> str:
    """Number and name of a node, for messages."""
    return f"node {node.id} ({node.name[:60]!r})"


def _comm_args(node: EtNode) -> dict[str, Any]:
    """The arguments as `traces.kineto.reader` names them, from attributes (1.1) or from the inputs (1.0).

    The inputs are: tensors, then numbers, the operation's name, splits in and out (PyTorch, ``ParamCommsUtils``).
    """
    attributes, inputs = node.attributes, node.inputs
    place = next((n for n, value in enumerate(inputs) if isinstance(value, str)), None)
    name = attributes.get("collective_name") or (inputs[place] if place is not None else _WAIT)
    splits = inputs[place + 1] if place is not None and place + 1 < len(inputs) else None
    tensors = list(tensors_in(inputs[:place] if place is not None else inputs))
    group = attributes.get("pg_name") or next(
        (v[0] for v in inputs if isinstance(v, list) and v and isinstance(v[0], str) and not _is_tensor(v)), None
    )
    made: dict[str, Any] = {"collective": name, "in_splits": splits, "group": group}
    made["dtype"] = attributes.get("dtype") or _dtype_of(node)
    made["in_elements"] = attributes.get("in_msg_nelems", sum(t[3] for t in tensors) if tensors else None)
    made["out_elements"] = attributes.get("out_msg_nelems", sum(t[3] for t in tensors_in(node.outputs)) or None)
    made["group_size"] = attributes.get("group_size")
    return {key: value for key, value in made.items() if value is not None}


def _dtype_of(node: EtNode) -> str | None:
    """The element type of the first tensor, from ``Tensor(float)`` or ``GenericList[Tensor(float)]``."""
    found = _TENSOR_TYPE.search(" ".join(t for t in node.types if isinstance(t, str)))
    return found[1] if found else None


def _is_tensor(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) >= _TENSOR_FIELDS
        and all(type(v) is int for v in value[:2])
        and all(type(v) is int and 0 <= v <= MAX_BYTES for v in value[2:5])
        and isinstance(value[5], str)
    )


def tensors_in(values: Any) -> Iterator[list[Any]]:
    """All tensors in arguments, those of lists included."""
    for value in values if isinstance(values, list) else ():
        if _is_tensor(value):
            yield value
        elif isinstance(value, list):
            yield from tensors_in(value)

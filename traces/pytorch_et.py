"""Reads and imports PyTorch execution traces (schema 1.x): operators with shapes and data dependencies, without times.

Operators that read or write tensors of a GPU become work with the shapes the trace has, in the order they were issued;
``record_param_comms`` gives the collectives with their sizes, splits and process groups. The compute model of a
simulated cluster turns the shapes into times.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import msgspec

from inputs.errors import InputError
from simulator.operators import CollectiveCall, Elementwise, Gemm, HostWork, Precision, Work
from traces.collective_args import DEFAULT_GROUP, CollectiveArgs, read_args
from traces.imported import Gap, Imported, absent_ranks, gaps_of
from traces.json_array import JsonArray
from traces.merge import merge
from traces.rank_tasks import RankTasks, RankTasksBuilder

SECTION = "iteration"
COMMS = "record_param_comms"
_RANK = re.compile(r"(?:rank|worker|eg|et)?[-_.]?(\d+)\.json(?:\.gz)?$")
_TENSOR_TYPE = re.compile(r"Tensor\((.+?)\)")
_GEMMS = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"}
_PRECISION: Mapping[int, Precision] = {8: "fp64", 4: "fp32", 2: "fp16", 1: "int8"}
_WAIT = "wait"
_TENSOR_FIELDS = 6
"""A tensor is [tensor id, storage id, offset, elements, bytes per element, device] (``ExecutionTraceObserver``)."""


class Node(msgspec.Struct, gc=False):
    """One node; schema 1.0 has ``inputs`` and ``parent``, 1.1 nests values, shapes and attributes."""

    id: int
    name: str
    parent: int | None = None
    ctrl_deps: int | None = None
    rf_id: int | None = None
    tid: int | None = None
    inputs: Any = None
    outputs: Any = None
    input_shapes: Any = None
    input_types: Any = None
    attrs: Any = None


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
        file: where it was read.
        rank: from the file's name, None where it says none.
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
    array = JsonArray(file, "nodes", Node)
    nodes = sorted((_plain(node) for batch in array.batches() for node in batch), key=lambda node: node.id)
    if not nodes:
        raise InputError("has no nodes", file=file, expected="a PyTorch execution trace with nodes")
    schema = str(array.head.get("schema", ""))
    if not schema.startswith("1."):
        raise InputError("has another schema", file=file, key="schema", given=schema, expected="1.x")
    ids = Counter(node.id for node in nodes)
    twice = next((number for number, count in ids.items() if count > 1), None)
    if twice is not None:
        raise InputError(f"has two nodes with the id {twice}", file=file)
    found = _RANK.search(file.name)
    return ExecutionTrace(file, int(found[1]) if found else None, tuple(nodes), _groups(nodes))


def _plain(node: Node) -> EtNode:
    attributes = {a["name"]: a.get("value") for a in node.attrs or () if isinstance(a, dict) and "name" in a}
    nested = isinstance(node.inputs, dict)
    inputs = node.inputs.get("values") if nested else node.inputs
    outputs = node.outputs.get("values") if isinstance(node.outputs, dict) else node.outputs
    shapes = node.inputs.get("shapes") if nested else node.input_shapes
    types = node.inputs.get("types") if nested else node.input_types
    return EtNode(
        id=node.id,
        name=node.name,
        parent=_whole(node.parent if node.parent is not None else node.ctrl_deps),
        rf_id=_whole(node.rf_id if node.rf_id is not None else attributes.get("rf_id")),
        tid=_whole(node.tid if node.tid is not None else attributes.get("tid")),
        inputs=inputs if isinstance(inputs, list) else [],
        outputs=outputs if isinstance(outputs, list) else [],
        shapes=shapes if isinstance(shapes, list) else [],
        types=types if isinstance(types, list) else [],
        attributes=attributes,
    )


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _groups(nodes: Sequence[EtNode]) -> dict[str, tuple[int, ...]]:
    """Process groups from the node ``## process_group:init ##``; an empty list of ranks means all of them."""
    groups: dict[str, tuple[int, ...]] = {}
    for node in nodes:
        if "process_group:init" in node.name and node.inputs and isinstance(node.inputs[0], str):
            try:
                config = json.loads(node.inputs[0])
            except ValueError:
                continue
            for group in config if isinstance(config, list) else []:
                if isinstance(group, dict):
                    ranks, size = group.get("ranks"), group.get("group_size")
                    known = ranks if isinstance(ranks, list) and ranks else range(size if isinstance(size, int) else 0)
                    groups[str(group.get("pg_name"))] = tuple(known)
    return {name: ranks for name, ranks in groups.items() if ranks}


def collectives_of(trace: ExecutionTrace, world_size: int | None) -> Iterator[tuple[EtNode, CollectiveArgs]]:
    """The collectives in the order they were issued; waits and unknown operations left out."""
    for node in trace.nodes:
        if node.name != COMMS:
            continue
        args = read_args("", _comm_args(node), trace.groups, world_size)
        if args is not None:
            yield node, args


def _comm_args(node: EtNode) -> dict[str, Any]:
    """The arguments as `traces.kineto` names them, from attributes (1.1) or from the inputs (1.0).

    The inputs are: tensors, then numbers, the operation's name, splits in and out (PyTorch, ``ParamCommsUtils``).
    """
    attributes, inputs = node.attributes, node.inputs
    place = next((n for n, value in enumerate(inputs) if isinstance(value, str)), None)
    name = attributes.get("collective_name") or (inputs[place] if place is not None else _WAIT)
    splits = inputs[place + 1] if place is not None and place + 1 < len(inputs) else None
    tensors = list(_tensors(inputs[:place] if place is not None else inputs))
    group = attributes.get("pg_name") or next(
        (v[0] for v in inputs if isinstance(v, list) and v and isinstance(v[0], str) and not _is_tensor(v)), None
    )
    made: dict[str, Any] = {"collective": name, "in_splits": splits, "group": group}
    made["dtype"] = attributes.get("dtype") or _dtype_of(node)
    made["in_elements"] = attributes.get("in_msg_nelems", sum(t[3] for t in tensors) if tensors else None)
    made["out_elements"] = attributes.get("out_msg_nelems", sum(t[3] for t in _tensors(node.outputs)) or None)
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
        and all(isinstance(v, int) for v in value[:5])
        and isinstance(value[5], str)
    )


def _tensors(values: Any) -> Iterator[list[Any]]:
    """All tensors in arguments, those of lists included."""
    for value in values if isinstance(values, list) else ():
        if _is_tensor(value):
            yield value
        elif isinstance(value, list):
            yield from _tensors(value)


def import_pytorch_et(files: Sequence[Path], ranks: Sequence[int] | None = None) -> Imported:
    """Import execution traces alone.

    Raises:
        InputError: a file is no such trace, or two are of one rank.
        ProgramError: ranks disagree on a collective.
    """
    traces = [read_pytorch_et(file) for file in files]
    found: dict[int, ExecutionTrace] = {}
    for trace in traces:
        if trace.rank is None and len(traces) > 1:
            raise InputError(
                "does not say its rank", file=trace.file, expected="a name that ends in its rank, et_3.json"
            )
        rank = trace.rank or 0
        if rank in found:
            raise InputError(f"is of rank {rank}, and so is {found[rank].file}", file=trace.file)
        if ranks is None or rank in set(ranks):
            found[rank] = trace
    if not found:
        raise InputError("no trace is of these ranks", file="--ranks", given=",".join(map(str, ranks or ())))
    world_size = max([max(found) + 1, *(max(g) + 1 for t in found.values() for g in t.groups.values())])
    gaps = {rank: Counter[str]() for rank in found}
    members: dict[str, tuple[int, ...] | None] = {}
    tasks = [_tasks(trace, rank, world_size, members, gaps[rank]) for rank, trace in sorted(found.items())]
    graph = merge(tasks, members, world_size).graph
    no_times = Gap(
        "execution traces have no times: a replay needs a cluster's models", len(found), tuple(sorted(found))
    )
    return Imported(
        format="PyTorch execution trace",
        files=tuple(trace.file for trace in found.values()),
        graph=graph,
        world_size=world_size,
        found={
            "nodes": sum(len(trace.nodes) for trace in found.values()),
            "tasks": sum(len(t.names) for t in tasks),
            "collectives": sum(isinstance(w, CollectiveCall) for t in tasks for w in t.work),
            "dependencies": sum(len(t.dep_task) for t in tasks),
        },
        gaps=(*absent_ranks(found, world_size), no_times, *gaps_of(gaps)),
    )


def _tasks(
    trace: ExecutionTrace,
    rank: int,
    world_size: int,
    members: dict[str, tuple[int, ...] | None],
    gaps: Counter[str],
) -> RankTasks:
    """Leaf operators on GPU tensors, each behind its launch; a task waits for the last writer of what it reads."""
    builder = RankTasksBuilder(rank, str(trace.file))
    host, compute, comm = (builder.stream(name) for name in ("host", "compute", "comm"))
    parents = {node.parent for node in trace.nodes}
    calls = {node.id: args for node, args in collectives_of(trace, world_size)}
    written: dict[int, int] = {}
    for node in trace.nodes:
        inputs, outputs = list(_tensors(node.inputs)), list(_tensors(node.outputs))
        args = calls.get(node.id)
        if args is None and (node.id in parents or not any(t[5].startswith("cuda") for t in (*inputs, *outputs))):
            continue
        if node.name.startswith("nccl:") or (node.name == COMMS and args is None):
            continue
        work = _work(node, inputs, outputs, gaps) if args is None else _call(args, members, gaps)
        launch = builder.task(f"{node.name} (launch)", host, HostWork(launches=1), 0, 0, section=SECTION)
        after = [launch, *(written[t[1]] for t in inputs if t[1] in written)]
        stream = compute if args is None else comm
        task = builder.task(node.name if args is None else args.op, stream, work, 0, 0, section=SECTION, after=after)
        written.update({t[1]: task for t in outputs})
    built = builder.build()
    if not built.names:
        raise InputError("has no work on a GPU", file=trace.file, expected="operators with cuda tensors")
    return built


def _call(args: CollectiveArgs, members: dict[str, tuple[int, ...] | None], gaps: Counter[str]) -> CollectiveCall:
    members[args.group] = members.get(args.group) or args.ranks
    if args.bytes is None:
        gaps["collectives whose size the trace does not say"] += 1
    if args.ranks is None and args.group == DEFAULT_GROUP:
        gaps["collectives whose process group the trace does not name (taken for all ranks)"] += 1
    return CollectiveCall(args.op, args.group, args.bytes or 0.0, args.dtype)


def _work(node: EtNode, inputs: Sequence[list[Any]], outputs: Sequence[list[Any]], gaps: Counter[str]) -> Work:
    """A GEMM with its shapes, or the traffic of an operator's tensors."""
    if node.name in _GEMMS:
        shapes = [s for s in node.shapes if isinstance(s, list) and len(s) >= 2 and all(isinstance(n, int) for n in s)]
        if len(shapes) >= 2:
            (*batch, m, k), n = shapes[-2], shapes[-1][-1]
            return Gemm(m=m, n=n, k=k, precision=_PRECISION.get(inputs[0][4], "fp32"), count=max(prod(batch), 1))
    if not outputs:
        gaps["operators whose outputs the trace does not have (taken for their inputs' traffic)"] += 1
    read, write = (float(sum(t[3] * t[4] for t in tensors)) for tensors in (inputs, outputs))
    return Elementwise(read_bytes=read, write_bytes=write)

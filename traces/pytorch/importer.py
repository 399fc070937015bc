"""Imports PyTorch execution traces alone: operators with shapes and data dependencies, without times.

Operators that read or write tensors of a GPU become work with the shapes the trace has, in the order they were issued;
``record_param_comms`` gives the collectives with their sizes, splits and process groups. The compute model of a
simulated cluster turns the shapes into times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

from inputs.errors import InputError
from inputs.typed import typed
from simulator.collective_calls import CollectiveCall
from simulator.operators import Elementwise, Gemm, HostWork
from simulator.precisions import Precision
from simulator.work import Work
from traces.collective_args import DEFAULT_GROUP, UNKNOWN_SIZE, CollectiveArgs
from traces.imported import Gap, Imported, absent_ranks, gaps_of
from traces.merge import groups_of, merge
from traces.pytorch.execution_trace import (
    COMMS,
    EtNode,
    ExecutionTrace,
    Extent,
    collectives_of,
    is_shape,
    read_pytorch_et,
    tensors_in,
    words_of,
)
from traces.rank_tasks import RankTasks, RankTasksBuilder
from traces.typed import ONE_EACH, no_such_ranks

SECTION = "iteration"
_GEMMS = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"}
_PRECISION: Mapping[int, Precision] = {8: "fp64", 4: "fp32", 2: "fp16", 1: "int8"}
"""Precision by bytes per element; a trace does not separate fp16 from bf16 here, which take the same time."""


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
            raise InputError(f"is of rank {rank}, and so is {found[rank].file}", file=trace.file, expected=ONE_EACH)
        if ranks is None or rank in set(ranks):
            found[rank] = trace
    if not found:
        raise no_such_ranks(ranks or (), [trace.rank or 0 for trace in traces])
    world_size = max([max(found) + 1, *(max(g) + 1 for t in found.values() for g in t.groups.values())])
    gaps = {rank: Counter[str]() for rank in found}
    members: dict[str, tuple[int, ...] | None] = {}
    tasks = [_tasks(trace, rank, world_size, members, gaps[rank]) for rank, trace in sorted(found.items())]
    graph = merge(tasks, groups_of(members, world_size), world_size).graph
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
    """Leaf operators on GPU tensors, each behind its launch; a task waits for the last writer of its inputs."""
    builder = RankTasksBuilder(rank, str(trace.file))
    host, compute, comm = (builder.stream(name) for name in ("host", "compute", "comm"))
    parents = {node.parent for node in trace.nodes}
    calls = {node.id: args for node, args in collectives_of(trace, world_size)}
    written: dict[int, int] = {}
    for node in trace.nodes:
        inputs, outputs = list(tensors_in(node.inputs)), list(tensors_in(node.outputs))
        args = calls.get(node.id)
        if args is None and (node.id in parents or not any(t[5].startswith("cuda") for t in (*inputs, *outputs))):
            continue
        if node.name.startswith("nccl:") or (node.name == COMMS and args is None):
            continue
        work = _work(trace, node, gaps) if args is None else _call(args, members, gaps)
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
        gaps[UNKNOWN_SIZE] += 1
    if args.ranks is None and args.group == DEFAULT_GROUP:
        gaps["collectives whose process group the trace does not name (taken for all ranks)"] += 1
    return CollectiveCall(args.op, args.group, args.bytes or 0.0, args.dtype)


def _work(trace: ExecutionTrace, node: EtNode, gaps: Counter[str]) -> Work:
    """A GEMM with its shapes, or the traffic of an operator's tensors.

    Raises:
        InputError: a GEMM's matrix has an impossible extent.
    """
    inputs, outputs = list(tensors_in(node.inputs)), list(tensors_in(node.outputs))
    if node.name in _GEMMS:
        shapes = [typed(s, list[Extent], trace.file, words_of(node)) for s in node.shapes if is_shape(s)]
        if len(shapes) >= 2:
            (*batch, m, k), n = shapes[-2], shapes[-1][-1]
            width = inputs[0][4] if inputs else 0
            return Gemm(m=m, n=n, k=k, precision=_PRECISION.get(width, "fp32"), count=max(prod(batch), 1))
    if not outputs:
        gaps["operators whose outputs the trace does not have (taken for their inputs' traffic)"] += 1
    read, write = (float(sum(t[3] * t[4] for t in tensors)) for tensors in (inputs, outputs))
    return Elementwise(read_bytes=read, write_bytes=write)

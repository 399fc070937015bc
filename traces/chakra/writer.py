"""Writes Chakra execution traces, ``PREFIX.RANK.et``, as ASTRA-sim and Chakra's tools read them.

All dependencies are ``data_deps``, which is what ASTRA-sim follows; those that only keep the order of a stream are
``ctrl_deps`` as well.
Durations are whole microseconds. Attributes beside Chakra's own (``stream``, ``section``, ``category``, ``dtype``,
``cause``, ``op``) let `traces.chakra.importer` give the same programs back; other readers pass over them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from inputs.errors import InputError
from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from simulator.compute import gemm_amounts
from simulator.operators import Amount, Copy, Delay, Measured
from simulator.program import IntArray, Program
from simulator.work import Work, category_of
from traces.chakra.messages import COMM_COLL, COMM_OPS, COMP, METADATA, NODE, SEND, SEND_PARTS, messages
from traces.collective_args import DEFAULT_GROUP
from traces.imported import Imported
from traces.replay.job import UNKNOWN, job_of

SCHEMA = "0.0.4"
PS_PER_US = 1_000_000
_COMM_TYPES = {op: number for number, op in reversed(COMM_OPS.items())}
_COMM_TYPES[SEND] = _COMM_TYPES["gather"]


def write_chakra(imported: Imported, folder: Path, prefix: str = "trace") -> None:
    """Write a file per rank into ``folder``.

    Raises:
        InputError: tasks have no duration, or a collective is none of Chakra's.
    """
    job = job_of(imported)
    records = imported.measured.result.records[0].groups if imported.measured else None
    for number, (program, durations) in enumerate(zip(job.graph.programs, job.durations_ps, strict=True)):
        if np.any(durations == UNKNOWN):
            message = "has tasks without a duration, which Chakra needs"
            raise InputError(message, file=imported.files[0], given=imported.format, expected="a trace with times")
        _check_operations(imported, program)
        starts = np.zeros_like(durations) if records is None else records[number].start_ps
        lengths = durations if records is None else _with_transfers(program, durations, records[number])
        for column, rank in enumerate(program.ranks.tolist()):
            groups = _groups(job.graph.communicators, rank)
            nodes = _nodes(program, column, groups, starts[:, column], lengths[:, column])
            (folder / f"{prefix}.{rank}.et").write_bytes(b"".join(_file(nodes)))


def _groups(communicators: Mapping[str, IntArray], rank: int) -> dict[str, str]:
    """Process group of a rank by communicator; each of several instances is a group of its own."""
    own = {name: int(instances[rank]) for name, instances in communicators.items() if rank < len(instances)}
    alone = {name for name in own if communicators[name].max() <= 0}
    return {name: name if name in alone else f"{name} {instance}" for name, instance in own.items()}


def _check_operations(imported: Imported, program: Program) -> None:
    for work in program.work:
        if isinstance(work, CollectiveCall) and work.op not in _COMM_TYPES:
            expected = f"one of {', '.join(sorted(_COMM_TYPES))}"
            raise InputError("Chakra has no such collective", file=imported.files[0], given=work.op, expected=expected)


def _with_transfers(program: Program, durations: IntArray, times: Any) -> IntArray:
    """Durations with those of collectives, from the last arrival to the end."""
    lengths = durations.copy()
    for task, work in enumerate(program.work):
        if isinstance(work, CollectiveCall):
            lengths[task] = times.end_ps[task] - times.start_ps[task] - times.waiting_ps[task]
    return lengths


def _nodes(
    program: Program, column: int, groups: Mapping[str, str], starts_ps: IntArray, lengths_ps: IntArray
) -> Iterator[Any]:
    """The nodes of one rank, numbered from 1."""
    kind = messages()[NODE]
    before: dict[int, int] = {}
    for task, (name, stream, work) in enumerate(
        zip(program.names, program.stream_of.tolist(), program.work, strict=True)
    ):
        explicit = [dep + 1 for dep, lag in program.dependencies(task) if lag == 0]
        ordered = [before[stream]] if stream in before and before[stream] not in explicit else []
        node = kind(
            id=task + 1,
            name=name,
            type=COMM_COLL if isinstance(work, CollectiveCall) else COMP,
            data_deps=[*explicit, *ordered],
            ctrl_deps=ordered,
            start_time_micros=max(round(int(starts_ps[task]) / PS_PER_US), 0),
            duration_micros=round(int(lengths_ps[task]) / PS_PER_US),
        )
        own = {"stream": program.streams[stream].name, "section": program.sections[task]}
        for key, value in {**_attributes(work, column, groups), **own}.items():
            node.attr.add(name=key, **{_field(key, value): value})
        before[stream] = task + 1
        yield node


def _field(key: str, value: bool | int | str) -> str:
    """The field of an attribute, by the types that Chakra's readers expect."""
    if isinstance(value, bool | str):
        return "bool_val" if isinstance(value, bool) else "string_val"
    return "uint64_val" if key == "tensor_size" else "int64_val"


def _attributes(work: Work, column: int, groups: Mapping[str, str]) -> Mapping[str, bool | int | str]:
    """Chakra's attributes of a node, then those of ours."""
    if isinstance(work, CollectiveCall):
        name = groups.get(work.communicator, work.communicator)
        group = {} if name == DEFAULT_GROUP else {"pg_name": name}
        parts, sends = (SEND_PARTS, {"op": SEND}) if work.op == SEND else (1, {})
        size = {"comm_type": _COMM_TYPES[work.op], "comm_size": parts * _own(work.bytes * work.repeats, column)}
        uneven = isinstance(work.bytes, np.ndarray)
        return {"is_cpu_op": False, **size, **group, "dtype": work.dtype, "uneven": uneven, **sends}
    category = category_of(work)
    more: Mapping[str, int | str] = {}
    if isinstance(work, Delay):
        more = {"cause": work.cause}
    elif isinstance(work, Copy):
        more = {"tensor_size": _own(work.bytes, column), "direction": work.direction}
    elif isinstance(work, Measured):
        flops, traffic = (0.0, 0.0) if work.shape is None else gemm_amounts(work.shape)
        more = {"num_ops": round(float(flops)), "tensor_size": round(float(traffic)), "kernel": work.name}
    return {"is_cpu_op": category in (Category.HOST, Category.INPUT, Category.IDLE), **more, "category": str(category)}


def _own(amount: Amount, column: int) -> int:
    return round(float(amount[column] if isinstance(amount, np.ndarray) else amount))


def _file(nodes: Iterator[Any]) -> Iterator[bytes]:
    for message in (messages()[METADATA](version=SCHEMA), *nodes):
        payload = message.SerializeToString()
        yield _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])

"""Collectives of a captured step: calls of c10d and its functional form as calls on communicators.

Sizes are nccl-tests' ones (`simulator.collective_calls.CollectiveCall`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch._ops import OpOverload

from inputs.errors import InputError
from simulator.collective_calls import CollectiveOp
from trainer.capture.operators.call import CalledOperator
from trainer.capture.tensors import bytes_of, dtype_of, tensors_in
from workloads.captured.records import Collective

C10D, FUNCTIONAL = "c10d", "_c10d_functional"
WAIT = "wait_tensor"
"""Operator of the functional form that lets a stream wait."""
WRAP = "_wrap_tensor_autograd"
"""Operator that makes a tensor which waits when it is read."""


@dataclass(frozen=True, slots=True)
class CallShape:
    """Operation and size of a call.

    Attributes:
        tensors: buffers; the first one gives the element type.
        parts: bytes that go to each member; empty: the same to all.
        root: number of the root, or of the other rank of a message.
    """

    op: CollectiveOp
    bytes: float
    tensors: Sequence[Tensor]
    parts: tuple[float, ...] = ()
    root: int | None = None


def is_collective(func: OpOverload) -> bool:
    """Whether an operator is a collective or a message."""
    return func.namespace in (C10D, FUNCTIONAL) and func._opname not in (WAIT, "monitored_barrier_")  # noqa: SLF001


def group_of(call: CalledOperator) -> Any:
    """Process group of a call: its name, or the object."""
    return call.given.get("group_name", call.given.get("process_group"))


def collective_of(call: CalledOperator, communicator: str, members: Sequence[int], rank: int) -> Collective:
    """The call of a rank on a communicator.

    Args:
        members: ranks of the process group, in its order.

    Raises:
        InputError: an operation that the simulator does not know.
    """
    name = call.func._opname.strip("_")  # noqa: SLF001
    reader = _READERS.get(name)
    if reader is None:
        expected = "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, gather, scatter, send, recv"
        raise InputError("a collective that the simulator does not know", given=call.name, expected=expected)
    shape = reader(call, len(members))
    total = sum(shape.parts)
    even = not shape.parts or max(shape.parts) - min(shape.parts) < 1.0
    dtype = dtype_of(shape.tensors[0]) if shape.tensors else "fp32"
    receives = call.func._opname.startswith(("recv", "irecv"))  # noqa: SLF001 - the name without namespace
    distance = members[shape.root or 0] - rank if shape.op == "send" else 0
    return Collective(
        op=shape.op,
        communicator=communicator,
        bytes=shape.bytes,
        dtype=dtype,
        sent=() if even or not total else tuple(part / total for part in shape.parts),
        root=None if shape.op == "send" else shape.root,
        peer=-distance if receives else distance,
        receives=receives,
    )


def _size(values: Any) -> float:
    return sum(map(bytes_of, tensors_in(values)))


def _whole(op: CollectiveOp, *names: str) -> Callable[[CalledOperator, int], CallShape]:
    """A call as large as an argument."""

    def read(call: CalledOperator, _: int) -> CallShape:
        tensors = [t for name in names for t in tensors_in(call.given.get(name))]
        return CallShape(op, _size(tensors), tensors)

    return read


def _times_members(op: CollectiveOp, *names: str) -> Callable[[CalledOperator, int], CallShape]:
    """A call as large as an argument times the number of members."""

    def read(call: CalledOperator, members: int) -> CallShape:
        tensors = [t for name in names for t in tensors_in(call.given.get(name))]
        return CallShape(op, members * _size(tensors), tensors, root=call.given.get("root_rank"))

    return read


def _uneven(call: CalledOperator, members: int) -> CallShape:
    """An all_to_all of one tensor, which splits may divide."""
    given = call.given.get("input")
    tensors = list(tensors_in(given))
    size = _size(tensors)
    splits = call.given.get("input_split_sizes") or ()
    rows = sum(splits)
    parts = tuple(size * part / rows for part in splits) if rows and len(splits) == members else ()
    return CallShape("all_to_all", size, tensors, parts)


def _listed(call: CalledOperator, _: int) -> CallShape:
    """An all_to_all of a tensor for each member."""
    tensors = list(tensors_in(call.given["input_tensors"]))
    parts = tuple(map(bytes_of, tensors))
    return CallShape("all_to_all", sum(parts), tensors, parts)


def _message(key: str) -> Callable[[CalledOperator, int], CallShape]:
    def read(call: CalledOperator, _: int) -> CallShape:
        tensors = list(tensors_in(call.given["tensors"]))
        return CallShape("send", _size(tensors), tensors, root=int(call.given[key]))

    return read


def _barrier(_: CalledOperator, __: int) -> CallShape:
    return CallShape("barrier", 0.0, ())


_READERS: dict[str, Callable[[CalledOperator, int], CallShape]] = {
    # c10d
    "allreduce": _whole("all_reduce", "tensors"),
    "allreduce_coalesced": _whole("all_reduce", "tensors"),
    "allgather_base": _whole("all_gather", "output_tensor"),
    "allgather": _whole("all_gather", "output_tensors"),
    "allgather_into_tensor_coalesced": _whole("all_gather", "outputs"),
    "reduce_scatter_base": _whole("reduce_scatter", "input_tensor"),
    "reduce_scatter": _whole("reduce_scatter", "input_tensors"),
    "reduce_scatter_tensor_coalesced": _whole("reduce_scatter", "inputs"),  # of both
    "alltoall_base": _uneven,
    "alltoall": _listed,
    "broadcast": _whole("broadcast", "tensors", "input"),
    "reduce": _whole("reduce", "tensors"),
    "gather": _times_members("gather", "input_tensors"),
    "scatter": _times_members("scatter", "output_tensors"),
    "send": _message("dst"),
    "recv": _message("src"),
    "barrier": _barrier,
    # functional
    "all_reduce": _whole("all_reduce", "input"),
    "all_reduce_coalesced": _whole("all_reduce", "inputs"),
    "all_gather_into_tensor": _times_members("all_gather", "input"),
    "all_gather_into_tensor_out": _times_members("all_gather", "input"),
    "all_gather_into_tensor_coalesced": _times_members("all_gather", "inputs"),
    "reduce_scatter_tensor": _whole("reduce_scatter", "input"),
    "reduce_scatter_tensor_out": _whole("reduce_scatter", "input"),
    "all_to_all_single": _uneven,
}
"""Operator without underscores -> function that reads its size."""

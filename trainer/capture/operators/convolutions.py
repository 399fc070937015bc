"""Convolutions in one and two dimensions, and their gradients, a kernel each."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from trainer.capture.operators.call import CalledOperator
from trainer.capture.tensors import bytes_of, dtype_of
from workloads.captured.records import ConvolutionWork, Moved, RecordedWork

FORWARD, BACKWARD = "convolution", "convolution_backward"
_PLANE = 2
"""Dimensions of an image."""


def convolution(call: CalledOperator) -> list[RecordedWork] | None:
    """Kernels of a convolution; None if the operator is none, or has more than two dimensions."""
    name = call.func._opname  # noqa: SLF001 - the name without namespace and overload
    if name not in (FORWARD, BACKWARD, "_convolution"):
        return None
    inputs, weight = call.tensor("input"), call.tensor("weight")
    outputs: Tensor = call.tensor("grad_output") if name == BACKWARD else call.result
    if weight.dim() - 2 > _PLANE:
        return None
    if min(inputs.numel(), outputs.numel()) == 0:
        return []
    if name != BACKWARD:
        return [_work(call, inputs, outputs, weight, "forward")]
    wanted = call.given["output_mask"]
    found: list[RecordedWork] = []
    if wanted[0]:
        found.append(_work(call, inputs, outputs, weight, "inputs"))
    if wanted[1]:
        found.append(_work(call, inputs, outputs, weight, "weights"))
    if wanted[2]:
        found.append(Moved(read_bytes=bytes_of(outputs), write_bytes=bytes_of(call.result[2])))
    return found


def _work(call: CalledOperator, inputs: Tensor, outputs: Tensor, weight: Tensor, direction: str) -> ConvolutionWork:
    """A kernel; a transposed convolution runs the plain one's gradient of inputs forward, and the reverse."""
    if call.given["transposed"]:
        inputs, outputs = outputs, inputs
        direction = {"forward": "inputs", "inputs": "forward"}.get(direction, direction)
    return ConvolutionWork(
        images=inputs.shape[0],
        inputs=_extents(inputs.shape),
        outputs=_extents(outputs.shape),
        kernel=_plane(weight.shape[2:]),
        stride=_first(call.given["stride"]),
        groups=call.given["groups"],
        dtype=dtype_of(inputs),
        direction=direction,  # type: ignore[arg-type]  # one of the three, from the table above
    )


def _extents(shape: Sequence[int]) -> tuple[int, int, int]:
    """Height, width and channels of ``[images, channels, ...]``."""
    height, width = _plane(shape[2:])
    return height, width, shape[1]


def _plane(sizes: Sequence[int]) -> tuple[int, int]:
    return (1, sizes[0]) if len(sizes) == 1 else (sizes[0], sizes[1])


def _first(values: Sequence[int]) -> int:
    return max(int(values[0]), 1)

"""Compression of the messages between pipeline stages: how many bytes travel, and the kernels at both ends.

A tensor of n elements of b bytes at a ratio R travels as

    topk       ceil(n / R) elements, each with an index of 4 bytes: ceil(n / R) (b + 4)
    quantize   8 b / R bits of each element, and a scale of 4 bytes: ceil(n b / R) + 4

A ratio at which this is no less than n b leaves the tensor as it is. The sender reads the tensor some times and writes
what it sends; the receiver reads that and writes the tensor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from simulator.operators import Amount, Elementwise, FloatArray

CompressedFormat: TypeAlias = Literal["topk", "quantize"]
"""Elements of the largest magnitude with their places (sparsification), or all elements in fewer bits."""

INDEX_BYTES = 4
"""Bytes of the place of an element: 32 bits count those of any message."""
SCALE_BYTES = 4
"""Bytes of the scale of a quantized tensor, one number in fp32."""
READS_OF_QUANTIZE = 2
"""Times that a quantized tensor is read: for its largest element, and to convert it."""


@dataclass(frozen=True, slots=True)
class TensorCompression:
    """Compression of the tensors that travel in one direction.

    Attributes:
        ratio: see the module; 1 or more.
        reads: times that the sender reads the tensor; None: as its format needs.
    """

    format: CompressedFormat
    ratio: float
    reads: float | None = None

    def sent_bytes(self, elements: int, element_bytes: int, ratio: float) -> float:
        """Bytes of a tensor at another ratio than the largest."""
        plain = float(elements * element_bytes)
        if self.format == "topk":
            packed = math.ceil(elements / ratio) * float(element_bytes + INDEX_BYTES)
        else:
            packed = math.ceil(plain / ratio) + float(SCALE_BYTES)
        return min(packed, plain)

    def reads_of(self, element_bytes: int) -> float:
        """Times that the sender reads the tensor.

        Top-k of PyTorch is a radix select (``aten/src/ATen/native/cuda/TensorTopK.cu``, recalled): it counts digits of
        8 bits, one in each reading, and gathers in the last.
        """
        if self.reads is not None:
            return self.reads
        return element_bytes + 1.0 if self.format == "topk" else float(READS_OF_QUANTIZE)


@dataclass(frozen=True, slots=True)
class MessageCompression:
    """Compression of all messages between stages.

    Attributes:
        activations: compression of messages to the next stage; None: they travel as they are.
        gradients: the same for messages back to the one before.
        strength: part of the ratio that each message has, 0 (as it is) to 1 (all of it), by the stage that is earlier
            in the network and the place in it ``[boundaries][ranks of a stage]``.
    """

    activations: TensorCompression | None
    gradients: TensorCompression | None
    strength: tuple[tuple[float, ...], ...]

    def of(self, *, backward: bool) -> TensorCompression | None:
        """Compression of a direction."""
        return self.gradients if backward else self.activations

    def sent_bytes(self, boundary: int, elements: int, element_bytes: int, *, backward: bool) -> Amount:
        """Bytes of the messages over a boundary: a number if all are alike, else ``[ranks of a stage]``."""
        chosen, strength = self.of(backward=backward), self.strength[boundary]
        if chosen is None:
            return float(elements * element_bytes)
        each = [chosen.sent_bytes(elements, element_bytes, max(1.0, chosen.ratio * part)) for part in strength]
        return each[0] if len(set(each)) == 1 else np.array(each)

    def kernels(
        self, boundary: int, elements: int, element_bytes: int, *, backward: bool
    ) -> tuple[Elementwise, Elementwise] | None:
        """Kernels of sender and receiver; None where nothing is compressed."""
        chosen = self.of(backward=backward)
        sent = np.asarray(self.sent_bytes(boundary, elements, element_bytes, backward=backward))
        plain = float(elements * element_bytes)
        packed = np.where(sent < plain, 1.0, 0.0)
        if chosen is None or not packed.any():
            return None
        read = _amount(packed * plain * chosen.reads_of(element_bytes))
        return (
            Elementwise(read, _amount(packed * sent)),
            Elementwise(_amount(packed * sent), _amount(packed * plain)),
        )


def _amount(values: FloatArray) -> Amount:
    return float(values) if values.ndim == 0 else values


def ratios_by_time(seconds: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    """Strength of each message by its time: in proportion to it, 1 for the slowest.

    AdaTopK of FusionLLM (arXiv 2410.12707, recalled): the slowest link has the ratio that was asked for, the others as
    much of it as their share of the slowest one's time, at least 1. Its factor of 3, which makes up for the indices, is
    left to the ratio.
    """
    slowest = max((time for row in seconds for time in row), default=0.0)
    return tuple(tuple(time / slowest if slowest > 0.0 else 0.0 for time in row) for row in seconds)

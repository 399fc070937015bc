"""Activations of a stack of HSTU layers and the vectors of sequences in flight: bytes on each rank at three moments.

Counted as PyTorch keeps them (autograd of generative-recommenders' modules), in vectors of a position:

- forward: the received vectors, which the model's forward still references; what autograd keeps; the last layer's
  normalised input and UVQK;
- backward of the last layer: what autograd keeps; UVQK computed again, and the gradients of UVQK, x and attention;
- evaluation: no more than a layer at a time, with its input; or the received vectors without and with the candidates;
- embedding backward: gradients of the received vectors, their copy in the order of the owners, and the gradients that
  an owner receives. Before the forward pass the owner's vectors and the received ones take less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.operators import Amount, FloatArray
from workloads.dlrm.iteration.hstu_kernels import StackPositions
from workloads.dlrm.model.hstu import PROJECTED
from workloads.dlrm.model.hstu_part import HstuPart
from workloads.dlrm.model.layers import DenseLayer
from workloads.dlrm.model.settings import DlrmSettings


@dataclass(frozen=True, slots=True)
class SequenceBytes:
    """Vectors of sequences on a rank, bytes; each ``[P]`` where ranks differ.

    Attributes:
        received: vectors of the rank's samples, in the order of their arrival.
        gradients: their gradients.
        sent: gradients that go to the owners, of a row once or of each of its lookups.
        served: vectors or gradients that its shards exchange for all samples, whichever are larger.
    """

    received: Amount
    gradients: Amount
    sent: Amount
    served: Amount


def stack_peak(
    stack: HstuPart, positions: StackPositions, vectors: SequenceBytes, settings: DlrmSettings, ranks: int
) -> tuple[FloatArray, FloatArray]:
    """Activations and buffers of each rank at its peak moment; two ``[P]``."""
    element, every = float(settings.dense_bytes), positions.all
    cast = vectors.received * (element / settings.lookup_bytes(summed=False))
    biases = positions.squares * element * stack.hstu.stores_bias
    if settings.evaluates:
        layer = every * element * _evaluated_width(stack) + biases
        joined = 2.0 * vectors.received  # candidates behind the histories: a copy of both
        moments = [(vectors.received + cast + layer, 0.0), (joined, 0.0), (0.0, vectors.received + vectors.served)]
    else:
        kept = cast + _kept_bytes(stack, positions, element)
        if stack.hstu.recomputes:
            forward = vectors.received + kept + every * element * _layer_width(stack) + biases
        else:
            kept = kept + stack.layers * biases
            forward = vectors.received + kept
        backward = kept + every * element * _backward_width(stack) + (1 + stack.hstu.recomputes) * biases
        moments = [(forward, 0.0), (backward, 0.0), (vectors.gradients, vectors.sent + vectors.served)]
    activations, buffers = (
        np.stack([np.broadcast_to(np.asarray(moment[part], dtype=np.float64), ranks) for moment in moments])
        for part in (0, 1)
    )
    peak = np.argmax(activations + buffers, axis=0)
    everyone = np.arange(ranks)
    return activations[peak, everyone], buffers[peak, everyone]


def _kept_bytes(stack: HstuPart, positions: StackPositions, element: float) -> Amount:
    """Bytes that autograd keeps beside the cast inputs: of MLPs before the layers, of layers, of the dropout's mask."""
    hstu, width = stack.hstu, stack.width
    of_mlps = sum(_of_mlp(mlp) for mlp in (*stack.content, stack.action))
    of_layer = width + 2 * hstu.values  # x, u, and the attention
    if not hstu.recomputes:  # the normalised x, q, k and v, and the gated attention
        of_layer += width + 2 * hstu.queries + hstu.values + PROJECTED * hstu.values
    of_candidates = _of_mlp(stack.item) + 2 * width
    kept = positions.own * float(of_mlps) + positions.all * float(stack.layers * of_layer + width)
    return element * (kept + positions.targets * float(of_candidates)) + positions.all * float(width)


def _of_mlp(layers: Sequence[DenseLayer]) -> int:
    """Elements that an MLP keeps: inputs of its norms, and of the next linear layer; its last output is only added."""
    return sum(2 * layer.outputs for layer in layers) - (layers[-1].outputs if layers else 0)


def _layer_width(stack: HstuPart) -> int:
    """Elements of a position that a layer frees again in its forward pass: normalised x and UVQK, or the gated rest."""
    return max(stack.width + stack.hstu.projected, PROJECTED * stack.hstu.values)


def _evaluated_width(stack: HstuPart) -> int:
    """Elements of a position of a layer where nothing is kept: x, UVQK, and the attention or the normalised x."""
    return stack.width + stack.hstu.projected + max(stack.hstu.values, stack.width)


def _backward_width(stack: HstuPart) -> int:
    """Elements of a position of a layer in its backward pass: UVQK, x normalised, gradients of both, of attention."""
    return 2 * stack.width + 2 * stack.hstu.projected + stack.hstu.values

"""Memory of every rank of a transformer.

Activations of a layer, in bytes for each token and element of its width h, with f the width of the feed-forward network
and a dropout's mask of a byte (arXiv:2205.05198 counts the same 34 for f = 4 h, with 2 bytes an element):

    norms 2 x 2; input of the matrices 2 x 2; queries, keys, values, output of attention; inputs of the activation and
    of the last matrix; masks of dropouts. Scores that are written: 2 for the softmax, 3 for its dropout

Compiled, the feed-forward network of a gated layer keeps three of its four tensors. A layer whose forward pass is
repeated keeps its input. A selection by operator keeps inputs of the layer and of its last sum, the products that it
does not repeat and the output of attention. A pipeline's stage keeps the activations of all micro-batches in flight.
"""

from __future__ import annotations

import numpy as np

from simulator.operators import FloatArray
from workloads.graph.levels import gathered_bytes
from workloads.graph.memory import MemoryUse, Tier
from workloads.graph.optimizers import DENSE_STATE
from workloads.graph.pipeline_schedule import in_flight
from workloads.transformer.parts import NetworkPart, parts_of, stage_parts
from workloads.transformer.settings import TransformerSettings

MASK_BYTES = 1
"""A dropout's mask is a byte for each element."""

LOSS_BYTES = 12
"""The backward pass of cross entropy has three tensors of the size of the outputs in fp32: their log-probabilities, the
gradient of these, and the gradient of the outputs (PyTorch's ``nll_loss_backward`` and ``_log_softmax_backward``)."""


def memory_per_rank(settings: TransformerSettings) -> MemoryUse:
    """Bytes that every rank keeps."""
    sizes = settings.sizes
    stages = stage_parts(settings)
    items: dict[str, FloatArray] = {}
    for number, parts in enumerate(stages):
        for name, size in _stage_items(settings, number, parts).items():
            held = items.setdefault(name, np.zeros(sizes.world_size))
            held[sizes.stage(number)] = size
    tiers: dict[Tier, dict[str, FloatArray]] = {"hbm": items, "ddr": {}, "ssd": {}}
    return MemoryUse(tiers)


def _stage_items(settings: TransformerSettings, number: int, parts: list[NetworkPart]) -> dict[str, float]:
    sizes, element = settings.sizes, settings.element_bytes
    parameters = float(sum(part.parameters for part in parts))
    own = parameters / sizes.shards
    state = own * DENSE_STATE[settings.optimizer] * settings.state_bytes
    divided = sizes.gathers and (sizes.pipeline == 1 or sizes.shards == 1)
    gradients = own * settings.state_bytes if divided else parameters * settings.reduced_bytes
    if divided:
        weights, gathered = own * settings.state_bytes, _gathered_bytes(settings)
    elif sizes.gathers:
        weights, gathered = own * settings.state_bytes, parameters * element
    else:  # weights that the optimizer updates stand beside those that compute where they have more digits
        updated = own * settings.state_bytes if settings.state_bytes > element else 0.0
        weights, gathered = updated + parameters * element, 0.0
    flight = in_flight(number, sizes.pipeline, settings.microbatches, sizes.virtual_stages)
    kept = _kept_bytes(settings, parts, flight)
    return {
        "weights": weights,
        "gathered weights": gathered,
        "gradients": gradients,
        "optimizer state": state,
        "activations": kept,
        "backward pass": _working_bytes(settings),
        "loss": _loss_bytes(settings) if any(part.head for part in parts) else 0.0,
        "framework reserve": settings.reserve_bytes,
    }


def _gathered_bytes(settings: TransformerSettings) -> float:
    """Weights that are gathered at a time, and the whole gradient of the part that computes."""
    sizes, parts = settings.sizes, parts_of(settings)
    if sizes.shards == 1:
        return 0.0
    stays = settings.model.tied and sizes.reshards  # a tied embedding is not freed before the output layer has it
    freed = [part.parameters for part in parts if not (stays and part.embedding)]
    kept = sum(part.parameters for part in parts if stays and part.embedding)
    gradient = max(part.parameters for part in parts) * settings.reduced_bytes
    ahead = sizes.prefetch if sizes.reshards else len(freed)
    return gathered_bytes(freed, ahead, settings.element_bytes) + kept * settings.element_bytes + gradient


def _kept_bytes(settings: TransformerSettings, parts: list[NetworkPart], flight: int) -> float:
    """Activations of all micro-batches in flight, and of the layer that is computed again."""
    one = max(_part_bytes(part, settings) for part in parts)
    if any(part.embedding for part in parts) and settings.sizes.pipeline == 1:
        one += settings.own_tokens * settings.model.hidden * settings.element_bytes  # the head's input
    repeats = settings.recompute == "operators" or any(part.repeated for part in parts)
    return flight * one + (_layer_bytes(settings) if repeats else 0.0)


def _working_bytes(settings: TransformerSettings) -> float:
    """Gradients inside the feed-forward network that a layer's backward pass has at once, and gathered inputs."""
    model, sizes = settings.model, settings.sizes
    inside = settings.tokens * model.ffn * (2 if model.gated else 1) / sizes.tensor
    gathered = settings.tokens * model.hidden if sizes.tensor > 1 and sizes.sequence_parallel else 0
    keys = 0.0
    if sizes.context > 1 and sizes.context_exchange == "all_gather":  # of whole sequences, with values and gradients
        keys = 2.0 * settings.micro_batch * settings.sequence * model.kv_width / sizes.tensor
    return float(settings.element_bytes * (inside + 2 * gathered + 2 * keys))


def _part_bytes(part: NetworkPart, settings: TransformerSettings) -> float:
    """Activations that a part keeps for a micro-batch."""
    whole = layer_bytes(settings, repeated=False) * (part.layers - part.repeated)
    return whole + layer_bytes(settings, repeated=True) * part.repeated


def layer_bytes(settings: TransformerSettings, *, repeated: bool) -> float:
    """Activations that the forward pass of a layer keeps for a micro-batch, on a rank.

    Args:
        repeated: whether the backward pass repeats all of it.
    """
    model, tensor, element = settings.model, settings.sizes.tensor, settings.element_bytes
    own, tokens = settings.own_tokens * model.hidden, settings.tokens
    if repeated:
        return float(own * element)
    if settings.recompute == "operators":
        inside = tokens * (2 * model.query_width + model.kv_width + model.ffn) / tensor
        return float(element * (2 * own + inside))
    return _layer_bytes(settings)


def _layer_bytes(settings: TransformerSettings) -> float:
    """Activations of a layer that repeats nothing, or at most its attention."""
    model, tensor, element = settings.model, settings.sizes.tensor, settings.element_bytes
    own, tokens = settings.own_tokens * model.hidden, settings.tokens
    drops = MASK_BYTES * model.dropout
    between = own * (2 * element + 2 * element + 2 * drops)
    attention = tokens * (2 * model.query_width + 2 * model.kv_width) / tensor * element
    tensors = (3 if settings.compiled else 4) if model.gated else 2
    inside = tokens * model.ffn / tensor * tensors * element
    scores = 0.0
    if not settings.flash and settings.recompute != "selective":
        elements = tokens * settings.sequence * model.heads / tensor
        scores = elements * (element + (element + MASK_BYTES) * model.dropout)
    return float(between + attention + inside + scores)


def _loss_bytes(settings: TransformerSettings) -> float:
    """Cross entropy over the vocabulary."""
    return LOSS_BYTES * settings.tokens * settings.model.vocabulary / settings.sizes.tensor

"""Time of the kernels of a transformer's blocks: attention, feed-forward network, output layer..."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from scenarios.block_times import BlockTimes
from simulator.compute import ComputeModel
from simulator.work import KernelSeries, Operator
from workloads.transformer.kernels import (
    Counted,
    PassKernels,
    embedding_backward,
    embedding_forward,
    head_backward,
    head_forward,
    layer_backward,
    layer_forward,
)
from workloads.transformer.recorder import optimizer_kernels
from workloads.transformer.settings import TransformerSettings

PROJECTIONS = 2
"""Linear layers of attention, the first ones of a layer: queries, keys and values; output."""

FEED_FORWARD = 2
"""Linear layers of the feed-forward network, the next ones."""


def blocks_of(settings: TransformerSettings, compute: ComputeModel) -> Iterator[BlockTimes]:
    """Kernels of an iteration by block, without copies of gathered weights and of gradients.

    A rank has the layers of its stage: times are means over the stages.
    """
    model, stages = settings.model, settings.sizes.pipeline
    passes = settings.microbatches / stages
    ends, layers = passes, passes * model.layers
    counts = model.counts
    width, matrices = model.hidden, counts.layer_matrices
    inside = width * model.ffn * (3 if model.gated else 2)
    plain = replace(settings, recompute="none")
    forward, backward = layer_forward(settings), layer_backward(plain)
    again = _again(settings, backward)

    def row(block: str, parameters: int, times: float, parts: Sequence[Sequence[Counted]]) -> BlockTimes:
        return BlockTimes(block, parameters, *(times * _seconds(part, compute) for part in parts))

    one, other = embedding_forward(settings), embedding_backward(settings)
    yield row("embedding", counts.embedding, ends, (_every(one), (), _every(other)))
    repeated = sum(settings.repeats(layer) for layer in range(model.layers))
    kernels = [_by_block(each, of_one) for each, of_one in ((forward, 1), (again, 1), (backward, 2))]
    shares = [1.0, repeated / model.layers if repeated else 1.0, 1.0]
    names = {
        "attention, linear layers": model.layers * (matrices - inside),
        "attention, scores and sums": 0,
        "feed-forward, linear layers": model.layers * inside,
        "norms and element-wise": model.layers * (counts.layer - matrices),
    }
    for place, (name, parameters) in enumerate(names.items()):
        times = zip(shares, kernels, strict=True)
        yield BlockTimes(
            name, parameters, *(layers * share * _seconds(of_pass[place], compute) for share, of_pass in times)
        )
    one, other = head_forward(settings), head_backward(settings)
    yield row("output layer and loss", counts.head, ends, (_every(one), (), _every(other)))
    own = float(counts.all) / (settings.sizes.tensor * stages * settings.sizes.shards)
    yield BlockTimes(
        "optimizer", 0, 0.0, 0.0, sum(_one(kernel, compute) for kernel in optimizer_kernels(settings, own))
    )


def _again(settings: TransformerSettings, backward: PassKernels) -> PassKernels:
    """Forward work of a layer that its backward pass repeats: all of it, or what stands before its gradients."""
    if settings.repeats(0):
        return layer_forward(settings)
    every = layer_backward(settings)
    return PassKernels(
        every.first[: len(every.first) - len(backward.first)],
        every.products[: len(every.products) - len(backward.products)],
        every.attention[: len(every.attention) - len(backward.attention)],
    )


def _by_block(kernels: PassKernels, of_one: int) -> tuple[Sequence[Counted], ...]:
    """Kernels of a layer by block.

    Args:
        of_one: number of products of a linear layer in the pass.
    """
    first, last = of_one * PROJECTIONS, of_one * (PROJECTIONS + FEED_FORWARD)
    products = kernels.products
    return (*products[:first], *products[last:]), kernels.attention, products[first:last], kernels.first


def _every(kernels: PassKernels) -> tuple[Counted, ...]:
    return (*kernels.first, *kernels.products, *kernels.attention)


def _seconds(kernels: Sequence[Counted], compute: ComputeModel) -> float:
    return _one(KernelSeries("", tuple(kernels)), compute) if kernels else 0.0


def _one(kernel: Operator, compute: ComputeModel) -> float:
    return float(np.max(compute.duration_s(kernel)))

"""Ways to divide a transformer among the ranks of a job: sizes of groups, micro-batches, shards, recomputation.

All have the job's model, batch, arithmetic and optimizer, so that they train the same. Tensor groups stay within a
node, because their exchanges are between the products of every layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import gcd
from typing import get_args

from workloads.graph.divisors import divisors
from workloads.transformer.settings import ParallelSizes, Recompute, Sharding, TransformerSettings

PARTS_OF_A_STAGE = (1, 2, 4)
"""Virtual stages that are tried, beside the job's own number: each adds messages, and activations in flight."""

RECOMPUTE: tuple[Recompute, ...] = get_args(Recompute)
"""Choices of recomputation, from the fastest to the choice with least memory; `_useful` leaves some out."""

MOST_CONTEXT = 8
"""Most ranks that share a sequence, unless the job's own are more; within a node, as tensor groups."""


def divisions(settings: TransformerSettings, node_ranks: int) -> Iterator[TransformerSettings]:
    """The job with every division that model, batch and ranks allow, without recomputation.

    Args:
        settings: a job; its model, sequence, batch, arithmetic and optimizer stay.
    """
    ranks, sequences = settings.sizes.world_size, sequences_of(settings)
    for sizes in _groups(settings, node_ranks):
        data = ranks // sizes.replica
        if sequences % data:
            continue
        for micro_batch in divisors(sequences // data):
            microbatches = sequences // data // micro_batch
            for parts in _parts(settings, sizes, microbatches):
                for divided in _shards(replace(sizes, data=data, virtual_stages=parts), settings.sizes, node_ranks):
                    yield replace(
                        settings,
                        sizes=divided,
                        micro_batch=micro_batch,
                        microbatches=microbatches,
                        recompute=RECOMPUTE[0],
                    )


def sequences_of(settings: TransformerSettings) -> int:
    """Sequences of an iteration over all ranks."""
    return settings.micro_batch * settings.microbatches * settings.sizes.data


def more_recomputation(settings: TransformerSettings) -> list[Recompute]:
    """Choices of recomputation with less memory than a job's."""
    return _useful(RECOMPUTE[RECOMPUTE.index(settings.recompute) + 1 :], settings)


def less_recomputation(settings: TransformerSettings) -> list[Recompute]:
    """Choices of recomputation that take less time than a job's."""
    return _useful(RECOMPUTE[: RECOMPUTE.index(settings.recompute)], settings)


def _useful(choices: Sequence[Recompute], settings: TransformerSettings) -> list[Recompute]:
    """Choices that may help: ``selective`` if scores stay; ``operators`` repeats and keeps less than ``alternate``."""
    return [name for name in choices if name != "alternate" and (name != "selective" or not settings.flash)]


def shared_in_node(sizes: ParallelSizes, node_ranks: int) -> int:
    """Ranks of a node that sum the same gradient: the groups of hybrid sharding unless the scenario has others."""
    return max(min(node_ranks // sizes.tensor, sizes.reducing), 1)


def _groups(settings: TransformerSettings, node_ranks: int) -> Iterator[ParallelSizes]:
    """Sizes of tensor, context and pipeline groups."""
    model, own, ranks = settings.model, settings.sizes, settings.sizes.world_size
    for tensor in divisors(gcd(model.heads, model.kv_heads or model.heads, model.ffn, ranks)):
        if node_ranks % tensor and tensor != own.tensor:
            continue
        most = max(min(MOST_CONTEXT, node_ranks // tensor), own.context)
        for context in divisors(gcd(settings.sequence, ranks // tensor)):
            for pipeline in divisors(ranks // (tensor * context)):
                if context <= most and pipeline <= model.layers:
                    yield replace(own, tensor=tensor, context=context, pipeline=pipeline)


def _parts(settings: TransformerSettings, sizes: ParallelSizes, microbatches: int) -> Iterator[int]:
    """Numbers of virtual stages; none where there are fewer micro-batches than stages."""
    if microbatches < sizes.pipeline:
        return
    yield 1
    if sizes.pipeline > 1 and microbatches % sizes.pipeline == 0:
        for parts in sorted({*PARTS_OF_A_STAGE, settings.sizes.virtual_stages} - {1}):
            if parts * sizes.pipeline <= settings.model.layers:
                yield parts


def _shards(sizes: ParallelSizes, own: ParallelSizes, node_ranks: int) -> Iterator[ParallelSizes]:
    """Ways to divide weights, gradients and state over the ranks that sum a gradient.

    In a pipeline weights are gathered once and stay, so that FSDP saves no more than a divided optimizer; it is tried
    where the job has it.
    """
    shared = shared_in_node(sizes, node_ranks)
    kinds: list[Sharding] = ["none"]
    if sizes.reducing > 1:
        kinds += ["optimizer"]
        if sizes.pipeline == 1 or own.sharding == "fsdp":
            kinds += ["fsdp"]
        if 1 < shared < sizes.reducing and sizes.reducing % shared == 0:
            kinds += ["hybrid"] if sizes.pipeline == 1 or own.sharding == "hybrid" else []
    for kind in kinds:
        yield replace(sizes, sharding=kind, shard_size=shared)

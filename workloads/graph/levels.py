"""Strategies of a class of layers: one within a node and one between nodes, and the groups of ranks that they make.

A level of the machine (the ranks of a node; the nodes) has one of three strategies, which combine freely (MAD-Max, Hsia
et al., ISCA 2024, arXiv 2310.02784): ``ddp`` copies the layers and sums their gradients, ``fsdp`` divides weights,
gradients and optimizer state and gathers weights before each use, ``tensor`` divides the layers' widths, so that the
ranks of a group share their samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeAlias, get_args

from pydantic import Field

from inputs.model import Strict
from simulator.operators import Elementwise

LevelStrategy: TypeAlias = Literal["ddp", "fsdp", "tensor"]
LEVEL_STRATEGIES: tuple[LevelStrategy, ...] = get_args(LevelStrategy)
SHORT: dict[LevelStrategy, str] = {"ddp": "DDP", "fsdp": "FSDP", "tensor": "TP"}
"""Names in MAD-Max's notation."""

WORLD, NODE, CROSS_NODE = "world", "node", "cross_node"
"""Communicators: all ranks; the ranks of each node; the ranks with the same place in all nodes."""

TENSOR, GATHER, REDUCE, REPLICATE = "tensor_comm", "gather_comm", "reduce_comm", "replicate_comm"
"""Streams of a rank: exchanges of activations in a tensor group; gathered weights; sums of divided gradients; sums of
these over their replicas."""

PREFETCH = 1
"""Layers whose weights are gathered ahead of the one that computes (PyTorch's FSDP with prefetch)."""


class LevelStrategies(Strict):
    """Strategies of a class of layers."""

    node: LevelStrategy = Field("ddp", description="among the ranks of a node: ddp, fsdp or tensor")
    between: LevelStrategy = Field("ddp", description="between nodes: ddp, fsdp or tensor")

    @property
    def plain(self) -> bool:
        """Whether the layers are copied on every rank, and their gradients are summed."""
        return self.node == self.between == "ddp"

    def in_words(self) -> str:
        """MAD-Max's notation: ``(FSDP)`` everywhere, ``((TP), (DDP))`` within a node and between nodes."""
        if self.node == self.between:
            return f"({SHORT[self.node]})"
        return f"(({SHORT[self.node]}), ({SHORT[self.between]}))"

    def on(self, node_ranks: int, nodes: int) -> LevelStrategies:
        """The same, with equal strategies where a level has one rank and its strategy changes nothing."""
        if node_ranks == nodes == 1:
            return LevelStrategies()
        return LevelStrategies(
            node=self.node if node_ranks > 1 else self.between, between=self.between if nodes > 1 else self.node
        )

    def group(self, strategy: LevelStrategy, node_ranks: int, nodes: int) -> RankGroup:
        """Group of ranks in which a strategy applies; a rank alone where no level has it."""
        sizes = {NODE: node_ranks, CROSS_NODE: nodes}
        chosen = {NODE: self.node, CROSS_NODE: self.between}
        levels = [level for level in sizes if chosen[level] == strategy and sizes[level] > 1]
        size = 1
        for level in levels:
            size *= sizes[level]
        return RankGroup(levels[0] if levels and size < node_ranks * nodes else WORLD, size)


@dataclass(frozen=True, slots=True)
class RankGroup:
    """Ranks that share a tensor.

    Attributes:
        communicator: `WORLD`, `NODE` or `CROSS_NODE`.
        size: number of ranks of a group; 1: nothing is exchanged.
    """

    communicator: str
    size: int


def all_levels(node_ranks: int, nodes: int) -> list[LevelStrategies]:
    """Strategies that differ on a machine."""
    pairs = product(LEVEL_STRATEGIES, repeat=2)
    return list(dict.fromkeys(LevelStrategies(node=one, between=other).on(node_ranks, nodes) for one, other in pairs))


ALONE = RankGroup(WORLD, 1)
"""A rank that shares nothing."""


def gathered_bytes(parameters: Sequence[int], prefetch: int, element_bytes: float) -> float:
    """Memory for the weights that FSDP gathers: of the layer that computes, and of those gathered ahead of it.

    Args:
        parameters: parameters of each layer that is freed after use.
        prefetch: number of layers gathered ahead.
        element_bytes: size of a gathered weight.
    """
    return float(sum(sorted(parameters, reverse=True)[: 1 + prefetch]) * element_bytes)


def gathered_copies(
    parameters: float, element_bytes: float, reduced_bytes: float, *, gathered: bool, reduced: bool
) -> Elementwise | None:
    """Copies of FSDP out of the buffer of gathered weights, and of a gradient into the buffer of its sum.

    Args:
        parameters: parameters of the layer.
        element_bytes: size of a gathered weight, and of its gradient.
        reduced_bytes: size of an element of the gradient on the wire.
    """
    weights = parameters * element_bytes
    read, write = weights * (gathered + reduced), weights * gathered + parameters * reduced_bytes * reduced
    return Elementwise(float(read), float(write)) if read else None

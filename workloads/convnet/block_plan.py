"""Plans for blocks of a network: their tensors stay, go to host memory, or are computed again.

KARMA (Wahib et al., SC 2020, arXiv:2008.11421) chooses one for each block.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import Field

from inputs.errors import InputError
from inputs.model import Strict
from workloads.convnet.blocks import blocks_of
from workloads.convnet.layers import Network

Decision: TypeAlias = Literal["keep", "swap", "recompute", "recompute_swapped"]
"""Tensors of a block between its passes: all stay; all go to the host; its input stays and the others are computed
again; its input goes to the host and the others are computed again."""

DECISIONS: tuple[Decision, ...] = get_args(Decision)

Weights: TypeAlias = Literal["keep", "swap"]
"""Place of weights, gradients and optimizer state: device memory, or host memory with copies for each block."""


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """Blocks of a network, by their last layers, and a decision for each.

    Raises:
        InputError: there is not one decision for each block.
    """

    network: str
    last_layers: tuple[str, ...]
    decisions: tuple[Decision, ...]

    def __post_init__(self) -> None:
        """Check the number of decisions."""
        if len(self.last_layers) != len(self.decisions):
            raise InputError(
                "not one decision for each block",
                key="blocks",
                given=len(self.decisions),
                expected=f"{len(self.last_layers)}",
            )


def copied(decision: Decision) -> bool:
    """Whether tensors go to the host."""
    return decision in ("swap", "recompute_swapped")


def uniform_plan(network: Network, decision: Decision, *, parts: int | None = None) -> BlockPlan:
    """One decision for all blocks but the last, which stays: its backward pass follows its forward pass at once.

    Args:
        parts: number of blocks, each of about as many of the network's smallest blocks; None: the smallest blocks.
    """
    smallest = [block.last for block in blocks_of(network)]
    count = len(smallest) if parts is None else min(parts, len(smallest))
    ends = [ceil((part + 1) * len(smallest) / count) - 1 for part in range(count)]
    last_layers = tuple(smallest[end] for end in ends)
    return BlockPlan(network.name, last_layers, (*(decision,) * (count - 1), "keep"))


def square_root_plan(network: Network) -> BlockPlan:
    """Recomputation of as many blocks as the square root of their number (Chen et al., arXiv:1604.06174)."""
    return uniform_plan(network, "recompute", parts=ceil(sqrt(len(blocks_of(network)))))


class BlockEntry(Strict):
    """A block and its decision, as a plan file has them."""

    last: str = Field(description="the last layer of the block")
    decision: Decision = Field(description="its tensors between the passes")


class BlockPlanFile(Strict):
    """A plan file: all blocks of a network in forward order."""

    network: str = Field(description="the network that the plan is for")
    blocks: Annotated[tuple[BlockEntry, ...], Field(min_length=1)] = Field(description="its blocks in forward order")

    @classmethod
    def of(cls, plan: BlockPlan) -> BlockPlanFile:
        """The written form of a plan."""
        pairs = zip(plan.last_layers, plan.decisions, strict=True)
        return cls(network=plan.network, blocks=tuple(BlockEntry(last=last, decision=each) for last, each in pairs))

    def plan_for(self, network: Network) -> BlockPlan:
        """The plan.

        Raises:
            InputError: it is for another network, or the network cannot be cut where it has its cuts.
        """
        if self.network != network.name:
            message = "the plan is for another network"
            raise InputError(message, key="network", given=self.network, expected=network.name)
        last_layers = tuple(entry.last for entry in self.blocks)
        blocks_of(network, last_layers)
        return BlockPlan(network.name, last_layers, tuple(entry.decision for entry in self.blocks))

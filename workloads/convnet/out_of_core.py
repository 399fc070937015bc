"""A plan for the blocks of a network on a rank, within its device memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from simulator.precisions import BYTES_PER_ELEMENT
from workloads.convnet.block_plan import BlockPlan, Decision, Weights
from workloads.convnet.blocks import LayerBlock, blocks_of
from workloads.convnet.layers import Network
from workloads.convnet.settings import ConvnetSettings
from workloads.convnet.swap_schedule import BlockBytes, SwapSchedule
from workloads.graph.buckets import GRADIENT_BYTES


@dataclass(frozen=True)
class OutOfCore:
    """A plan for the blocks of a network on a rank.

    Attributes:
        blocks: the blocks of the plan.
        sizes: bytes of each block.
        room_bytes: device memory for tensors of blocks, and for their weights if these are swapped.
        weights: place of weights, gradients and optimizer state.
    """

    network: Network
    settings: ConvnetSettings
    plan: BlockPlan
    blocks: tuple[LayerBlock, ...]
    sizes: tuple[BlockBytes, ...]
    room_bytes: float
    weights: Weights = "keep"

    @classmethod
    def of(
        cls, network: Network, settings: ConvnetSettings, plan: BlockPlan, room_bytes: float, weights: Weights = "keep"
    ) -> OutOfCore:
        """A plan on the blocks that it names.

        Raises:
            InputError: the network cannot be cut there.
        """
        blocks = blocks_of(network, plan.last_layers)
        sizes = tuple(sizes_of(block, settings, weights) for block in blocks)
        return cls(network, settings, plan, blocks, sizes, room_bytes, weights)

    @cached_property
    def schedule(self) -> SwapSchedule:
        """Steps of an iteration, and their waits for memory."""
        return SwapSchedule(self.blocks, self.sizes, self.plan.decisions, self.room_bytes)

    def decided(self, decisions: Sequence[Decision]) -> OutOfCore:
        """The same blocks with other decisions."""
        return replace(self, plan=replace(self.plan, decisions=tuple(decisions)))


def sizes_of(block: LayerBlock, settings: ConvnetSettings, weights: Weights) -> BlockBytes:
    """Sizes of a block on a rank."""
    image = settings.images_per_rank * BYTES_PER_ELEMENT[settings.precision]
    return BlockBytes(
        input=float(block.input_elements * image),
        inner=float(block.inner_elements * image),
        output=float(block.output_elements * image),
        weights=float(block.parameters * GRADIENT_BYTES) if weights == "swap" else 0.0,
    )

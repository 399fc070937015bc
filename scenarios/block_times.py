"""Time of kernels by block of a network, a section of the summary of families whose blocks are known."""

from __future__ import annotations

from dataclasses import dataclass

BLOCKS_KEY = "blocks"
"""Key of the summary: a list of `BlockTimes`."""


@dataclass(frozen=True, slots=True)
class BlockTimes:
    """Kernels of a block of the network in an iteration, alone on their GPU, mean over ranks.

    Attributes:
        block: its name.
        parameters: parameters on all ranks that hold one copy of the weights.
        forward_s: seconds of forward passes.
        again_s: seconds of forward work that the backward pass repeats.
        backward_s: seconds of gradients; of the optimizer: of the update.
    """

    block: str
    parameters: int
    forward_s: float
    again_s: float
    backward_s: float

    @property
    def all_s(self) -> float:
        """Seconds of an iteration."""
        return self.forward_s + self.again_s + self.backward_s

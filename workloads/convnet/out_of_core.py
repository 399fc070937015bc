"""Training beyond device memory: blocks whose tensors stay, go to host memory, or are computed again.

KARMA (Wahib et al., SC 2020, arXiv:2008.11421) chooses one for each block. A copy to the host starts when the forward
pass of its block has ended, on a stream of its own; copies back run ahead of the backward pass on another. Weights may
live in host memory, too: a block's are copied to the device before each of its passes, its gradients to the host, and
the host's CPU updates them.

`Schedule` orders the steps of an iteration and finds for each step that takes memory the steps whose end frees enough
of it. In any run that respects these waits, the memory taken never exceeds the room: let m be the last step, in the
schedule's order, that has begun. All memory taken is that of steps up to m, and those that m waits for have freed theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, sqrt
from typing import Literal, TypeAlias, get_args

from inputs.errors import InputError
from simulator.precisions import BYTES_PER_ELEMENT
from workloads.convnet.blocks import Block, blocks_of
from workloads.convnet.layers import Network
from workloads.convnet.settings import ConvnetSettings
from workloads.graph.buckets import GRADIENT_BYTES

Decision: TypeAlias = Literal["keep", "swap", "recompute", "recompute_swapped"]
"""Tensors of a block between its passes: all stay; all go to the host; its input stays and the others are computed
again; its input goes to the host and the others are computed again."""

DECISIONS: tuple[Decision, ...] = get_args(Decision)

Weights: TypeAlias = Literal["keep", "swap"]
"""Place of weights, gradients and optimizer state: device memory, or host memory with copies for each block."""

StepKind: TypeAlias = Literal[
    "weights_in", "forward", "swap_out", "weights_in_again", "swap_in", "recompute", "backward", "gradients_out"
]
Step: TypeAlias = tuple[StepKind, int]
"""A step of an iteration: its kind, and the number of its block."""


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

    @property
    def copies(self) -> bool:
        """Whether anything goes to the host."""
        return any(copied(decision) for decision in self.decisions)


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


@dataclass(frozen=True, slots=True)
class BlockBytes:
    """Sizes of a block's tensors for the images of a rank, and of its weights if they are swapped, bytes."""

    input: float
    inner: float
    output: float
    weights: float = 0.0

    def out(self, decision: Decision) -> float:
        """Bytes that go to the host after the forward pass, and come back before the backward pass."""
        return {"swap": self.input + self.inner, "recompute_swapped": self.input}.get(decision, 0.0)

    def again(self, decision: Decision) -> float:
        """Bytes that are dropped after the forward pass, and computed again before the backward pass."""
        return self.inner if decision in ("recompute", "recompute_swapped") else 0.0


@dataclass(slots=True)
class Schedule:
    """Steps of an iteration in their order, the memory that they take and free, and what they wait for.

    Attributes:
        room_bytes: device memory for tensors of blocks.
        steps: all steps; those of a stream run in this order.
        waits: steps that a step waits for because they free memory; of each stream the last.
        peak_bytes: memory at most taken at a time, if every step waits for no more than it has to.
        lacking_bytes: memory that some step lacks however long it waits; 0: the schedule can run.
    """

    blocks: Sequence[Block]
    bytes: Sequence[BlockBytes]
    decisions: Sequence[Decision]
    room_bytes: float
    steps: list[Step] = field(default_factory=list)
    waits: dict[Step, list[Step]] = field(default_factory=dict)
    peak_bytes: float = 0.0
    lacking_bytes: float = 0.0

    def __post_init__(self) -> None:
        self.steps.extend(self._order())
        self._find_waits()

    @property
    def out_bytes(self) -> float:
        """Bytes of tensors that go to the host in an iteration: all of them are there when the backward pass begins."""
        return sum(sizes.out(decision) for sizes, decision in zip(self.bytes, self.decisions, strict=True))

    def copied_bytes(self, step: Step) -> float:
        """Bytes that a step copies."""
        kind, block = step
        if kind in ("swap_out", "swap_in"):
            return self.bytes[block].out(self.decisions[block])
        return self.bytes[block].weights

    def _order(self) -> Iterator[Step]:
        """Steps: copies stand where they would be if nothing ran ahead."""
        count = len(self.blocks)
        for block in range(count):
            if self.bytes[block].weights:
                yield "weights_in", block
            yield "forward", block
            if self.copied_bytes(("swap_out", block)):
                yield "swap_out", block
        for block in reversed(range(count)):
            if self.bytes[block].weights and block < count - 1:
                yield "weights_in_again", block
            if self.copied_bytes(("swap_in", block)):
                yield "swap_in", block
            if self.bytes[block].again(self.decisions[block]):
                yield "recompute", block
            yield "backward", block
            if self.bytes[block].weights:
                yield "gradients_out", block

    def takes_bytes(self, step: Step) -> float:
        """Device memory that a step takes when it begins."""
        kind, block = step
        sizes, decision = self.bytes[block], self.decisions[block]
        return {
            "forward": sizes.inner + sizes.output,
            "recompute": sizes.again(decision),
            "swap_in": sizes.out(decision),
            "weights_in": sizes.weights,
            "weights_in_again": sizes.weights,
            "backward": sizes.weights,  # gradients, which are as many numbers
        }.get(kind, 0.0)

    def frees_bytes(self, step: Step) -> float:
        """Device memory that is free when a step has ended."""
        kind, block = step
        sizes, last = self.bytes[block], block == len(self.blocks) - 1
        if kind == "forward":
            return sizes.again(self.decisions[block]) + (0.0 if last else sizes.weights)
        if kind == "backward":
            shared = 0 < block and self.blocks[block - 1].reads_output
            after = self.bytes[block + 1].input if not last and self.blocks[block].reads_output else 0.0
            return sizes.inner + sizes.weights + after + (0.0 if shared else sizes.input)
        return {"swap_out": sizes.out(self.decisions[block]), "gradients_out": sizes.weights}.get(kind, 0.0)

    def needs(self, step: Step) -> list[Step]:
        """Steps whose results a step works on, beside those before it on its stream."""
        kind, block = step
        after: Mapping[StepKind, tuple[StepKind, ...]] = {
            "forward": ("weights_in",),
            "swap_out": ("forward",),
            "swap_in": ("swap_out",),
            "recompute": ("weights_in_again", "swap_in"),
            "backward": ("weights_in_again", "swap_in"),
            "gradients_out": ("backward",),
        }
        return [(before, block) for before in after.get(kind, ()) if (before, block) in self.steps]

    def _find_waits(self) -> None:
        """Each step that takes memory waits for the first frees, in their order, that make room for it.

        Kernels follow each other on one stream: what the ones before have freed is free.
        """
        frees: list[Step] = []
        copies: list[Step] = []
        ahead, behind, taken, by_kernels = _Waiting(frees), _Waiting(copies), 0.0, 0.0
        for step in self.steps:
            if more := self.takes_bytes(step):
                taken += more
                on_kernels = STREAM_OF[step[0]] == KERNELS
                waiting = behind if on_kernels else ahead
                waiting.until(taken - self.room_bytes - by_kernels * on_kernels, self.frees_bytes)
                held = taken - waiting.freed_bytes - by_kernels * on_kernels
                self.lacking_bytes = max(self.lacking_bytes, held - self.room_bytes)
                self.peak_bytes = max(self.peak_bytes, held)
                self.waits[step] = waiting.last_of_each_stream()
            if freed := self.frees_bytes(step):
                frees.append(step)
                if STREAM_OF[step[0]] == KERNELS:
                    by_kernels += freed
                else:
                    copies.append(step)


KERNELS, OUT, BACK = "default", "swap_out", "swap_in"
"""Streams: kernels, copies to the host, copies back."""

STREAM_OF: Mapping[StepKind, str] = {
    "forward": KERNELS, "recompute": KERNELS, "backward": KERNELS, "swap_out": OUT, "gradients_out": OUT,
    "swap_in": BACK, "weights_in": BACK, "weights_in_again": BACK,
}  # fmt: skip


@dataclass(slots=True)
class _Waiting:
    """The first steps of a growing list that are waited for, and the memory that they free."""

    frees: list[Step]
    count: int = 0
    freed_bytes: float = 0.0

    def until(self, wanted_bytes: float, frees_bytes: Callable[[Step], float]) -> None:
        """Wait for more steps until they free enough, or there are no more."""
        while self.freed_bytes < wanted_bytes and self.count < len(self.frees):
            self.freed_bytes += frees_bytes(self.frees[self.count])
            self.count += 1

    def last_of_each_stream(self) -> list[Step]:
        """The last step of each stream among those that are waited for."""
        return list({STREAM_OF[step[0]]: step for step in self.frees[: self.count]}.values())


@dataclass(frozen=True)
class OutOfCore:
    """A plan for the blocks of a network on a rank.

    Attributes:
        blocks: the blocks of the plan.
        room_bytes: device memory for tensors of blocks, and for their weights if these are swapped.
        weights: place of weights, gradients and optimizer state.
    """

    network: Network
    settings: ConvnetSettings
    plan: BlockPlan
    blocks: tuple[Block, ...]
    room_bytes: float
    weights: Weights = "keep"

    @cached_property
    def schedule(self) -> Schedule:
        """Steps of an iteration, and their waits for memory."""
        return Schedule(
            self.blocks, [self._sizes(block) for block in self.blocks], self.plan.decisions, self.room_bytes
        )

    def decided(self, decisions: Sequence[Decision]) -> OutOfCore:
        """The same blocks with other decisions."""
        return replace(self, plan=replace(self.plan, decisions=tuple(decisions)))

    def _sizes(self, block: Block) -> BlockBytes:
        image = self.settings.images_per_rank * BYTES_PER_ELEMENT[self.settings.precision]
        weights = block.parameters * GRADIENT_BYTES if self.weights == "swap" else 0
        elements = (block.input_elements, block.inner_elements, block.output_elements)
        return BlockBytes(*(float(count * image) for count in elements), float(weights))

"""Steps of an iteration whose blocks stay, go to the host or are computed again, and their waits for memory.

A copy to the host starts when the forward pass of its block has ended, on a stream of its own; copies back run ahead of
the backward pass on another. Weights may live in host memory, too: a block's are copied to the device before each of
its passes, and its gradients to the host.

`SwapSchedule` finds for each step that takes memory the steps whose end frees enough of it. In any run that respects
these waits, the memory taken never exceeds the room: let m be the last step, in the schedule's order, that has begun.
All memory taken is that of steps up to m, and the steps that m waits for have freed theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from workloads.convnet.block_plan import Decision
from workloads.convnet.blocks import LayerBlock

StepKind: TypeAlias = Literal[
    "weights_in", "forward", "swap_out", "weights_in_again", "swap_in", "recompute", "backward", "gradients_out"
]
Step: TypeAlias = tuple[StepKind, int]
"""A step of an iteration: its kind, and the number of its block."""

KERNELS, OUT, BACK = "default", "swap_out", "swap_in"
"""Streams: kernels, copies to the host, copies back."""

STREAM_OF: Mapping[StepKind, str] = {
    "forward": KERNELS, "recompute": KERNELS, "backward": KERNELS, "swap_out": OUT, "gradients_out": OUT,
    "swap_in": BACK, "weights_in": BACK, "weights_in_again": BACK,
}  # fmt: skip


NEEDS: Mapping[StepKind, tuple[StepKind, ...]] = {
    "forward": ("weights_in",), "swap_out": ("forward",), "swap_in": ("swap_out",), "gradients_out": ("backward",),
    "recompute": ("weights_in_again", "swap_in"), "backward": ("weights_in_again", "swap_in"),
}  # fmt: skip
"""Kinds of steps of the same block whose results a step works on."""


@dataclass(frozen=True, slots=True)
class BlockBytes:
    """Sizes of a block's tensors for the images of a rank, and of its weights if they are swapped, bytes."""

    input: float
    inner: float
    output: float
    weights: float = 0.0

    def out(self, decision: Decision) -> float:
        """Bytes that go to the host after the forward pass, and come back before the backward pass."""
        if decision == "swap":
            return self.input + self.inner
        return self.input if decision == "recompute_swapped" else 0.0

    def again(self, decision: Decision) -> float:
        """Bytes that are dropped after the forward pass, and computed again before the backward pass."""
        return self.inner if decision in ("recompute", "recompute_swapped") else 0.0


@dataclass(slots=True)
class SwapSchedule:
    """Steps of an iteration in their order, the memory that they take and free, and what they wait for.

    Attributes:
        room_bytes: device memory for tensors of blocks.
        steps: all steps; those of a stream run in this order.
        waits: steps that a step waits for because they free memory; of each stream the last.
        peak_bytes: memory at most taken at a time, if every step waits for no more than it has to.
        lacking_bytes: memory that some step lacks however long it waits; 0: the schedule can run.
    """

    blocks: Sequence[LayerBlock]
    bytes: Sequence[BlockBytes]
    decisions: Sequence[Decision]
    room_bytes: float
    steps: list[Step] = field(default_factory=list)
    waits: dict[Step, list[Step]] = field(default_factory=dict)
    peak_bytes: float = 0.0
    lacking_bytes: float = 0.0
    _known: set[Step] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.steps.extend(self._order())
        self._known.update(self.steps)
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
        if kind == "forward":
            return sizes.inner + sizes.output
        if kind == "recompute":
            return sizes.again(decision)
        if kind == "swap_in":
            return sizes.out(decision)
        if kind in ("weights_in", "weights_in_again", "backward"):  # gradients are as many numbers as weights
            return sizes.weights
        return 0.0

    def frees_bytes(self, step: Step) -> float:
        """Device memory that is free when a step has ended."""
        kind, block = step
        sizes, last = self.bytes[block], block == len(self.blocks) - 1
        if kind == "forward":
            return sizes.again(self.decisions[block]) + (0.0 if last else sizes.weights)
        if kind == "backward":
            shared = block > 0 and self.blocks[block - 1].reads_output
            after = self.bytes[block + 1].input if not last and self.blocks[block].reads_output else 0.0
            return sizes.inner + sizes.weights + after + (0.0 if shared else sizes.input)
        if kind == "swap_out":
            return sizes.out(self.decisions[block])
        return sizes.weights if kind == "gradients_out" else 0.0

    def needs(self, step: Step) -> list[Step]:
        """Steps whose results a step works on, beside those before it on its stream."""
        kind, block = step
        return [(before, block) for before in NEEDS.get(kind, ()) if (before, block) in self._known]

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
                self.waits[step] = list(waiting.latest.values())
            if freed := self.frees_bytes(step):
                frees.append(step)
                if STREAM_OF[step[0]] == KERNELS:
                    by_kernels += freed
                else:
                    copies.append(step)


@dataclass(slots=True)
class _Waiting:
    """The first steps of a growing list that are waited for, the memory that they free, and the last of each stream."""

    frees: list[Step]
    count: int = 0
    freed_bytes: float = 0.0
    latest: dict[str, Step] = field(default_factory=dict)

    def until(self, wanted_bytes: float, frees_bytes: Callable[[Step], float]) -> None:
        """Wait for more steps until they free enough, or there are no more."""
        while self.freed_bytes < wanted_bytes and self.count < len(self.frees):
            step = self.frees[self.count]
            self.freed_bytes += frees_bytes(step)
            self.latest[STREAM_OF[step[0]]] = step
            self.count += 1

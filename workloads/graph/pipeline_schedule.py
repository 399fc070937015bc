"""Order of micro-batches in the stages of a pipeline: GPipe, 1F1B, and interleaved 1F1B.

GPipe (arXiv:1811.06965): all forward passes, then all backward passes. Megatron-LM's schedules (arXiv:2104.04473): a
stage runs some forward passes, then one forward and one backward pass in turn, then the backward passes that are left.
With v parts in each of p stages and m micro-batches the share of an iteration in which a stage waits is
(p - 1) / (v m + p - 1), if parts are equal and messages take no time; GPipe has one part.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

PipelineOrder: TypeAlias = Literal["gpipe", "1f1b"]
"""All forward passes before the first backward pass, or one of each in turn as soon as a stage can."""


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """A pass of a micro-batch through one part of a stage.

    Attributes:
        part: number of the part among those of the stage; the network passes part 0 of all stages first.
    """

    backward: bool
    microbatch: int
    part: int


def steps_of(
    stage: int, stages: int, microbatches: int, parts: int = 1, order: PipelineOrder = "1f1b"
) -> tuple[PipelineStep, ...]:
    """Steps of a stage in order.

    Args:
        microbatches: a multiple of the stages if there are several parts.
    """
    total = microbatches * parts
    if order == "gpipe":
        warmup = total
    elif stages == 1:
        warmup = 0
    elif parts == 1:
        warmup = min(stages - stage - 1, total)
    else:
        warmup = min(2 * (stages - stage - 1) + (parts - 1) * stages, total)
    forward = [_step(number, stages, parts, backward=False) for number in range(total)]
    backward = [_step(number, stages, parts, backward=True) for number in range(total)]
    found = forward[:warmup]
    for number in range(total - warmup):
        found += [forward[warmup + number], backward[number]]
    return (*found, *backward[total - warmup :])


def _step(number: int, stages: int, parts: int, *, backward: bool) -> PipelineStep:
    """The n-th step of a kind: groups of as many micro-batches as stages pass one part after the other."""
    if parts == 1:
        return PipelineStep(backward, number, 0)
    group, place = divmod(number, stages * parts)
    part, within = divmod(place, stages)
    return PipelineStep(backward, group * stages + within, parts - 1 - part if backward else part)


@cache
def in_flight(stage: int, stages: int, microbatches: int, parts: int = 1, order: PipelineOrder = "1f1b") -> int:
    """Most forward passes, each through one part, whose backward pass has not ended."""
    held = most = 0
    for step in steps_of(stage, stages, microbatches, parts, order):
        held += -1 if step.backward else 1
        most = max(most, held)
    return most

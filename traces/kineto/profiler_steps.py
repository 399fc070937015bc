"""The profiler's steps, one per iteration of a rank: ``ProfilerStep#k`` annotations, or the whole trace."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from inputs.errors import InputError
from traces.kineto.events import EventKind, RankTrace

WHOLE = "whole trace"
"""Name of the step that is a whole trace."""
_STEP = re.compile(r"ProfilerStep#?\s*(\d+)")


@dataclass(frozen=True, slots=True)
class ProfilerStep:
    """One ``ProfilerStep#k`` of a rank, or its whole trace."""

    number: int
    name: str
    start_ps: int
    end_ps: int


def steps_of(trace: RankTrace, *, whole: bool = False) -> tuple[ProfilerStep, ...]:
    """The profiler's steps in order.

    Args:
        whole: whether the trace is one step, from its first event to its last.

    Raises:
        InputError: there is none, or they go back in time.
    """
    events = trace.events
    if whole:
        return (ProfilerStep(0, WHOLE, int(events.start_ps.min()), int(events.end_ps.max())),)
    found: dict[int, ProfilerStep] = {}
    for name_number, name in enumerate(events.names):
        if match := _STEP.fullmatch(name):
            number = int(match[1])
            for row in np.flatnonzero((events.name == name_number) & (events.kind == EventKind.ANNOTATION)):
                found[number] = ProfilerStep(number, name, int(events.start_ps[row]), int(events.end_ps[row]))
    steps = tuple(found[number] for number in sorted(found))
    if not steps:
        raise InputError(
            "has no ProfilerStep#k annotation, so nothing says where an iteration begins",
            file=trace.file,
            expected="a trace of torch.profiler with a schedule and prof.step(), or --whole: the trace as one step",
        )
    for one, two in pairwise(steps):
        if two.start_ps + 2 * trace.resolution_ps < one.end_ps:
            message = f"{two.name} starts before {one.name} has ended: the clock went back"
            raise InputError(message, file=trace.file, expected="steps one after the other")
    return steps

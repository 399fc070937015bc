"""Result of lowering: the program for the engine, and the models' notes on it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from simulator.collective_calls import CollectiveOp
from simulator.lowered import LoweredProgram

SHARE_IN_WORDS = re.compile(r" \(\d+ tasks?, ([\d.]+) % of the task time\)$")
"""End of a warning's line (`ModelWarning.__str__`); the group is its share, per cent."""


@dataclass(frozen=True, slots=True)
class CollectiveInfo:
    """Plan of one collective task.

    Attributes:
        task: task name (of the first program that makes the call).
        bytes: nccl-tests' size, the mean over members when uneven.
        members: members of the largest instance.
        nodes: nodes that they are on.
        instances: number of instances that run it.
        alone_s: duration of the slowest instance on an idle machine, seconds.
        phases: latency and work of each phase of that instance, seconds.
        straight: messages straight between a root and the others, outside the library.
    """

    task: str
    op: CollectiveOp
    communicator: str
    algorithm: str
    protocol: str
    bytes: float
    members: int
    nodes: int
    instances: int
    alone_s: float
    phases: tuple[tuple[float, float], ...]
    straight: bool = False

    @property
    def moving_s(self) -> float:
        """Time that its data take on an idle machine, seconds."""
        return sum(work_s for _, work_s in self.phases)


@dataclass(frozen=True, slots=True)
class ModelWarning:
    """A model was used outside the range it was derived from.

    Attributes:
        message: the exceeded range, in words.
        share: fraction of the summed durations of all tasks (mean over ranks; collectives on an idle machine), in 0..1.
        tasks: number of concerned tasks of an iteration.
    """

    model: str
    message: str
    share: float
    tasks: int

    def __str__(self) -> str:
        """One line for people."""
        tasks = "1 task" if self.tasks == 1 else f"{self.tasks} tasks"
        return f"{self.model}: {self.message} ({tasks}, {100 * self.share:.1f} % of the task time)"


@dataclass(frozen=True, slots=True)
class Lowering:
    """A lowered program with facts about it."""

    program: LoweredProgram
    collectives: tuple[CollectiveInfo, ...]
    warnings: tuple[ModelWarning, ...]

"""Controllers: what decides at run time.

A controller is a SimPy process that reads what has become ready and what has ended, and starts tasks of its streams
at the present time: Horovod's coordinator, the queue of a parameter server. A stream that names a controller is never
evaluated ahead of the clock.

Within an instant controllers run after everything that was due, so they see all that is ready at that time, and before
resources are divided. A controller that never ends is a daemon: it keeps neither the run alive nor a deadlock hidden.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Protocol

import numpy as np
import simpy

from simulator.engine.clock import CONTROL, Agenda, Alarm
from simulator.program import IntArray

Lane = tuple[int, int, int]
"""(group, stream, rank number within the group): one controlled stream of one rank."""


@dataclass(frozen=True, slots=True)
class ReadyTask:
    """A task whose inputs became known at the same time for some ranks.

    Attributes:
        since_ps: time at which they did.
        members: numbers of the ranks within the group, ascending.
    """

    since_ps: int
    iteration: int
    task: int
    group: int
    stream: int
    members: IntArray


@dataclass(frozen=True, slots=True)
class EndedTask:
    """A task of a controlled stream that has ended for some ranks of a group."""

    group: int
    stream: int
    members: IntArray


class Controller(Protocol):
    """Decides when the tasks of its streams start."""

    def control(self, view: View) -> Generator[simpy.Event, object, None]:
        """The process. ``yield view.changed()`` waits until something is ready or has ended."""
        ...


@dataclass(frozen=True, slots=True)
class RunAs:
    """Activity that a task runs as, instead of the one that the program has for it.

    Attributes:
        activity: number of the activity whose phases it takes; None: it ends as soon as all members have arrived.
        part: numerator and denominator of the part of that activity's work on resources that it does.
        lead_ps: time before the first phase, in which nothing is used.
    """

    activity: int | None
    part: tuple[int, int] = (1, 1)
    lead_ps: int = 0


class Actor(Protocol):
    """Executes a controller's decisions."""

    def issue(
        self, group: int, task: int, iteration: int, members: IntArray, run_as: RunAs | None = None
    ) -> Iterable[tuple[int, IntArray]]:
        """Start a task for some ranks now; ends in ps that are known already, with the ranks that end then.

        All members of an activity are given the same ``run_as``.
        """
        ...


class View:
    """State that one controller sees, and its actions.

    Attributes:
        under_way: tasks that have been issued and have not ended, one for each rank.
    """

    def __init__(
        self,
        env: simpy.Environment,
        actor: Actor,
        agenda: Agenda[EndedTask],
    ) -> None:
        self._env, self._actor, self._agenda = env, actor, agenda
        self._changed = env.event()
        self._ready: list[ReadyTask] = []
        self._ended: list[EndedTask] = []
        self.under_way = 0

    def changed(self) -> simpy.Event:
        """Happens when something has become ready or ended since the controller last ran."""
        return self._changed

    @property
    def now(self) -> int:
        """The present time, ps."""
        return int(self._env.now)

    def take_ready(self) -> list[ReadyTask]:
        """Tasks that have become ready since this was last asked."""
        taken, self._ready = self._ready, []
        return taken

    def take_ended(self) -> list[EndedTask]:
        """Tasks that have ended since this was last asked."""
        taken, self._ended = self._ended, []
        return taken

    def sleep(self, delay_ps: int) -> simpy.Event:
        """Happens ``delay_ps`` from now, when everything else that is due then has happened."""
        over = self._env.event()
        Alarm(self._env, delay_ps, lambda: _happen(over), CONTROL)
        return over

    def issue(self, task: ReadyTask, run_as: RunAs | None = None) -> None:
        """Start a ready task now, as it is or as another activity; it is under way until it ends."""
        self.under_way += len(task.members)
        for end, members in self._actor.issue(task.group, task.task, task.iteration, task.members, run_as):
            self._agenda.add(end, EndedTask(task.group, task.stream, members))

    # Reports of the engine

    def add_ready(self, task: ReadyTask) -> None:
        """A task could start."""
        self._ready.append(task)

    def add_ended(self, task: EndedTask) -> None:
        """A task has ended."""
        self._ended.append(task)
        self.under_way -= len(task.members)

    def wake(self) -> None:
        """Let the controller run."""
        happened, self._changed = self._changed, self._env.event()
        happened.succeed()


def _happen(event: simpy.Event) -> None:
    event.succeed()


class IssueByReadiness:
    """Each stream takes the task that became ready first, whatever the program order; ties by iteration and task."""

    def __init__(self, workers: int = 1) -> None:
        """So many tasks of a stream may be under way."""
        self._workers = workers

    def control(self, view: View) -> Generator[simpy.Event, object, None]:
        """Issue whenever a lane is free and something is ready."""
        waiting: dict[Lane, list[tuple[int, int, int]]] = defaultdict(list)
        under_way: Counter[Lane] = Counter()
        while True:
            yield view.changed()
            touched: set[Lane] = set()
            for ready in view.take_ready():
                for lane in _lanes(ready):
                    heappush(waiting[lane], (ready.since_ps, ready.iteration, ready.task))
                    touched.add(lane)
            for ended in view.take_ended():
                lanes = _lanes(ended)
                under_way.subtract(lanes)
                touched.update(lanes)
            for lane in sorted(touched):
                group, stream, member = lane
                while under_way[lane] < self._workers and waiting[lane]:
                    since_ps, iteration, task = heappop(waiting[lane])
                    under_way[lane] += 1
                    view.issue(ReadyTask(since_ps, iteration, task, group, stream, np.array([member])))


def _lanes(tasks: ReadyTask | EndedTask) -> list[Lane]:
    return [(tasks.group, tasks.stream, member) for member in tasks.members.tolist()]

"""Controllers: what decides at run time.

A controller is a SimPy process that reads what has become ready and what has ended, and starts tasks of its streams
at the present time: Horovod's coordinator, the queue of a parameter server. A stream that names a controller is never
evaluated ahead of the clock.

Within an instant controllers run after everything that was due, so they see all that is ready at that time, and before
resources are divided. A controller that never ends is a daemon: it keeps neither the run alive nor a deadlock hidden.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

import simpy

from simulator.engine.clock import CONTROL, Agenda, Alarm

Lane = tuple[int, int, int]
"""(group, stream, rank number within the group): one controlled stream of one rank."""


@dataclass(frozen=True, slots=True, order=True)
class ReadyTask:
    """A task whose inputs are all there; sorts by time, then iteration, then task number."""

    since_ps: int
    iteration: int
    task: int
    lane: Lane


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

    def issue(self, group: int, task: int, iteration: int, member: int, run_as: RunAs | None = None) -> int | None:
        """Start a task now; its end in ps when that is known already.

        All members of an activity are given the same ``run_as``.
        """
        ...


class View:
    """State that one controller sees, and its actions.

    Attributes:
        ready: tasks that could start, by lane, in the order of `ReadyTask`.
        under_way: number of running tasks of each lane.
    """

    def __init__(
        self,
        env: simpy.Environment,
        actor: Actor,
        agenda: Agenda[Lane],
    ) -> None:
        self._env, self._actor, self._agenda = env, actor, agenda
        self._changed = env.event()
        self.ready: dict[Lane, list[ReadyTask]] = {}
        self.under_way: Counter[Lane] = Counter()

    def changed(self) -> simpy.Event:
        """Happens when something has become ready or ended since the controller last ran."""
        return self._changed

    @property
    def now(self) -> int:
        """The present time, ps."""
        return int(self._env.now)

    def sleep(self, delay_ps: int) -> simpy.Event:
        """Happens ``delay_ps`` from now, when everything else that is due then has happened."""
        over = self._env.event()
        Alarm(self._env, delay_ps, lambda: _happen(over), CONTROL)
        return over

    def issue(self, task: ReadyTask, run_as: RunAs | None = None) -> None:
        """Start a ready task now, as it is or as another activity; it is under way until it ends."""
        group, _, member = task.lane
        self.ready[task.lane].remove(task)
        self.under_way[task.lane] += 1
        end = self._actor.issue(group, task.task, task.iteration, member, run_as)
        if end is not None:
            self._agenda.add(end, task.lane)

    def wake(self) -> None:
        """Let the controller run (called by the engine)."""
        happened, self._changed = self._changed, self._env.event()
        happened.succeed()


def _happen(event: simpy.Event) -> None:
    event.succeed()


class IssueByReadiness:
    """Each stream takes the task that became ready first, whatever the program order; ties by task number."""

    def __init__(self, workers: int = 1) -> None:
        """So many tasks of a stream may be under way."""
        self._workers = workers

    def control(self, view: View) -> Generator[simpy.Event, object, None]:
        """Issue whenever a lane is free and something is ready."""
        while True:
            yield view.changed()
            for lane in sorted(view.ready):
                while view.under_way[lane] < self._workers and view.ready[lane]:
                    view.issue(view.ready[lane][0])

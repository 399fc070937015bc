"""Controllers: what decides at run time.

A controller is a SimPy process that reads what has become ready and what has ended, and starts tasks of its streams
at the present time: Horovod's coordinator, the queue of a parameter server. A stream that names a controller is never
evaluated ahead of the clock.

Within an instant controllers run after everything that was due, so they see all that is ready at that time, and before
resources are divided. A controller that never ends is a daemon: it keeps neither the run alive nor a deadlock hidden.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import simpy

from inputs.errors import InputError, nearest_name
from simulator.engine.clock import CONTROL, Agenda, Alarm
from simulator.engine.members import Members
from simulator.lowered import LoweredProgram
from simulator.program import IntArray

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


class Actor(Protocol):
    """Executes a controller's decisions."""

    def issue(self, group: int, task: int, iteration: int, member: int) -> int | None:
        """Start a task now; its end in ps when that is known already."""
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

    def sleep(self, delay_ps: int) -> simpy.Event:
        """Happens ``delay_ps`` from now."""
        return self._env.timeout(delay_ps)

    def issue(self, task: ReadyTask) -> None:
        """Start a ready task now; it is under way until it ends."""
        group, _, member = task.lane
        self.ready[task.lane].remove(task)
        self.under_way[task.lane] += 1
        end = self._actor.issue(group, task.task, task.iteration, member)
        if end is not None:
            self._agenda.add(end, task.lane)

    def wake(self) -> None:
        """Let the controller run (called by the engine)."""
        happened, self._changed = self._changed, self._env.event()
        happened.succeed()


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
                    view.issue(min(view.ready[lane]))


class ControlRoom:
    """Connects controllers with the engine or the oracle."""

    def __init__(
        self,
        env: simpy.Environment,
        program: LoweredProgram,
        controllers: Mapping[str, Controller],
        actor: Actor,
    ) -> None:
        """Give each controller a view.

        Raises:
            InputError: a stream names a controller that is not there.
        """
        workers = {stream.workers for group in program.groups for stream in group.streams if stream.workers > 1}
        controllers = {**controllers, **{_of_workers(number): IssueByReadiness(number) for number in workers}}
        self._env, self._program, self._controllers = env, program, controllers
        self._ended: Agenda[Lane] = Agenda(env, self._lanes_free)
        self._due: Agenda[ReadyTask] = Agenda(env, self._tasks_ready)
        self._views = {name: View(env, actor, self._ended) for name in sorted(controllers)}
        self._restless: set[str] = set()
        self._pending = 0
        for group in program.groups:
            for stream in group.streams:
                if stream.controller is not None and stream.controller not in controllers:
                    raise InputError(
                        f"stream {stream.name!r} of {group.name!r} names an unknown controller",
                        given=stream.controller,
                        expected=", ".join(sorted(controllers)) or "none are registered",
                        nearest=nearest_name(stream.controller, controllers),
                    )

    @property
    def pending(self) -> int:
        """Tasks announced to controllers that have not ended: while there are any, a controller may go on."""
        return self._pending

    def open(self) -> None:
        """Start the processes."""
        for name, view in self._views.items():
            self._env.process(self._controllers[name].control(view))

    def ready(self, group: int, task: int, iteration: int, members: Members, since: IntArray) -> None:
        """Tasks of a controlled stream will be ready at ``since[members]`` ps."""
        stream = int(self._program.groups[group].stream_of[task])
        for member in np.arange(len(since))[members].tolist():
            time = int(since[member])
            self._pending += 1
            self._due.add(time, ReadyTask(time, iteration, task, (group, stream, member)))

    def ended(self, group: int, task: int, members: Members) -> None:
        """An activity on a controlled stream has ended for ``members``."""
        stream = int(self._program.groups[group].stream_of[task])
        if not self._program.groups[group].streams[stream].in_order:
            ranks = np.arange(self._program.groups[group].rank_count)[members]
            self._lanes_free([(group, stream, member) for member in ranks.tolist()])

    def _tasks_ready(self, tasks: list[ReadyTask]) -> None:
        for task in tasks:
            name = self._controller_of(task.lane)
            self._views[name].ready.setdefault(task.lane, []).append(task)
            self._alert(name)

    def _lanes_free(self, lanes: list[Lane]) -> None:
        for lane in lanes:
            name = self._controller_of(lane)
            self._views[name].under_way[lane] -= 1
            self._pending -= 1
            self._alert(name)

    def _controller_of(self, lane: Lane) -> str:
        stream = self._program.groups[lane[0]].streams[lane[1]]
        if stream.in_order:
            raise RuntimeError(f"lane {lane} has no controller")
        return stream.controller or _of_workers(stream.workers)

    def _alert(self, name: str) -> None:
        if not self._restless:
            Alarm(self._env, 0, self._wake, CONTROL)
        self._restless.add(name)

    def _wake(self) -> None:
        restless, self._restless = self._restless, set()
        for name in sorted(restless):
            self._views[name].wake()


def _of_workers(number: int) -> str:
    """Name of the controller of streams with so many workers."""
    return f"{number} workers"

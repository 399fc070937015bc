"""The room of the controllers: connects them with the engine or the oracle."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import simpy

from inputs.errors import InputError, nearest_name
from simulator.engine.clock import CONTROL, Agenda, Alarm
from simulator.engine.controllers import Actor, Controller, EndedTask, IssueByReadiness, ReadyTask, View
from simulator.engine.fusing import FusingCoordinator
from simulator.engine.members import Members, by_value
from simulator.lowered import LoweredProgram
from simulator.program import IntArray


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
        fusing = {name: FusingCoordinator(program, calls) for name, calls in program.fused.items()}
        controllers = {**fusing, **controllers, **{_of_workers(number): IssueByReadiness(number) for number in workers}}
        self._env, self._program, self._controllers = env, program, controllers
        self._ended: Agenda[EndedTask] = Agenda(env, self._tasks_ended)
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
        """Tasks of ranks announced to controllers and not ended: while there are any, a controller may go on."""
        return self._pending

    def open(self) -> None:
        """Start the processes."""
        for name, view in self._views.items():
            self._env.process(self._controllers[name].control(view))

    def ready(self, group: int, task: int, iteration: int, members: Members, since: IntArray) -> None:
        """Tasks of a controlled stream will be ready at ``since[members]`` ps."""
        stream = int(self._program.groups[group].stream_of[task])
        ranks = np.arange(len(since))[members]
        self._pending += len(ranks)
        for time, alike in by_value(ranks, since[members]):
            self._due.add(time, ReadyTask(time, iteration, task, group, stream, alike))

    def ended(self, group: int, task: int, members: Members) -> None:
        """An activity on a controlled stream has ended for ``members``."""
        stream = int(self._program.groups[group].stream_of[task])
        if not self._program.groups[group].streams[stream].in_order:
            ranks = np.arange(self._program.groups[group].rank_count)[members]
            self._tasks_ended([EndedTask(group, stream, ranks)])

    def _tasks_ready(self, tasks: list[ReadyTask]) -> None:
        for task in tasks:
            name = self._controller_of(task.group, task.stream)
            self._views[name].add_ready(task)
            self._alert(name)

    def _tasks_ended(self, tasks: list[EndedTask]) -> None:
        for task in tasks:
            name = self._controller_of(task.group, task.stream)
            self._views[name].add_ended(task)
            self._pending -= len(task.members)
            self._alert(name)

    def _controller_of(self, group: int, number: int) -> str:
        stream = self._program.groups[group].streams[number]
        if stream.in_order:
            raise RuntimeError(f"stream {stream.name!r} of group {group} has no controller")
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

"""The engine: a SimPy clock for what is shared, vectors over ranks for everything else.

`run` executes a lowered program. Each group's `Frontier` pushes what is known as far as it goes; where ranks meet in
an activity, its instance is put on the agenda at the last arrival; `Flows` divides shared resources. The clock moves
only when nothing more can be evaluated, so whatever is registered lies at or after now, which is checked every time.
Ranks that do the same at the same times are evaluated once (`simulator.engine.alike`), unless the caller gives
controllers, which may look at single ranks.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import simpy

from simulator.engine.alike import alike, each_rank
from simulator.engine.capacity import NEVER, Capacities
from simulator.engine.clock import SOLVE, Agenda, Alarm
from simulator.engine.control_room import ControlRoom
from simulator.engine.controllers import RunAs
from simulator.engine.deadlock import deadlock_error
from simulator.engine.flows import Flows
from simulator.engine.frontier import Frontier
from simulator.engine.instances import find_members, private_durations
from simulator.engine.members import Members, by_value, join, pick, run_begins, run_lengths, size_of
from simulator.engine.records import ActivityTimes, EngineRun, GroupTimes, IterationRecord, RunOptions, RunRecorder
from simulator.engine.usage import CompiledPhase
from simulator.lowered import LoweredProgram
from simulator.program import IntArray

Token = tuple[int, int, int]
"""(instance, iteration, phase)."""


def run(program: LoweredProgram, options: RunOptions) -> EngineRun:
    """Execute ``program`` until ``options.stop`` says so or ``options.max_iterations`` have ended.

    Raises:
        DeadlockError: nothing can go on though tasks are waiting.
        ProgramError: the program contradicts itself.
        ModelRangeError: a phase is too long for the integer arithmetic.
    """
    named = {stream.controller for group in program.groups for stream in group.streams}
    try:
        return _Engine(program, options, joins=named.isdisjoint(options.controllers)).run()
    except _StuckError:  # the message names all ranks
        return _Engine(program, options, joins=False).run()


class _StuckError(Exception):
    """Nothing can go on, and ranks stand for others."""


class _Arrivals:
    """Arrivals at the instances of one iteration: count, last arrival, end, each ``[I]``."""

    __slots__ = ("arrived", "end", "last")

    def __init__(self, count: int) -> None:
        self.arrived = np.zeros(count, dtype=np.int64)
        self.last = np.full(count, -1, dtype=np.int64)
        self.end = np.full(count, -1, dtype=np.int64)


class _Engine:
    def __init__(self, whole: LoweredProgram, options: RunOptions, *, joins: bool) -> None:
        self._whole, self._options = whole, options
        self._env = simpy.Environment()
        self._table = options.memory.usage(whole)
        membership = find_members(whole)
        private = private_durations(whole, membership, self._table)
        found = alike(whole, membership, private) if joins else each_rank(whole, private)
        self._program = program = found.program
        self._classes, self._private = found.classes, found.private
        self._membership = membership if program is whole else find_members(program)
        capacities = Capacities(program.background, self._table.class_of, self._table.class_count)
        self._flows: Flows[Token] = Flows(self._table, options.sharing, capacities, options.observer)
        self._agenda: Agenda[Token] = Agenda(self._env, self._latencies_over)
        units = options.memory.units
        self._frontiers = [
            Frontier(n, g, units(n, g, frozenset(own)), own, options.max_iterations, self)
            for n, (g, own) in enumerate(zip(program.groups, self._private, strict=True))
        ]
        self._row_of = [{int(t): a for a, t in enumerate(g.activity_tasks)} for g in program.groups]
        self._arrivals: dict[int, _Arrivals] = {}
        self._run_as: dict[tuple[int, int], tuple[CompiledPhase, ...]] = {}
        self._released: dict[tuple[int, int, int], list[Members]] = {}
        self._completed: dict[int, dict[int, GroupTimes]] = {}
        self._recorder = RunRecorder(np.concatenate([g.ranks for g in whole.groups]), options.keep_last)
        self._room = ControlRoom(self._env, program, options.controllers, self)
        self._solve_pending = False
        self._armed = self._change_armed = NEVER
        self._under_way = 0
        self._done = False

    def run(self) -> EngineRun:
        for frontier in self._frontiers:
            frontier.begin()
        self._settle()
        self._room.open()
        while not self._done:
            if self._env.peek() == float("inf") or (self._under_way == 0 and self._room.pending == 0):
                if self._program is not self._whole:
                    raise _StuckError
                raise deadlock_error(self._program, self._frontiers, self._membership, self._arrived)
            self._env.step()
        while self._under_way and self._recorder.complete(self._options.max_iterations):
            self._env.step()  # activities whose members have all gone on
        return self._recorder.result()

    # What frontiers report (frontier.Listener)

    def arrived(self, group: int, task: int, iteration: int, members: Members) -> None:
        """Note arrivals; instances whose members have all arrived go on the agenda."""
        instances = self._program.groups[group].instances[self._row_of[group][task]][members]
        sole = self._membership.sole.get((group, task))
        starts = self._frontiers[group].state(iteration).starts[task][members]
        if sole is not None:
            self._meet(sole, iteration, size_of(members), int(starts.max()))
            return
        if len(instances) == 1 and instances[0] >= 0:
            self._meet(int(instances[0]), iteration, 1, int(starts[0]))
            return
        if instances.min() < 0:
            self._skip(group, task, iteration, members, absent=instances < 0)
            starts, instances = starts[instances >= 0], instances[instances >= 0]
        if len(instances) and instances[0] == instances[-1] and instances.min() == instances.max():
            self._meet(int(instances[0]), iteration, len(instances), int(starts.max()))
        elif len(instances):
            order = np.argsort(instances, kind="stable")
            begins = run_begins(instances[order])
            latest = np.maximum.reduceat(starts[order], begins).tolist()
            counts = run_lengths(begins, len(order)).tolist()
            for instance, count, last in zip(instances[order][begins].tolist(), counts, latest, strict=True):
                self._meet(instance, iteration, count, last)

    def ready(self, group: int, task: int, iteration: int, members: Members) -> None:
        """Notify the controllers of a stream that a task could start."""
        self._room.ready(group, task, iteration, members, self._frontiers[group].state(iteration).starts[task])

    def completed(self, group: int, iteration: int) -> None:
        """Record an iteration when its last group has completed it."""
        times = self._completed.setdefault(iteration, {})
        times[group] = self._frontiers[group].state(iteration).times(self._classes[group])
        if len(times) == len(self._frontiers):
            self._finish(iteration, self._completed.pop(iteration))

    # What controllers ask for (controllers.Actor)

    def issue(
        self, group: int, task: int, iteration: int, members: IntArray, run_as: RunAs | None = None
    ) -> list[tuple[int, IntArray]]:
        """Start a task of a controlled stream now; ends in ps where no activity decides them."""
        now, frontier = int(self._env.now), self._frontiers[group]
        state = frontier.state(iteration)
        state.starts[task][members] = now
        row = self._row_of[group].get(task)
        if row is None:
            ends = now + state.durations[task][members]
            state.ends[task][members] = ends
            frontier.set_end(task, iteration, join([members], frontier.everyone))
            self._settle()
            return list(by_value(members, ends))
        instances = self._program.groups[group].instances[row][members]
        if run_as is not None:
            phases = self._table.phases_as(run_as)
            self._run_as.update(((i, iteration), phases) for i in np.unique(instances[instances >= 0]).tolist())
        self.arrived(group, task, iteration, join([members], frontier.everyone))
        self._settle()
        return list(by_value(members[instances < 0], np.full(np.sum(instances < 0), now)))

    # Instances

    def _meet(self, instance: int, iteration: int, count: int, latest: int) -> None:
        arrivals = self._arrived(iteration)
        arrivals.arrived[instance] += count
        arrivals.last[instance] = max(int(arrivals.last[instance]), latest)
        if arrivals.arrived[instance] == self._membership.size[instance]:
            phase = self._phases(instance, iteration)[0]
            self._under_way += 1
            self._agenda.add(int(arrivals.last[instance]) + phase.latency_ps, (instance, iteration, 0))

    def _phases(self, instance: int, iteration: int) -> tuple[CompiledPhase, ...]:
        """The phases of an instance, or those of what a controller lets it run as."""
        return self._run_as.get((instance, iteration)) or self._table.phases[instance]

    def _skip(
        self, group: int, task: int, iteration: int, members: Members, absent: np.typing.NDArray[np.bool_]
    ) -> None:
        """Ranks that take no part go on at once."""
        frontier = self._frontiers[group]
        state = frontier.state(iteration)
        numbers = np.arange(len(state.starts[task]))[members][absent]
        pick(state.ends[task], numbers, state.starts[task][numbers])
        frontier.set_end(task, iteration, join([numbers], frontier.everyone))

    def _arrived(self, iteration: int) -> _Arrivals:
        arrivals = self._arrivals.get(iteration)
        if arrivals is None:
            arrivals = self._arrivals[iteration] = _Arrivals(len(self._program.activities))
        return arrivals

    def _latencies_over(self, tokens: Iterable[Token]) -> None:
        """The latency of these phases has passed: their work starts."""
        now = int(self._env.now)
        for instance, iteration, number in tokens:
            phase = self._phases(instance, iteration)[number]
            if phase.row >= 0:
                self._flows.start(phase.row, phase.work_ps, (instance, iteration, number), now)
            else:
                self._phase_over(instance, iteration, number)
        self._settle()

    def _work_over(self) -> None:
        """Work that ends now."""
        if self._armed != self._env.now:
            return
        self._armed = NEVER
        for instance, iteration, number in self._flows.pop_ended(int(self._env.now)):
            self._phase_over(instance, iteration, number)
        self._settle()

    def _phase_over(self, instance: int, iteration: int, number: int) -> None:
        now = int(self._env.now)
        phases = self._phases(instance, iteration)
        last = number + 1 == len(phases)
        for part in self._membership.parts[instance]:
            if part.release is None:
                released = part.members if last else None
            else:
                leaving = part.release == number if not last else part.release >= number
                numbers = np.arange(self._program.groups[part.group].rank_count)[part.members][leaving]
                released = numbers if len(numbers) else None
            if released is not None:
                self._released.setdefault((part.group, part.task, iteration), []).append(released)
        if last:
            self._arrived(iteration).end[instance] = now
            self._run_as.pop((instance, iteration), None)
            self._under_way -= 1
        else:
            self._agenda.add(now + phases[number + 1].latency_ps, (instance, iteration, number + 1))

    # Moving on

    def _settle(self) -> None:
        """Evaluate everything that can be, then have resources divided if their users changed."""
        released, self._released = self._released, {}
        for (group, task, iteration), parts in released.items():
            self._release(group, task, iteration, join(parts, self._frontiers[group].everyone))
        for frontier in self._frontiers:
            if frontier.ready:
                frontier.advance()
        if self._flows.needs_solve:
            self._divide_again()
        else:
            self._arm()

    def _divide_again(self) -> None:
        """Have resources divided when nothing else is left of this instant."""
        if not self._solve_pending:
            self._solve_pending = True
            Alarm(self._env, 0, self._solve, SOLVE)

    def _release(self, group: int, task: int, iteration: int, members: Members) -> None:
        frontier, now = self._frontiers[group], int(self._env.now)
        state, arrivals = frontier.state(iteration), self._arrived(iteration)
        sole = self._membership.sole.get((group, task))
        instances = self._program.groups[group].instances[self._row_of[group][task]]
        last = arrivals.last[sole] if sole is not None else arrivals.last[instances[members]]
        state.ends[task][members] = now
        state.waiting[self._row_of[group][task]][members] = last - state.starts[task][members]
        frontier.set_end(task, iteration, members)
        self._room.ended(group, task, members)

    def _solve(self) -> None:
        self._solve_pending = False
        self._flows.solve(int(self._env.now))
        self._arm()

    def _arm(self) -> None:
        """Wake up at the next end of work, and at the next change of capacities."""
        now, end = int(self._env.now), self._flows.next_end()
        if end != self._armed:
            self._armed = end
            if end != NEVER:
                Alarm(self._env, end - now, self._work_over)
        change = self._flows.next_change(now)
        if change not in (self._change_armed, NEVER):
            self._change_armed = change
            Alarm(self._env, change - now, self._divide_again)

    def _finish(self, iteration: int, times: dict[int, GroupTimes]) -> None:
        if self._done:
            return
        arrivals = self._arrived(iteration)
        groups = tuple(times[number] for number in range(len(self._frontiers)))
        self._fill_private(arrivals, groups)
        record = IterationRecord(iteration, groups, ActivityTimes(arrivals.last, arrivals.end))
        self._recorder.add(record)
        stop = self._options.stop
        self._done = iteration + 1 == self._options.max_iterations or (stop is not None and stop(self._recorder.ends))

    def _fill_private(self, arrivals: _Arrivals, groups: tuple[GroupTimes, ...]) -> None:
        """Activities that needed no event: they begin and end with their task."""
        for number, tasks in enumerate(self._private):
            for task in tasks:
                instances = self._whole.groups[number].instances[self._row_of[number][task]]
                taking_part = instances >= 0
                of_rank = self._classes[number].of_rank[taking_part]
                arrivals.last[instances[taking_part]] = groups[number].class_start_ps[task][of_rank]
                arrivals.end[instances[taking_part]] = groups[number].class_end_ps[task][of_rank]

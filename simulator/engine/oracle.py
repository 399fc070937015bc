"""The oracle: the same semantics the plain way, for tests.

A SimPy process per rank and stream, an event per task, a process per activity instance; resources are not merged,
components are found by walking, remaining work is a Python integer. It shares with the engine only the definition of
the result: the sharing model and the rounding of work and speeds. `run_oracle` must equal `simulator.engine.run` to the
picosecond on every program.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace

import numpy as np
import simpy

from inputs.errors import DeadlockError
from simulator.engine.capacity import NEVER, Capacities
from simulator.engine.clock import SOLVE, Alarm
from simulator.engine.control_room import ControlRoom
from simulator.engine.controllers import RunAs
from simulator.engine.flows import integer_speeds, work_shift
from simulator.engine.records import ActivityTimes, EngineRun, GroupTimes, IterationRecord, RunOptions, RunRecorder
from simulator.engine.sharing import SharingModel
from simulator.lowered import LoweredProgram, Phase
from simulator.program import IntArray

Process = Generator[simpy.Event, object, None]
TaskKey = tuple[int, int, int, int]
"""(group, rank number within the group, task, iteration)."""


def run_oracle(program: LoweredProgram, options: RunOptions) -> EngineRun:
    """Execute all ``options.max_iterations`` of ``program``; ``stop`` and ``observer`` are not used.

    Raises:
        DeadlockError: nothing can go on though tasks are waiting.
    """
    return _Oracle(program, options).run()


@dataclass
class _Flow:
    """A phase at work: remaining units, units per ps, when that was so, and the event of its end."""

    key: tuple[int, int, int]
    phase: Phase
    remaining: int
    shift: int
    done: simpy.Event
    rate: int = 0
    since: int = 0
    version: int = 0


class _Network:
    """Divides resources among flows, all components at every change."""

    def __init__(self, env: simpy.Environment, sharing: SharingModel, capacities: Capacities) -> None:
        self._env, self._sharing, self._capacities = env, sharing, capacities
        self._flows: list[_Flow] = []
        self._pending = False

    def transfer(self, key: tuple[int, int, int], phase: Phase) -> simpy.Event:
        shift = work_shift(phase.work_ps)
        flow = _Flow(key, phase, phase.work_ps << shift, shift, self._env.event(), since=int(self._env.now))
        self._flows.append(flow)
        self._changed()
        return flow.done

    def _changed(self) -> None:
        if not self._pending:
            self._pending = True
            Alarm(self._env, 0, self._solve, SOLVE)

    def _solve(self) -> None:
        self._pending = False
        left = sorted(self._flows, key=lambda flow: flow.key)
        while left:
            component = [left.pop(0)]
            for flow in component:
                touching = [f for f in left if np.intersect1d(f.phase.resources, flow.phase.resources).size]
                left = [f for f in left if f not in touching]
                component += touching
            self._share(sorted(component, key=lambda flow: flow.key))
        if self._flows and (change := self._capacities.next_change(int(self._env.now))) != NEVER:
            Alarm(self._env, change - int(self._env.now), self._changed)

    def _share(self, flows: list[_Flow]) -> None:
        left = self._capacities.left(self._capacities.state(int(self._env.now)))
        resources = np.concatenate([f.phase.resources for f in flows])
        usage = np.concatenate([f.phase.usage for f in flows])
        counts = np.array([len(f.phase.resources) for f in flows])
        speeds = self._sharing(counts, resources, usage / left[resources])
        rates = integer_speeds(speeds, np.array([f.shift for f in flows]))
        for flow, rate in zip(flows, rates.tolist(), strict=True):
            if rate != flow.rate:
                self._set_rate(flow, rate)

    def _set_rate(self, flow: _Flow, rate: int) -> None:
        now = int(self._env.now)
        flow.remaining -= flow.rate * (now - flow.since)
        flow.rate, flow.since, flow.version = rate, now, flow.version + 1
        version = flow.version
        if rate:
            Alarm(self._env, -(-flow.remaining // rate), lambda: self._end(flow, version))

    def _end(self, flow: _Flow, version: int) -> None:
        if flow.version == version:
            self._flows.remove(flow)
            self._changed()
            flow.done.succeed()


@dataclass
class _Instance:
    """Arrivals at one activity in one iteration."""

    missing: int
    last: int = -1
    end: int = -1
    released: dict[int, simpy.Event] = field(default_factory=dict)


class _Oracle:
    def __init__(self, program: LoweredProgram, options: RunOptions) -> None:
        self._program, self._options = program, options
        self._env = simpy.Environment()
        resources = np.arange(program.resource_count)
        capacities = Capacities(program.background, resources, program.resource_count)
        self._network = _Network(self._env, options.sharing, capacities)
        self._done: dict[TaskKey, simpy.Event] = {}
        self._issued: dict[TaskKey, simpy.Event] = {}
        self._run_as: dict[TaskKey, RunAs] = {}
        self._instances: dict[tuple[int, int], _Instance] = {}
        self._members = [
            sorted(int(r) for g in program.groups for r in g.ranks[np.any(g.instances == i, axis=0)])
            for i in range(len(program.activities))
        ]
        shapes = [(options.max_iterations, g.task_count, g.rank_count) for g in program.groups]
        self._times = [{n: np.zeros(s, dtype=np.int64) for n in ("start", "end", "waiting")} for s in shapes]
        self._room = ControlRoom(self._env, program, options.controllers, self)

    def run(self) -> EngineRun:
        lanes = [self._env.process(p) for p in self._processes()]
        self._room.open()
        finished = self._env.all_of(lanes)
        while not finished.triggered or any(i.missing == 0 and i.end < 0 for i in self._instances.values()):
            if self._env.peek() == float("inf"):
                raise DeadlockError("deadlock: nothing can go on")
            self._env.step()
        recorder = RunRecorder(np.concatenate([g.ranks for g in self._program.groups]), self._options.keep_last)
        for iteration in range(self._options.max_iterations):
            recorder.add(self._record(iteration))
        return recorder.result()

    def _processes(self) -> Generator[Process, None, None]:
        for number, group in enumerate(self._program.groups):
            for stream, description in enumerate(group.streams):
                tasks = np.flatnonzero(group.stream_of == stream).tolist()
                for member in range(group.rank_count):
                    if description.in_order:
                        yield self._in_order(number, member, tasks)
                    else:
                        yield from (self._controlled(number, member, task) for task in tasks)

    def _in_order(self, group: int, member: int, tasks: list[int]) -> Process:
        for iteration in range(self._options.max_iterations):
            for task in tasks:
                key = (group, member, task, iteration)
                yield from self._inputs(key)
                yield from self._execute(key)

    def _controlled(self, group: int, member: int, task: int) -> Process:
        ranks = self._program.groups[group].rank_count
        here = slice(member, member + 1, 1)
        for iteration in range(self._options.max_iterations):
            key = (group, member, task, iteration)
            yield from self._inputs(key)
            self._issued[key] = self._env.event()
            self._room.ready(group, task, iteration, here, np.full(ranks, int(self._env.now)))
            yield self._issued[key]
            yield from self._execute(key)
            if task in self._program.groups[group].activity_tasks:
                self._room.ended(group, task, here)

    def _inputs(self, key: TaskKey) -> Process:
        group, member, task, iteration = key
        lowered = self._program.groups[group]
        for entry in range(int(lowered.dep_ptr[task]), int(lowered.dep_ptr[task + 1])):
            earlier = iteration - int(lowered.dep_lag[entry])
            if earlier >= 0:
                yield self._event((group, member, int(lowered.dep_task[entry]), earlier))

    def _event(self, key: TaskKey) -> simpy.Event:
        return self._done.setdefault(key, self._env.event())

    def _execute(self, key: TaskKey) -> Process:
        group, member, task, iteration = key
        lowered, times = self._program.groups[group], self._times[group]
        times["start"][iteration, task, member] = self._env.now
        row = np.flatnonzero(lowered.activity_tasks == task)
        if len(row) == 0:
            duration = np.broadcast_to(lowered.durations.at(iteration)[task], lowered.rank_count)[member]
            yield self._env.timeout(int(duration))
        elif lowered.instances[row[0], member] >= 0:
            yield from self._take_part(key, int(lowered.instances[row[0], member]))
        times["end"][iteration, task, member] = self._env.now
        self._event(key).succeed()

    def _take_part(self, key: TaskKey, number: int) -> Process:
        group, member, task, iteration = key
        rank = int(self._program.groups[group].ranks[member])
        instance = self._instances.setdefault((number, iteration), _Instance(len(self._members[number])))
        arrival = int(self._env.now)
        instance.last = max(instance.last, arrival)
        instance.missing -= 1
        instance.released[rank] = self._env.event()
        if instance.missing == 0:
            self._env.process(self._activity(number, iteration, instance, self._run_as.get(key)))
        yield instance.released[rank]
        self._times[group]["waiting"][iteration, task, member] = instance.last - arrival

    def _phases(self, number: int, run_as: RunAs | None) -> tuple[Phase, ...]:
        """The phases of an instance, or those of what a controller lets it run as."""
        if run_as is None:
            return self._program.activities[number].phases
        lead = Phase(run_as.lead_ps, 0, np.zeros(0, dtype=np.int64), np.zeros(0))
        if run_as.activity is None:
            return (lead,)
        (above, below), phases = run_as.part, self._program.activities[run_as.activity].phases
        parts = (-(-p.work_ps * above // below) if len(p.resources) else p.work_ps for p in phases)
        return (lead, *(replace(phase, work_ps=part) for phase, part in zip(phases, parts, strict=True)))

    def _activity(self, number: int, iteration: int, instance: _Instance, run_as: RunAs | None) -> Process:
        activity, phases = self._program.activities[number], self._phases(number, run_as)
        runs = number if run_as is None or run_as.activity is None else run_as.activity
        last = len(phases) - 1
        for position, phase in enumerate(phases):
            busy = phase.work_ps > 0 and len(phase.resources) > 0
            yield self._env.timeout(phase.latency_ps + (0 if busy else phase.work_ps))
            if busy:
                yield self._network.transfer((runs, position, iteration), phase)
            for index, rank in enumerate(self._members[number]):
                leaves = last if activity.release_phase is None else min(int(activity.release_phase[index]), last)
                if leaves == position:
                    instance.released[rank].succeed()
        if not phases:  # a communicator of one rank
            for released in instance.released.values():
                released.succeed()
        instance.end = int(self._env.now)

    # What controllers ask for (controllers.Actor)

    def issue(
        self, group: int, task: int, iteration: int, members: IntArray, run_as: RunAs | None = None
    ) -> list[tuple[int, IntArray]]:
        """Let a waiting task start; returns its ends if it is private."""
        for member in members.tolist():
            if run_as is not None:
                self._run_as[group, member, task, iteration] = run_as
            self._issued[group, member, task, iteration].succeed()
        lowered = self._program.groups[group]
        if task in lowered.activity_tasks:
            return []
        durations = np.broadcast_to(lowered.durations.at(iteration)[task], lowered.rank_count)
        return [(int(self._env.now) + int(durations[member]), np.array([member])) for member in members.tolist()]

    def _record(self, iteration: int) -> IterationRecord:
        groups = tuple(
            GroupTimes.of_ranks(
                t["start"][iteration], t["end"][iteration], np.arange(g.task_count), t["waiting"][iteration]
            )
            for t, g in zip(self._times, self._program.groups, strict=True)
        )
        met = [self._instances.get((i, iteration), _Instance(0)) for i in range(len(self._members))]
        last, end = (np.array([getattr(m, n) for m in met], dtype=np.int64) for n in ("last", "end"))
        return IterationRecord(iteration, groups, ActivityTimes(last, end))

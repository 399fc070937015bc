"""The frontier of one program group: what is known of which rank, pushed as far as it goes.

The unit of evaluation is (unit of tasks, the ranks whose inputs are all known). When activities end, the ends of their
members become known; the units that depend on them are evaluated for these members as one vector, and so on until
everything left has an unknown input. Nothing here knows the clock: evaluation runs ahead of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from simulator.engine.instances import PrivateTimes
from simulator.engine.members import Members, pick, size_of
from simulator.engine.records import GroupTimes
from simulator.engine.units import Kind, Source, Units
from simulator.lowered import LoweredGroup
from simulator.program import IntArray
from simulator.rank_classes import RankClasses


class Listener(Protocol):
    """Receiver of the events whose outcome the frontier cannot compute by itself."""

    def arrived(self, group: int, task: int, iteration: int, members: Members) -> None:
        """The starts of ``members`` on activity task ``task`` are known."""
        ...

    def ready(self, group: int, task: int, iteration: int, members: Members) -> None:
        """The inputs of ``members`` for a controlled ``task`` are known; its start column holds the latest."""
        ...

    def completed(self, group: int, iteration: int) -> None:
        """All tasks of an iteration are known for all ranks of the group."""
        ...


class IterationState:
    """Times and missing inputs of one iteration of a group.

    ``start`` and ``end`` are ``[T, P]``, ``waiting`` is ``[A, P]`` in ps; ``missing`` counts inputs per unit, one
    number while all ranks agree and ``[P]`` otherwise.
    """

    __slots__ = (
        "_activity_tasks",
        "durations",
        "end",
        "ends",
        "inputs",
        "left",
        "missing",
        "start",
        "starts",
        "waiting",
    )

    def __init__(
        self, durations: IntArray, ranks: int, activity_tasks: IntArray, missing: list[int | IntArray]
    ) -> None:
        """Nothing is known yet."""
        tasks = len(durations)
        self.start = np.empty((tasks, ranks), dtype=np.int64)
        self.end = np.empty((tasks, ranks), dtype=np.int64)
        self.waiting = np.zeros((len(activity_tasks), ranks), dtype=np.int64)
        self._activity_tasks = activity_tasks
        self.starts, self.ends = list(self.start), list(self.end)
        self.durations = durations
        self.inputs: list[list[IntArray] | None] = [None] * tasks
        self.missing = missing
        self.left = len(missing) * ranks

    def times(self, classes: RankClasses) -> GroupTimes:
        """The recorded columns, one for each of these classes."""
        return GroupTimes(classes, self.start, self.end, self._activity_tasks, self.waiting)


class Frontier:
    """Evaluates one group; ``listener`` hears of arrivals and completed iterations."""

    def __init__(
        self,
        number: int,
        group: LoweredGroup,
        units: Units,
        private_ps: PrivateTimes,
        iterations: int,
        listener: Listener,
    ) -> None:
        """Prepare group ``number``; ``private_ps`` holds durations ``[P]`` of activity tasks that are private."""
        self._number, self._group, self._units = number, group, units
        self._iterations, self._listener = iterations, listener
        self._private_ps = private_ps
        self._states: dict[int, IterationState] = {}
        self.ready: list[tuple[int, int, Members]] = []
        self._everyone: Members = slice(0, group.rank_count, 1)
        self._unit_of = {task: number for number, unit in enumerate(units.units) for task in unit.tasks}
        self._blocks: dict[int, _Block] = {}
        self._missing_at: dict[int, list[int]] = {}
        self._durations: tuple[IntArray, IntArray] | None = None

    @property
    def everyone(self) -> Members:
        """All ranks of the group."""
        return self._everyone

    def begin(self) -> None:
        """Make ready the units without inputs."""
        for iteration in range(min(self._units.max_lag, self._iterations)):
            state = self.state(iteration)
            for unit, missing in enumerate(state.missing):
                if isinstance(missing, int) and missing == 0:
                    self.ready.append((iteration, unit, self._everyone))

    def state(self, iteration: int) -> IterationState:
        """The state of an iteration, made when first asked for."""
        state = self._states.get(iteration)
        if state is None:
            missing: list[int | IntArray] = list(self._missing(min(iteration, self._units.max_lag)))
            ranks, tasks = self._group.rank_count, self._group.activity_tasks
            state = IterationState(self._durations_at(iteration), ranks, tasks, missing)
            self._states[iteration] = state
        return state

    def _missing(self, iteration: int) -> list[int]:
        """Inputs of each unit that have to become known; from the longest lag on they are the same."""
        if iteration not in self._missing_at:
            self._missing_at[iteration] = self._units.missing_at(iteration)
        return self._missing_at[iteration]

    def advance(self) -> None:
        """Evaluate all that can be."""
        while self.ready:
            iteration, unit, members = self.ready.pop()
            state = self.state(iteration)
            kind = self._units.units[unit].kind
            if kind is Kind.PRIVATE:
                self._evaluate(state, iteration, unit, members)
                self._known(iteration, unit, members)
                continue
            task = self._units.units[unit].tasks[0]
            pick(state.starts[task], members, self._latest_input(state, iteration, task, members))
            notify = self._listener.arrived if kind is Kind.ACTIVITY else self._listener.ready
            notify(self._number, task, iteration, members)

    def set_end(self, task: int, iteration: int, members: Members) -> None:
        """Take the ends of ``task`` for ``members`` as known: the caller has written them."""
        self._known(iteration, self._unit_of[task], members)

    def unarrived(self, task: int, iteration: int) -> IntArray:
        """Ranks (numbers within the group) whose inputs of ``task`` are not all known."""
        missing = self.state(iteration).missing[self._unit_of[task]]
        return np.flatnonzero(np.broadcast_to(missing, self._group.rank_count) > 0)

    def open_iterations(self) -> list[int]:
        """Iterations begun and not completed."""
        return [k for k, state in sorted(self._states.items()) if state.left > 0]

    def _known(self, iteration: int, unit: int, members: Members) -> None:
        state = self._states[iteration]
        for successor, lag in self._units.successors[unit]:
            if iteration + lag < self._iterations:
                after = state if lag == 0 else self.state(iteration + lag)
                ready = self._count_down(after, successor, members)
                if ready is not None:
                    self.ready.append((iteration + lag, successor, ready))
        state.left -= size_of(members)
        if state.left == 0:
            self._listener.completed(self._number, iteration)
            self._states.pop(iteration - self._units.max_lag, None)

    def _count_down(self, state: IterationState, unit: int, members: Members) -> Members | None:
        """Note that ``members`` have one more input of ``unit``; return those who now have all."""
        missing = state.missing[unit]
        if isinstance(missing, int):
            if members is self._everyone:
                state.missing[unit] = missing - 1
                return members if missing == 1 else None
            state.missing[unit] = missing = np.full(self._group.rank_count, missing, dtype=np.int64)
        missing[members] -= 1
        complete = missing[members] == 0
        if complete.all():
            return members
        if not complete.any():
            return None
        some: IntArray = np.arange(self._group.rank_count)[members][complete]
        return some

    def _evaluate(self, state: IterationState, iteration: int, unit: int, members: Members) -> None:
        if isinstance(members, slice):
            self._evaluate_rows(state, iteration, self._units.units[unit].tasks, members)
        else:
            block = self._blocks.get(unit)
            if block is None:
                block = self._blocks[unit] = _Block(self._units, unit)
            block.evaluate(self._states, iteration, members)

    def _evaluate_rows(self, state: IterationState, iteration: int, tasks: Sequence[int], members: slice) -> None:
        """Evaluate on views of the columns."""
        whole = members is self._everyone
        for task in tasks:
            start, end, duration = state.starts[task], state.ends[task], state.durations[task]
            rows = self._input_rows(state, iteration, task)
            if not whole:
                start, end, duration = start[members], end[members], duration[members]
                rows = [row[members] for row in rows]
            _latest(rows, start)
            np.add(start, duration, out=end)

    def _latest_input(self, state: IterationState, iteration: int, task: int, members: Members) -> IntArray:
        latest = np.empty(size_of(members), dtype=np.int64)
        _latest([row[members] for row in self._input_rows(state, iteration, task)], latest)
        return latest

    def _input_rows(self, state: IterationState, iteration: int, task: int) -> list[IntArray]:
        """Ends of the inputs of a task, kept for its other members."""
        rows = state.inputs[task]
        if rows is None:
            sources = self._units.sources[task]
            rows = [self.state(iteration - lag).ends[dep] for dep, lag in sources if lag <= iteration]
            state.inputs[task] = rows
        return rows

    def _durations_at(self, iteration: int) -> IntArray:
        """Durations ``[T, P]`` with those of private activities filled in."""
        values = self._group.durations.at(iteration)
        if self._durations is None or self._durations[0] is not values:
            full = np.broadcast_to(values, (self._group.task_count, self._group.rank_count))
            if self._private_ps:
                full = full.copy()
                for task, duration in self._private_ps.items():
                    full[task] = duration
            self._durations = (values, full)
        return self._durations[1]


def _latest(rows: Sequence[IntArray], out: IntArray) -> None:
    """Maximum of ``rows`` into ``out``; 0, the start of the run, when there are none."""
    if len(rows) == 1:
        np.copyto(out, rows[0])
    elif rows:
        np.maximum(rows[0], rows[1], out=out)
        for row in rows[2:]:
            np.maximum(out, row, out=out)
    else:
        out.fill(0)


class _Block:
    """Evaluates a unit for scattered members: inputs are gathered, tasks run on a scratch table, results scattered."""

    def __init__(self, units: Units, unit: int) -> None:
        self._tasks = np.array(units.units[unit].tasks, dtype=np.int64)
        inside = set(units.units[unit].tasks)
        self._sources = [units.sources[task] for task in units.units[unit].tasks]
        outside: dict[int, list[int]] = {}
        for sources in self._sources:
            for dep, lag in sources:
                if lag > 0 or dep not in inside:
                    outside.setdefault(lag, []).append(dep)
        self._outside = {lag: np.unique(deps) for lag, deps in outside.items()}

    def evaluate(self, states: dict[int, IterationState], iteration: int, members: IntArray) -> None:
        """Fill in starts and ends of the unit's tasks for ``members``."""
        state = states[iteration]
        known: dict[Source, IntArray] = {}
        for lag, deps in self._outside.items():
            if lag <= iteration:
                rows = states[iteration - lag].end[deps[:, None], members]
                known.update({(dep, lag): row for dep, row in zip(deps.tolist(), rows, strict=True)})
        cells = (self._tasks[:, None], members)
        end = state.durations[cells]
        start = np.empty_like(end)
        for number, (task, sources) in enumerate(zip(self._tasks.tolist(), self._sources, strict=True)):
            _latest([known[source] for source in sources if source[1] <= iteration], start[number])
            end[number] += start[number]
            known[task, 0] = end[number]
        state.start[cells] = start
        state.end[cells] = end

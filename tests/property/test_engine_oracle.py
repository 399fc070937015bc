"""Engine equals oracle to the picosecond on whatever hypothesis invents; broken engines do not."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from benchmarks.engine_programs import global_program, grouped_program
from benchmarks.oracle import compare
from benchmarks.random_programs import RandomProgram, SeededChoices, draw_fused_program, draw_program
from inputs.errors import DeadlockError
from simulator.engine import RunOptions, alike, flows, frontier, memory, run
from simulator.engine.units import Units
from simulator.engine.units import compile_units as real_compile_units
from simulator.lowered import ConstantDurations


class DrawnChoices:
    """Choices made, and shrunk, by hypothesis."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))


@st.composite
def programs(draw: st.DrawFn, controlled: bool = False, loaded: bool = False) -> RandomProgram:
    return draw_program(DrawnChoices(draw), controlled=controlled, loaded=loaded)


_slow_draws = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@_slow_draws
@given(programs())
def test_engine_equals_oracle(drawn: RandomProgram) -> None:
    difference = compare(drawn)
    event("deadlock" if difference == "deadlock" else "ran")
    assert difference in {"", "deadlock"}


@settings(_slow_draws, max_examples=60)
@given(programs(controlled=True))
def test_engine_equals_oracle_with_streams_that_issue_by_readiness(drawn: RandomProgram) -> None:
    assert compare(drawn) in {"", "deadlock"}


@st.composite
def fused_programs(draw: st.DrawFn) -> RandomProgram:
    return draw_fused_program(DrawnChoices(draw))


@settings(_slow_draws, max_examples=80)
@given(fused_programs())
def test_engine_equals_oracle_with_collectives_that_a_coordinator_fuses(drawn: RandomProgram) -> None:
    difference = compare(drawn)
    event("deadlock" if difference == "deadlock" else "ran")
    assert difference in {"", "deadlock"}


@pytest.mark.slow
@settings(_slow_draws, max_examples=80)
@given(programs(controlled=True, loaded=True))
def test_engine_equals_oracle_with_bursts_of_other_jobs(drawn: RandomProgram) -> None:
    difference = compare(drawn)
    event("deadlock" if difference == "deadlock" else "bursts" if any_burst(drawn) else "no bursts")
    assert difference in {"", "deadlock"}


def any_burst(drawn: RandomProgram) -> bool:
    return any(traffic.off_ps and len(traffic.resources) for traffic in drawn.program.background)


@pytest.mark.parametrize("build", [global_program, grouped_program])
def test_engine_equals_oracle_on_the_benchmark_programs(build) -> None:
    """Small versions of what ``python -m benchmarks engine`` times."""
    assert compare(RandomProgram(build(16, 2, tasks=40), 2)) == ""


def caught(programs_tried: int = 300) -> bool:
    """Whether comparing seeded programs finds the (broken) engine different from the oracle."""
    for number in range(programs_tried):
        drawn = draw_program(SeededChoices(random.Random(number)))
        if compare(drawn) not in {"", "deadlock"}:
            return True
    return False


def test_seeded_programs_find_nothing_wrong_with_the_real_engine() -> None:
    assert not caught(100)


def test_whole_vector_evaluation_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that waits until all ranks of a group have a task's inputs registers activities in the past."""

    def count_down(self, state, unit, members):
        missing = state.missing[unit]
        state.missing[unit] = missing = np.broadcast_to(missing, self._group.rank_count).copy()
        missing[members] -= 1
        return self._everyone if (missing == 0).all() else None

    monkeypatch.setattr(frontier.Frontier, "_count_down", count_down)
    assert caught()


def test_remaining_work_in_floats_at_every_event_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that updates everyone's remaining work at every solve, in floats, drifts by picoseconds."""

    def share(self, seeds, now):
        slots = np.flatnonzero(self._row >= 0)
        if len(slots) == 0:
            return
        slots = slots[np.argsort(self._row[slots], kind="stable")]
        speeds = self._sharing(*self._table.gather(self._row[slots]))
        left = np.ldexp(self._remaining[slots].astype(float), -self._shift[slots])
        old = np.ldexp(self._rate[slots].astype(float), -self._shift[slots])
        left = left - old * (now - self._since[slots])
        self._remaining[slots] = np.ldexp(left, self._shift[slots]).astype(np.int64)
        self._rate[slots] = flows.integer_speeds(speeds, self._shift[slots])
        self._since[slots] = now
        self._end[slots] = now + np.maximum(np.rint(left / speeds), 1).astype(np.int64)

    monkeypatch.setattr(flows.Flows, "_share", share)
    assert caught()


def test_ignored_stream_order_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine whose streams are not in order starts tasks too early."""

    def without_order(group, private) -> Units:
        streams = (group.streams[0],) * group.task_count
        return real_compile_units(replace(group, streams=streams, stream_of=np.arange(group.task_count)), private)

    monkeypatch.setattr(memory, "compile_units", without_order)
    assert caught()


@pytest.mark.parametrize("ignored", ["durations", "instances", "releases"])
def test_ranks_that_differ_and_count_as_alike_are_caught(monkeypatch: pytest.MonkeyPatch, ignored: str) -> None:
    """An engine that takes ranks for alike by all but one of what they do has wrong times."""

    def classes(group, private, releases):
        if ignored == "durations":
            group = replace(group, durations=ConstantDurations(group.durations.at(0)[:, :1]))
        if ignored == "instances":
            group = replace(group, instances=np.minimum(group.instances, 0) + 1)
        return real_classes(group, private, () if ignored == "releases" else releases)

    real_classes = alike._classes
    monkeypatch.setattr(alike, "_classes", classes)
    assert caught(600)


@_slow_draws
@given(programs(), st.integers(0, 2**32 - 1))
def test_the_order_of_evaluation_does_not_matter(drawn: RandomProgram, seed: int) -> None:
    """Taking ready units in any order gives the same times."""
    shuffled = random.Random(seed)

    class AnyOrder(list):
        def pop(self, _index: int = -1):
            return super().pop(shuffled.randrange(len(self)))

    real_init = frontier.Frontier.__init__

    def init(self, *arguments):
        real_init(self, *arguments)
        self.ready = AnyOrder()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frontier.Frontier, "__init__", init)
        assert compare(drawn) in {"", "deadlock"}


@settings(_slow_draws, max_examples=80)
@given(programs())
def test_no_resource_is_ever_over_capacity_and_all_work_is_done(drawn: RandomProgram) -> None:
    """At every solve the shares on a resource add up to at most one."""
    loads: list[float] = []

    def watch(_now: int, rows, speeds) -> None:
        load: dict[int, float] = {}
        for row, speed in zip(rows, speeds, strict=True):
            for resource, usage in zip(phases[row].resources, phases[row].usage, strict=True):
                load[int(resource)] = load.get(int(resource), 0.0) + speed * float(usage)
        loads.extend(load.values())

    phases = [p for a in drawn.program.activities for p in a.phases if p.work_ps > 0 and len(p.resources)]
    with suppress(DeadlockError):
        run(drawn.program, RunOptions(drawn.iterations, observer=watch))
    assert max(loads, default=0.0) <= 1.0 + 1e-9


@pytest.mark.slow
@_slow_draws
@given(programs())
def test_streams_never_overlap_and_inputs_end_first(drawn: RandomProgram) -> None:
    try:
        records = run(drawn.program, RunOptions(drawn.iterations, keep_last=None)).records
    except DeadlockError:
        return
    for number, group in enumerate(drawn.program.groups):
        for stream in range(len(group.streams)):
            tasks = np.flatnonzero(group.stream_of == stream)
            starts = np.concatenate([r.groups[number].start_ps[tasks] for r in records])
            ends = np.concatenate([r.groups[number].end_ps[tasks] for r in records])
            assert (starts[1:] >= ends[:-1]).all()
        for record in records:
            for task in range(group.task_count):
                for entry in range(group.dep_ptr[task], group.dep_ptr[task + 1]):
                    earlier = record.iteration - group.dep_lag[entry]
                    if earlier >= 0:
                        ends = records[earlier].groups[number].end_ps[group.dep_task[entry]]
                        assert (record.groups[number].start_ps[task] >= ends).all()

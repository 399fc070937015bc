"""Bottleneck fairness: the definition on random inputs, the documented examples, and the engine's use of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.engine import RunOptions, bottleneck_fairness, run
from simulator.engine.memory import ProgramMemory
from simulator.engine.sharing import stand_ins
from simulator.lowered import Activity, Background, ConstantDurations, LoweredGroup, LoweredProgram, Phase, phase
from simulator.program import Stream

TOLERANCE = 1e-9  # of a share; the linear system of a cycle is solved in floating point


def speeds_of(rows: Sequence[Mapping[int, float]]) -> np.ndarray:
    counts = np.array([len(row) for row in rows])
    resources = np.array([r for row in rows for r in sorted(row)], dtype=np.int64)
    usage = np.array([row[r] for row in rows for r in sorted(row)])
    return bottleneck_fairness(counts, resources, usage)


def assert_fair(rows: Sequence[Mapping[int, float]], speeds: np.ndarray) -> None:
    """The definition, word for word."""
    assert ((speeds > 0) & (speeds <= 1)).all()
    shares = [{r: x * u for r, u in row.items()} for row, x in zip(rows, speeds, strict=True)]
    resources = {r for row in rows for r in row}
    load = {r: sum(s.get(r, 0.0) for s in shares) for r in resources}
    assert max(load.values(), default=0) <= 1 + TOLERANCE
    highest = {r: max(share.get(r, 0.0) for share in shares) for r in resources}
    for share, speed in zip(shares, speeds, strict=True):
        bottlenecks = [r for r in share if load[r] >= 1 - TOLERANCE and share[r] >= highest[r] * (1 - TOLERANCE)]
        assert speed == 1 or bottlenecks


def test_sixty_percent_and_all_of_a_port_give_five_sixths_and_one_half() -> None:
    assert speeds_of([{0: 0.6}, {0: 1.0}]) == pytest.approx([5 / 6, 1 / 2], rel=1e-15)


def test_two_activities_that_hold_each_other_back_on_different_resources() -> None:
    """x_A + x_B / 2 = 1 and x_A / 2 + x_B = 1: no resource is the bottleneck of both."""
    assert speeds_of([{0: 1.0, 1: 0.5}, {0: 0.5, 1: 1.0}]) == pytest.approx([2 / 3, 2 / 3], rel=1e-12)


def test_small_users_keep_their_speed() -> None:
    assert speeds_of([{0: 0.2}, {0: 1.0}, {0: 1.0}]) == pytest.approx([1, 0.4, 0.4], rel=1e-15)


_usage = st.one_of(st.sampled_from([1.0, 0.5, 0.7, 0.25]), st.floats(0.01, 1.0))


@settings(max_examples=250, deadline=None)
@given(st.lists(st.dictionaries(st.integers(0, 6), _usage, max_size=5), min_size=1, max_size=8))
def test_definition_holds(rows: list[dict[int, float]]) -> None:
    assert_fair(rows, speeds_of(rows))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.dictionaries(st.integers(0, 3), _usage, min_size=1), min_size=1, max_size=4), st.integers(0, 2**32))
def test_components_solved_together_or_apart_give_the_same_bits(rows: list[dict[int, float]], seed: int) -> None:
    """The engine may hand over several components at once, the oracle never does."""
    generator = np.random.default_rng(seed)
    other = [{10 + r: generator.uniform(0.1, 1) for r in range(3)} for _ in range(3)]
    together = speeds_of([*rows, *other])
    assert together.tolist() == [*speeds_of(rows), *speeds_of(other)]


def test_one_global_and_many_node_activities() -> None:
    """Freezing the global one leaves each node what it does not use."""
    usage = np.random.default_rng(1).uniform(0.05, 1, 300)
    rows = [dict.fromkeys(range(300), 1.0), *({n: float(u)} for n, u in enumerate(usage))]
    speeds = speeds_of(rows)
    assert_fair(rows, speeds)
    assert speeds[0] == pytest.approx(0.5, rel=1e-12)


def program(activities: Sequence[Activity], starts_ps: Sequence[int]) -> LoweredProgram:
    """One rank per activity: a private task until ``starts_ps``, then the activity (two members make it shared)."""
    groups = []
    for number, start in enumerate(starts_ps):
        groups.append(
            LoweredGroup(
                name=f"g{number}",
                ranks=np.array([number]),
                streams=(Stream("s"),),
                names=("before", "activity"),
                stream_of=np.array([0, 0]),
                dep_ptr=np.array([0, 0, 0]),
                dep_task=np.array([], dtype=np.int64),
                dep_lag=np.array([], dtype=np.int64),
                durations=ConstantDurations(np.array([[start], [0]])),
                activity_tasks=np.array([1]),
                instances=np.array([[number]]),
            )
        )
    return LoweredProgram(tuple(groups), activities, 2)


def ends_ps(activities: Sequence[Activity], starts_ps: Sequence[int]) -> list[int]:
    result = run(program(activities, starts_ps), RunOptions(1))
    return result.records[0].activities.end_ps.tolist()


def test_engine_runs_the_example_to_the_picosecond() -> None:
    """A (60 % of the port, 1 ms alone) and B (all of it, 1 ms alone) start together.

    A runs at 5/6 and ends after 1.2 ms; B has done 0.6 ms of work by then and does the rest alone: 1.6 ms.
    """
    work = 10**9
    activities = [Activity("A", (phase(0, work, [0], 0.6),)), Activity("B", (phase(0, work, [0], 1.0),))]
    assert ends_ps(activities, [0, 0]) == pytest.approx([1_200_000_000, 1_600_000_000], abs=2)


def test_latency_uses_no_resource() -> None:
    """B's latency passes beside A's work; then B works alone."""
    activities = [Activity("A", (phase(0, 1000, [0]),)), Activity("B", (phase(1000, 500, [0]),))]
    assert ends_ps(activities, [0, 0]) == [1000, 1500]


@given(st.integers(1, 2**51), st.integers(0, 10**9), st.floats(0.01, 1.0))
def test_alone_the_duration_is_exact(work: int, start: int, usage: float) -> None:
    """Whatever its length, and though its resource is shared at another time, nothing is rounded."""
    activities = [Activity("A", (phase(7, work, [0], usage),)), Activity("B", (phase(0, 5, [0]),))]
    assert ends_ps(activities, [start + 10, 0]) == [start + 17 + work, 5]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.dictionaries(st.integers(0, 4), _usage, min_size=1), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.3, 0.9, 1.0])), max_size=4),
)
def test_resources_that_another_one_always_fills_before_change_no_bit(
    rows: list[dict[int, float]], weaker: list[tuple[int, float]]
) -> None:
    """Each weaker one has the users of a resource, who take that part of their shares."""
    more = [
        {**row, **{10 + n: row[of] * part for n, (of, part) in enumerate(weaker) if of in row}} for row in rows
    ]  # fmt: skip
    assert speeds_of(more).tolist() == speeds_of(rows).tolist()
    table = np.array([[row.get(r, 0.0) for row in more] for r in sorted({r for row in more for r in row})])
    stands = stand_ins(table)
    assert np.array_equal(stands[stands], stands)
    assert np.all((table <= table[stands]) & ((table > 0) == (table[stands] > 0)))


def test_ports_under_uneven_collectives_become_the_few_that_can_be_full() -> None:
    """Three calls over 1,000 ports, each with shares of its own: the ports that are left exceed all others."""
    shares = np.random.default_rng(3).uniform(0.2, 1.0, (3, 1000))
    activities = [Activity(str(n), (Phase(0, 10**6, np.arange(1000), row),)) for n, row in enumerate(shares)]
    lowered = replace(program(activities, [0, 0, 0]), resource_count=1000)
    table = ProgramMemory().usage(lowered)
    kept = table.usage.reshape(3, -1)
    assert kept.shape[1] == table.class_count < 100
    assert np.all((shares[:, :, None] <= kept[:, None, :]).all(axis=0).any(axis=1))
    busy = replace(lowered, background=(Background(np.arange(1000), 0.5),))
    assert ProgramMemory().usage(busy).class_count == 1000

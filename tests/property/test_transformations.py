"""Laws of transformations on random task graphs: work is conserved as each defines it, no order is lost, the engine
equals the oracle, and fused kernels are never slower on a rank that is alone."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from benchmarks.oracle import compare
from benchmarks.random_graphs import draw_graph, draw_steps, machine_of
from benchmarks.random_programs import RandomProgram, SeededChoices
from inputs.errors import InputError
from scenarios.schedules import groups_of
from simulator.collective_calls import CollectiveCall, busbw_factor
from simulator.engine import RunOptions, run
from simulator.lowering import lower
from simulator.operators import DenseOptimizer, Elementwise, Gemm, HostWork
from simulator.program import Program, TaskGraph
from simulator.transform.editable import EditableProgram, editable, rebuilt
from simulator.transform.pattern import NamePattern
from simulator.transform.sequence import Applied, ScheduleStep, applied
from simulator.transform.transformation import TRANSFORMATIONS
from simulator.work import KernelSeries, Work

KINDS = ("fuse", "decompose", "recompute", "move", "shard")
PROGRAMS = 100
"""Random programs of each kind: 500 in all."""

_draws = settings(
    max_examples=PROGRAMS,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


@dataclass(frozen=True)
class Case:
    before: TaskGraph
    after: TaskGraph
    keys: Mapping[str, Any]
    done: Applied


def case(kind: str, seed: int) -> Case | None:
    """A transformed random graph; None where the transformation is refused with a reason."""
    choices = SeededChoices(random.Random(seed))
    graph = draw_graph(choices)
    keys = draw_steps(choices, kind, graph)
    step = ScheduleStep(kind, TRANSFORMATIONS.get(kind).model_validate(keys))
    try:
        after, (done,) = applied(graph, [step], groups_of(machine_of(graph.world_size)), "transform")
    except InputError as error:
        if not (error.key or "").startswith(f"transform[0].{kind}"):
            raise
        return None
    return Case(graph, after, keys, done)


# Amounts


def kernels(work: Work) -> Iterator[tuple[int, Work]]:
    yield from work.kernels if isinstance(work, KernelSeries) else [(1, work)]


def flops(work: Work) -> float:
    return sum(2.0 * n * k.count * k.m * k.n * k.k for n, k in kernels(work) if isinstance(k, Gemm))


def moved(work: Work) -> float:
    """Bytes of kernels that are no products."""
    streamed = sum(n * (k.read_bytes + k.write_bytes) for n, k in kernels(work) if isinstance(k, Elementwise))
    return streamed + (work.traffic_bytes if isinstance(work, DenseOptimizer) else 0.0)


def wire(graph: TaskGraph) -> Callable[[Work], float]:
    """Bytes that a call puts on the wire at each rank, in units of the largest instance."""
    members = {name: int(np.bincount(inst[inst >= 0]).max()) for name, inst in graph.communicators.items()}

    def of(work: Work) -> float:
        if not isinstance(work, CollectiveCall):
            return 0.0
        return work.repeats * float(work.bytes) * busbw_factor(work.op, members[work.communicator])

    return of


def total(graph: TaskGraph, amount: Callable[[Work], float], names: Callable[[str], bool] = lambda _: True) -> float:
    """Sum over all ranks."""
    return sum(
        program.rank_count * amount(work)
        for program in graph.programs
        for name, work in zip(program.names, program.work, strict=True)
        if names(name)
    )


def same(one: float, other: float) -> bool:
    return one == pytest.approx(other, rel=1e-9, abs=1e-6)


# Order

ITERATIONS = 3


def earlier(program: Program) -> list[int]:
    """Tasks that are before each task of three iterations, as bits of (iteration, task)."""
    count, streams = program.task_count, [program.streams[s].in_order for s in program.stream_of.tolist()]
    of_stream: dict[int, int] = {}
    edges: list[list[int]] = []
    for iteration in range(ITERATIONS):
        for task in range(count):
            waits = [(iteration - lag) * count + other for other, lag in program.dependencies(task) if lag <= iteration]
            stream = int(program.stream_of[task])
            if streams[task]:
                waits += [of_stream[stream]] if stream in of_stream else []
                of_stream[stream] = iteration * count + task
            edges.append(waits)
    found: list[int] = []
    for waits in edges:
        bits = 0
        for other in waits:
            assert other < len(found), "a dependency on a later task"
            bits |= found[other] | 1 << other
        found.append(bits)
    return found


def became(before: Program, after: Program) -> dict[str, str]:
    """The task that each became: itself, or the one before it on its stream that stays, which it is fused with."""
    found, last = {}, {}
    staying = set(after.names)
    for name, stream in zip(before.names, before.stream_of.tolist(), strict=True):
        last[stream] = name if name in staying else last[stream]
        found[name] = last[stream]
    return found


def lost_order(before: Program, after: Program) -> list[tuple[str, str]]:
    """Pairs of tasks of which only the first program has the order."""
    place = {name: number for number, name in enumerate(after.names)}
    image = [place[new] for new in became(before, after).values()]
    one, other = earlier(before), earlier(after)
    lost = []
    for task, had in enumerate(one):
        iteration, number = divmod(task, before.task_count)
        for first in range(task):
            past, earlier_task = divmod(first, before.task_count)
            now, then = iteration * after.task_count + image[number], past * after.task_count + image[earlier_task]
            if had >> first & 1 and now != then and not other[now] >> then & 1:
                lost.append((before.names[earlier_task], before.names[number]))
    return lost


def is_earlier(program: Program, one: str, other: str) -> bool:
    """Whether a task is before another one of the same iteration."""
    bits = earlier(program)[program.names.index(other)]
    return bool(bits >> program.names.index(one) & 1)


# Laws


def check_fuse(found: Case) -> None:
    before, after, counts = found.before, found.after, found.done.changed.counts
    assert same(total(before, flops), total(after, flops))
    assert same(total(before, wire(before)), total(after, wire(before)))
    saved = counts["bytes_saved"] * before.world_size
    assert same(total(before, moved), total(after, moved) + saved)
    assert saved >= 0.0
    assert counts["kernels_saved"] >= counts["launches_saved"] >= 0.0
    launched = [sum(w.launches for p in g.programs for w in p.work if isinstance(w, HostWork)) for g in (before, after)]
    assert same(launched[0], launched[1] + counts["launches_saved"])


def check_decompose(found: Case) -> None:
    before, after = found.before, found.after
    for amount in (flops, moved, wire(before)):
        assert same(total(before, amount), total(after, amount))
    parts = 2 if found.keys["into"] == "halves" else found.keys["into"]
    calls = [sum(isinstance(w, CollectiveCall) for p in g.programs for w in p.work) for g in (before, after)]
    assert calls[1] == calls[0] + (parts - 1) * found.done.changed.counts["collectives"]
    for program in after.programs:
        for name in program.names:
            whole = name.rpartition("_part_")[0] or name.removesuffix("_reduce_scatter")
            assert whole == name or is_earlier(program, name, whole)


def check_recompute(found: Case) -> None:
    before, after = found.before, found.after
    again = {(p.name, name) for p in before.programs for name in found.done.changed.again[p.name]}
    for amount in (flops, moved, wire(before)):
        more = sum(
            p.rank_count * amount(w)
            for p in before.programs
            for n, w in zip(p.names, p.work, strict=True)
            if (p.name, n) in again
        )
        assert same(total(after, amount), total(before, amount) + more)
    needed = NamePattern(found.keys["before"])
    for program in after.programs:
        for name in found.done.changed.again[program.name]:
            copy = f"{name}_again"
            assert is_earlier(program, name, copy)
            assert any(is_earlier(program, copy, user) for user in program.names if needed.fits(user) and user != copy)


def check_move(found: Case) -> None:
    for before, after in zip(found.before.programs, found.after.programs, strict=True):
        assert Counter(zip(before.names, map(repr, before.work), strict=True)) == Counter(
            zip(after.names, map(repr, after.work), strict=True)
        )
    streams = [
        {(p.name, n): p.streams[s].name for p in g.programs for n, s in zip(p.names, p.stream_of.tolist(), strict=True)}
        for g in (found.before, found.after)
    ]
    moved_tasks = [task for task, stream in streams[0].items() if streams[1][task] != stream]
    assert len(moved_tasks) == found.done.changed.counts["tasks_moved"]
    assert {streams[1][task] for task in moved_tasks} == {found.keys["to"]}


def check_shard(found: Case) -> None:
    before, after = found.before, found.after
    size = before.world_size  # "world", and "node" on one node
    joined = {n.rpartition(f"_{found.keys['join']}")[0] for p in after.programs for n in p.names} & {
        n for p in before.programs for n in p.names
    }
    divided, whole = (lambda name: name in joined), (lambda name: name not in joined)
    assert same(total(before, flops, divided), size * total(after, flops, divided))
    assert same(total(before, flops, whole), total(after, flops, whole))
    assert same(total(before, moved), total(after, moved))
    results = total(
        before,
        lambda w: sum(2.0 * n * k.count * k.m * k.n for n, k in kernels(w) if isinstance(k, Gemm)),
        divided,
    )
    assert same(results, found.done.changed.counts["bytes_exchanged"] * before.world_size)
    calls = [
        sum(p.rank_count * w.bytes * w.repeats for p in g.programs for w in p.work if isinstance(w, CollectiveCall))
        for g in (before, after)
    ]
    assert same(float(calls[1]), float(calls[0]) + results)


LAWS = {name: globals()[f"check_{name}"] for name in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_work_and_order_are_kept(kind: str) -> None:
    """Amounts of work as the transformation defines them, and the order of all tasks that stay, over 3 iterations."""
    refused = []

    @_draws
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        found = case(kind, seed)
        refused.append(found is None)
        assume(found is not None)
        LAWS[kind](found)
        for before, after in zip(found.before.programs, found.after.programs, strict=True):
            assert lost_order(before, after) == []

    check()
    assert len(refused) - sum(refused) >= PROGRAMS


@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(st.integers(0, 2**32), st.sampled_from(KINDS))
def test_engine_equals_oracle_on_transformed_programs_and_they_end(seed: int, kind: str) -> None:
    found = case(kind, seed)
    assume(found is not None)
    machine = machine_of(found.before.world_size)
    assert compare(RandomProgram(lower(found.after, machine).program, 2)) == ""
    assert compare(RandomProgram(lower(found.before, machine).program, 2)) == ""


def alone(graph: TaskGraph) -> int:
    """End of three iterations, ps."""
    program = lower(graph, machine_of(graph.world_size)).program
    return int(run(program, RunOptions(max_iterations=3, keep_last=1)).iteration_end_ps[-1])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_fused_kernels_are_never_slower_on_one_rank(seed: int) -> None:
    found = case("fuse", seed)
    assume(found is not None and found.before.world_size == 1)
    assert alone(found.after) <= alone(found.before)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_records_of_a_program_are_the_program(seed: int) -> None:
    graph = draw_graph(SeededChoices(random.Random(seed)))
    again = rebuilt(graph, editable(graph), range(len(graph.programs)))
    for one, other in zip(graph.programs, again.programs, strict=True):
        assert (one.names, one.work, one.sections, one.streams) == (
            other.names,
            other.work,
            other.sections,
            other.streams,
        )
        for key in ("ranks", "stream_of", "dep_ptr", "dep_task", "dep_lag"):
            assert np.array_equal(getattr(one, key), getattr(other, key))
    assert isinstance(editable(graph)[0], EditableProgram)

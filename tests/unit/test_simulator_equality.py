"""Equality of programs, and what re-runs share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import simulator.engine.memory as memory_module
from simulator.engine import ProgramMemory, RunOptions, run
from simulator.equality import same
from simulator.lowered import Activity, Background, ConstantDurations, LoweredGroup, LoweredProgram, phase
from simulator.operators import Marker
from simulator.program import ProgramBuilder


def program(work_ps=7, duration_ps=3, share=1.0):
    builder = ProgramBuilder("g", np.arange(2), ["a", "b"])
    first = builder.task("first", "a", Marker())
    builder.task("meet", "b", Marker(), after=[first])
    group = LoweredGroup.with_rows(
        builder.build(), ConstantDurations(np.array([[duration_ps], [0]])), {1: np.zeros(2, dtype=np.int64)}
    )
    return LoweredProgram((group,), [Activity("meet", (phase(1, work_ps, [0], share),))], 1)


def test_programs_made_twice_are_the_same():
    assert same(program(), program())


@pytest.mark.parametrize("other", [program(work_ps=8), program(duration_ps=4), program(share=0.5)])
def test_one_other_number_makes_another_program(other):
    assert not same(program(), other)


def test_containers_and_types_count():
    assert same({"a": [np.arange(3), (1.0, "x")]}, {"a": [np.arange(3), (1.0, "x")]})
    assert not same({"a": 1}, {"a": 1, "b": 2})
    assert not same([1, 2], [1])
    assert not same(np.arange(3), [0, 1, 2])


def test_runs_with_a_memory_compile_a_program_once(monkeypatch):
    compiled = []
    real = memory_module.compile_units
    monkeypatch.setattr(memory_module, "compile_units", lambda *args: compiled.append(1) or real(*args))
    first, memory = program(), ProgramMemory()
    slower = replace(first, groups=(replace(first.groups[0], durations=ConstantDurations(np.array([[30], [0]]))),))
    ends = [run(each, RunOptions(2, memory=memory)).iteration_end_ps.tolist() for each in (first, slower)]
    assert len(compiled) == 1
    assert ends == [run(each, RunOptions(2)).iteration_end_ps.tolist() for each in (first, slower)]


def test_another_program_is_compiled_anew(monkeypatch):
    compiled = []
    real = memory_module.compile_units
    monkeypatch.setattr(memory_module, "compile_units", lambda *args: compiled.append(1) or real(*args))
    memory = ProgramMemory()
    for each in (program(), program()):
        run(each, RunOptions(1, memory=memory))
    assert len(compiled) == 2


def test_runs_with_a_memory_share_the_table_of_equal_shares_only():
    memory = ProgramMemory()
    first, slower, less = (memory.usage(each) for each in (program(), program(work_ps=8), program(share=0.5)))
    assert slower.usage is first.usage
    assert slower.phases[0][0].work_ps == 8
    assert less.usage is not first.usage
    assert less.usage.tolist() == [0.5]
    beside = replace(program(), background=(Background(np.zeros(1, dtype=np.int64), 0.5),))
    assert memory.usage(beside).usage is not first.usage

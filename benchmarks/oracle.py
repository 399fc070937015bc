"""``python -m benchmarks oracle --programs N --seed S``: the engine against the oracle on N random programs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.random_programs import RandomProgram, SeededChoices, draw_fused_program, draw_program
from benchmarks.rows import Row
from benchmarks.transformer_programs import draw_job
from inputs.errors import DeadlockError
from simulator.engine import EngineRun, IssueByReadiness, RunOptions, run
from simulator.engine.oracle import run_oracle
from simulator.lowered import LoweredProgram

Execute = Callable[[LoweredProgram, RunOptions], EngineRun]


TRANSFORMER_EVERY = 100
"""Number of programs among which one is a transformer."""


def rows(programs: int, seed: int) -> Iterator[Row]:
    """Numbers of programs that were run, deadlocked, and differed (each is named as it is found)."""
    deadlocks = different = 0
    for number in range(programs):
        source = random.Random(f"{seed}.{number}")  # noqa: S311 - reproducible programs, no secrets
        drawn = _drawn(SeededChoices(source), number)
        difference = compare(drawn)
        deadlocks += difference == "deadlock"
        if difference not in {"", "deadlock"}:
            different += 1
            print(f"program {seed}.{number}: {difference}", flush=True)
    yield Row("oracle_programs", programs, "programs")
    yield Row("oracle_deadlocks", deadlocks, "programs")
    yield Row("oracle_different", different, "programs", "<= 0")


def _drawn(choices: SeededChoices, number: int) -> RandomProgram:
    """Programs of all kinds in turn; those of transformers, which are larger, less often."""
    if number % TRANSFORMER_EVERY == TRANSFORMER_EVERY - 1:
        return draw_job(choices).random_program()
    if number % 5 == 4:
        return draw_fused_program(choices)
    return draw_program(choices, controlled=number % 4 == 3, loaded=number % 3 == 2)


def compare(drawn: RandomProgram, engine: Execute = run) -> str:
    """First difference of ``engine`` and oracle: empty if there is none, ``deadlock`` if both deadlock."""
    options = RunOptions(drawn.iterations, keep_last=None, controllers={"readiness": IssueByReadiness()})
    expected = _outcome(run_oracle, drawn.program, options)
    got = _outcome(engine, drawn.program, options)
    if isinstance(expected, str) or isinstance(got, str):
        return "deadlock" if expected == got else f"oracle: {expected!s:.40}, engine: {got!s:.200}"
    return _first_difference(expected, got)


def _outcome(execute: Execute, program: LoweredProgram, options: RunOptions) -> EngineRun | str:
    try:
        return execute(program, options)
    except DeadlockError:
        return "deadlock"
    except (RuntimeError, KeyError, IndexError) as error:  # a broken engine may fail in its own way
        return repr(error)


def _first_difference(expected: EngineRun, got: EngineRun) -> str:
    for name in ("iteration_end_ps", "rank_end_ps", "rank_waiting_ps"):
        if not np.array_equal(getattr(expected, name), getattr(got, name)):
            return name
    for one, two in zip(expected.records, got.records, strict=True):
        for number, (times, others) in enumerate(zip(one.groups, two.groups, strict=True)):
            for name in ("start_ps", "end_ps", "waiting_ps"):
                if not np.array_equal(getattr(times, name), getattr(others, name)):
                    return f"iteration {one.iteration}, group {number}: {name}"
        for name in ("begin_ps", "end_ps"):
            if not np.array_equal(getattr(one.activities, name), getattr(two.activities, name)):
                return f"iteration {one.iteration}: activities' {name}"
    return ""

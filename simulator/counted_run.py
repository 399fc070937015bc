"""Runs of the engine that end with a time or one clear message."""

from __future__ import annotations

from inputs.errors import InputError, ModelRangeError
from simulator.countable import require_countable_run
from simulator.engine import EngineRun, RunOptions, run
from simulator.lowered import LoweredProgram


def counted_run(program: LoweredProgram, options: RunOptions) -> EngineRun:
    """Execute a program as `simulator.engine.run` does, if its times can be counted.

    Raises:
        InputError: tasks take longer than can be counted, or share resources with so many that their speed rounds to
            nothing.
        DeadlockError: nothing can go on though tasks are waiting.
        ProgramError: the program contradicts itself.
    """
    longest, seconds = require_countable_run(program, options.max_iterations)
    try:
        return run(program, options)
    except (ModelRangeError, OverflowError) as error:
        raise InputError(
            f"the run cannot be counted in picoseconds: {error}",
            given=f"{longest} takes {seconds:,.3g} s alone",
            expected="faster links and kernels, or less traffic of other jobs (network.background)",
        ) from None

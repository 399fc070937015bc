"""``python -m benchmarks engine``: how fast the engine is, each case in a fresh process.

Timed is `simulator.engine.run`, from the lowered program to start, end and waiting of all rank-tasks in memory. SimPy's
own rate is 1,000 processes that each yield ``timeout(1)`` 1,000 times, best of 5, in the process of the case it is
compared with.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Generator, Iterator

import simpy

from benchmarks.engine_programs import global_program, grouped_program
from benchmarks.rows import Row, in_fresh_process
from simulator.engine import RunOptions, run
from simulator.lowered import LoweredProgram

_REPEATS = 3


def rows() -> Iterator[Row]:
    """The engine's rows; wall times are the best of three."""
    case = in_fresh_process("benchmarks.engine", ["4096"])
    yield Row("engine_4096_wall_s", case["wall_s"], "s", "<= 0.6")
    yield Row("engine_4096_peak_rss_bytes", case["peak_rss_bytes"], "B", f"<= {2**30}")
    yield Row("engine_rank_tasks_per_s", case["rank_tasks_per_s"], "1/s")
    yield Row("simpy_events_per_s", case["simpy_per_s"], "1/s")
    yield Row("engine_ratio_to_simpy", case["rank_tasks_per_s"] / case["simpy_per_s"], "", ">= 30")
    case = in_fresh_process("benchmarks.engine", ["65536"])
    yield Row("engine_65536_wall_s", case["wall_s"], "s", "<= 2")
    yield Row("engine_65536_peak_rss_bytes", case["peak_rss_bytes"], "B", f"<= {4 * 2**30}")
    case = in_fresh_process("benchmarks.engine", ["groups"])
    yield Row("engine_groups_wall_s", case["wall_s"], "s", "<= 8")
    yield Row("engine_groups_peak_rss_bytes", case["peak_rss_bytes"], "B")


def _measure(case: str) -> dict[str, float]:
    if case == "groups":
        return _time(grouped_program(4096, 10), 10, 1)
    if case == "65536":
        return _time(global_program(65536, 1), 1, _REPEATS)
    return _time(global_program(4096, 10), 10, _REPEATS) | {"simpy_per_s": _simpy_rate()}


def _time(program: LoweredProgram, iterations: int, repeats: int) -> dict[str, float]:
    walls = []
    for _ in range(repeats):
        begin = time.perf_counter()
        result = run(program, RunOptions(iterations, keep_last=None))
        walls.append(time.perf_counter() - begin)
        del result
    rank_tasks = iterations * sum(g.task_count * g.rank_count for g in program.groups)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"wall_s": min(walls), "rank_tasks_per_s": rank_tasks / min(walls), "peak_rss_bytes": float(peak)}


def _simpy_rate(processes: int = 1000, timeouts: int = 1000) -> float:
    """SimPy's process events per second, best of 5."""

    def ticking(env: simpy.Environment) -> Generator[simpy.Event, object, None]:
        for _ in range(timeouts):
            yield env.timeout(1)

    rates = []
    for _ in range(5):
        env = simpy.Environment()
        for _ in range(processes):
            env.process(ticking(env))
        begin = time.perf_counter()
        env.run()
        rates.append(processes * timeouts / (time.perf_counter() - begin))
    return max(rates)


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1])))

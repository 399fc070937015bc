"""``python -m benchmarks engine``: how fast the engine is, each case in a fresh process.

Timed is `simulator.engine.run`, from the lowered program to start, end and waiting of all rank-tasks in memory.

Times are processor times of the first run in the process: they include the page faults of some 130 MB of results, which
on a virtual machine cost more than the computation when the host has to find the memory. The ratio to SimPy compares
best of 5 with best of 5 (1,000 processes that each yield ``timeout(1)`` 1,000 times, in the same process); for it the
allocator keeps freed memory, so that it compares computation with computation.
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

_REPEATS = 5
_KEEP_FREED_MEMORY = {
    "MALLOC_TRIM_THRESHOLD_": str(2**33),
    "MALLOC_MMAP_THRESHOLD_": str(2**33),
    "MALLOC_TOP_PAD_": str(2**28),
}
"""Settings of glibc's allocator; other C libraries ignore them."""


def rows() -> Iterator[Row]:
    """The engine's rows."""
    case = in_fresh_process("benchmarks.engine", ["4096"])
    yield Row("engine_4096_cpu_s", case["first_s"], "s", "<= 0.6")
    yield Row("engine_4096_peak_rss_bytes", case["peak_rss_bytes"], "B", f"<= {2**30}")
    case = in_fresh_process("benchmarks.engine", ["ratio"], _KEEP_FREED_MEMORY)
    yield Row("engine_4096_best_of_5_s", case["best_s"], "s")
    yield Row("engine_rank_tasks_per_s", case["rank_tasks_per_s"], "1/s")
    yield Row("simpy_events_per_s", case["simpy_per_s"], "1/s")
    yield Row("engine_ratio_to_simpy", case["rank_tasks_per_s"] / case["simpy_per_s"], "", ">= 30")
    case = in_fresh_process("benchmarks.engine", ["65536"])
    yield Row("engine_65536_cpu_s", case["first_s"], "s", "<= 2")
    yield Row("engine_65536_peak_rss_bytes", case["peak_rss_bytes"], "B", f"<= {4 * 2**30}")
    case = in_fresh_process("benchmarks.engine", ["groups"])
    yield Row("engine_groups_cpu_s", case["first_s"], "s", "<= 8")
    yield Row("engine_groups_peak_rss_bytes", case["peak_rss_bytes"], "B")


def _measure(case: str) -> dict[str, float]:
    if case == "groups":
        return _time(grouped_program(4096, 10), 10, 1)
    if case == "65536":
        return _time(global_program(65536, 1), 1, 1)
    if case == "4096":
        return _time(global_program(4096, 10), 10, 1)
    return _time(global_program(4096, 10), 10, _REPEATS) | {"simpy_per_s": _simpy_rate()}


def _time(program: LoweredProgram, iterations: int, repeats: int) -> dict[str, float]:
    taken = []
    for _ in range(repeats):
        begin = time.process_time()
        result = run(program, RunOptions(iterations, keep_last=None))
        taken.append(time.process_time() - begin)
        del result
    rank_tasks = iterations * sum(g.task_count * g.rank_count for g in program.groups)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "first_s": taken[0],
        "best_s": min(taken),
        "rank_tasks_per_s": rank_tasks / min(taken),
        "peak_rss_bytes": float(peak),
    }


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
        begin = time.process_time()
        env.run()
        rates.append(processes * timeouts / (time.process_time() - begin))
    return max(rates)


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1])))

"""``python -m benchmarks costs [ROW]``: processor time of large jobs, each command in a process of its own.

A row's name may be given, or the beginning of several. Ratios compare with a limit: bytes that must be touched over the
bandwidth of a copy in this process. Of a run these are the columns of its timeline, 40 bytes a row, written once and
read once; of traces the bytes of their files.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.commands import cost_of, with_bytecode
from benchmarks.rows import Row, in_fresh_process

PER_NODE = 8 * 512
"""Samples of the global batch for each node of 8 GPUs."""
COPIED_BYTES = 256 << 20
ROW_BYTES = 40
"""Bytes of a row of a timeline in memory: four int32, three int64."""
WHAT_IFS = 12


def rows(name: str | None) -> Iterator[Row]:
    """The rows of every job, or of the jobs whose names begin so."""
    for job, measured in JOBS.items():
        if name is None or job.startswith(name) or name.startswith(job):
            yield from measured()


def zionex(nodes: int, *settings: str, batch: int = PER_NODE) -> list[str]:
    """``zionex_a_128`` on other nodes, with ``batch`` samples a node."""
    changed = [f"nodes={nodes}", f"workload.global_batch_size={batch * nodes}", *settings]
    return ["zionex_a_128", *(argument for setting in changed for argument in ("--set", setting))]


def _run_4096() -> Iterator[Row]:
    yield from _run("run_4096", ["run", *zionex(512)], "<= 2.5", "")


def _run_65536() -> Iterator[Row]:
    yield from _run("run_65536", ["run", *zionex(8192, batch=64)], "<= 10", "<= 2e9")


def _run(name: str, command: list[str], cpu_bound: str, memory_bound: str) -> Iterator[Row]:
    """A run with its page and timeline, without trying settings; the time with them beside."""
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        cost = cost_of([*command, "--no-levers", "--out", f"{folder}/run"])
        whole = cost_of([*command, "--out", f"{folder}/run"])
        timeline_rows = pq.read_metadata(f"{folder}/run/timeline.parquet").num_rows
        page_bytes = Path(folder, "run", "report.html").stat().st_size
    yield Row(f"{name}_cpu_s", cost.cpu_s, "s", cpu_bound)
    yield Row(f"{name}_with_levers_cpu_s", whole.cpu_s, "s")
    yield Row(f"{name}_over_copies", cost.cpu_s / copy_s(2 * ROW_BYTES * timeline_rows), "")
    yield Row(f"{name}_peak_rss_bytes", cost.peak_rss_bytes, "B", memory_bound)
    yield Row(f"{name}_report_bytes", page_bytes, "B", "<= 12e6")


def _table_row_wise() -> Iterator[Row]:
    command = ["run", *zionex(512, "workload.sharding.planner=table_row_wise")]
    yield from _run("table_row_wise_4096", command, "<= 25", "")


def _infeasible() -> Iterator[Row]:
    """Sixteen times the batch: inputs in flight do not fit, on any number of nodes."""
    with tempfile.TemporaryDirectory() as folder:
        cost = cost_of(["run", *zionex(512, batch=16 * PER_NODE), "--out", f"{folder}/run"], code=3)
    yield Row("infeasible_4096_cpu_s", cost.cpu_s, "s", "<= 5")


def _plan_compare() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        cost = cost_of(["plan", *zionex(512), "--compare", "--out", f"{folder}/plan"])
    yield Row("plan_compare_4096_cpu_s", cost.cpu_s, "s", "<= 60")


def _what_if() -> Iterator[Row]:
    found = in_fresh_process("benchmarks.costs", [], with_bytecode())
    yield Row("what_if_1024_first_cpu_s", found["first_s"], "s")
    yield Row("what_if_1024_cpu_s", found["each_s"], "s", "<= 0.2")


def _chakra() -> Iterator[Row]:
    """A replay of 4,096 traces that differ in times, when the public trace is here."""
    from benchmarks.replays import TWO_SWITCHES
    from benchmarks.traces import CHAKRA, RANKS, ROOT, jittered_copies

    if not (ROOT / CHAKRA).exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        jittered_copies(ROOT / CHAKRA, Path(folder), RANKS)
        files = sorted(Path(folder).glob("*.et"))
        file_bytes = sum(file.stat().st_size for file in files)
        cost = cost_of(["replay", *map(str, files), "--cluster", str(TWO_SWITCHES)])
    yield Row("chakra_4096_cpu_s", cost.cpu_s, "s", "<= 1.2")
    yield Row("chakra_4096_over_copies", cost.cpu_s / copy_s(file_bytes), "")
    yield Row("chakra_4096_peak_rss_bytes", cost.peak_rss_bytes, "B")


JOBS: dict[str, Callable[[], Iterator[Row]]] = {
    "what_if_1024": _what_if,
    "chakra_4096": _chakra,
    "run_4096": _run_4096,
    "run_65536": _run_65536,
    "infeasible_4096": _infeasible,
    "table_row_wise_4096": _table_row_wise,
    "plan_compare_4096": _plan_compare,
}
"""Jobs by the beginning of their rows' names, short ones first."""


def copy_s(touched_bytes: float) -> float:
    """Seconds in which a copy touches so many bytes."""
    return touched_bytes / copy_bandwidth()


@cache
def copy_bandwidth() -> float:
    """Bytes per second that a copy in memory reads and writes, on one core; the best of 5."""
    source, target = np.ones(COPIED_BYTES, dtype=np.uint8), np.zeros(COPIED_BYTES, dtype=np.uint8)
    taken = []
    for _ in range(5):
        begin = time.process_time()
        np.copyto(target, source)
        taken.append(time.process_time() - begin)
    return 2 * COPIED_BYTES / min(taken)


def _what_ifs() -> dict[str, float]:
    """Processor time of the first run on 1,024 GPUs, and of each with another value of a key beside its plan."""
    import dlrmsim

    base = [f"nodes={128}", f"workload.global_batch_size={128 * PER_NODE}"]
    factors = [f"{factor:.3f}" for factor in np.linspace(1.1, 2.0, WHAT_IFS)]
    begin = time.process_time()
    question = dlrmsim.what_if("zionex_a_128", settings=base)
    taken = [time.process_time() - begin]
    for factor in factors:
        begin = time.process_time()
        answer = question.ask(f"cluster.node.cpu.host_time_factor={factor}")
        taken.append(time.process_time() - begin)
        if answer.error is not None:
            raise answer.error
    return {"first_s": taken[0], "each_s": sum(taken[1:]) / WHAT_IFS}


if __name__ == "__main__":
    print(json.dumps(_what_ifs()))

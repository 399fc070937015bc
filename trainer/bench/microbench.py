"""Times kernels and collectives on every rank: ``python -m trainer.bench.microbench``, started as ranks that train.

The file named in place of a scenario is a `BenchPlan`. All ranks time one case at the same moment, so that they share
the machine as they do when they train. Rounds go through all cases one after the other; a fixed piece of work between
cases measures how much slower the machine is than at its best (`Slowdown`), and each time is divided by that. The lower
quartile of a round's calls counts: other processes only ever add time. For the same reason a rank of one thread counts
its CPU time, not wall time: kernels do not wait. A GPU runs calls one after the other without the host between them (a
CUDA graph), and events measure how long they take.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from trainer.bench.cases import KernelCase, cases
from trainer.bench.plans import FEWEST_CASES, BenchPlan
from trainer.exchange import ALL_GATHER, REDUCE_SCATTER, renamed
from trainer.process.rank import run_rank
from trainer.process.runs import Run

EVICTED_BYTES = 2**24
"""Touched between calls that find their data cold: many times a core's own caches."""
LEAST_CALLS, MOST_CALLS = 3, 40
COLLECTIVES = ("all_reduce", "all_to_all", "all_gather", "reduce_scatter")
GRAPH_CALLS, REPLAYS = 8, 8
"""Calls of a case, each on data of its own, that a GPU runs without the host between them, and how often it does while
the host starts what is next: a start takes it some 10 us."""
KERNELS_SHARE = 0.6
"""Fraction of the time for kernels if collectives are timed, too."""
INTERRUPTED = 1.5
"""Wall time over the best one from which on a `Slowdown` was interrupted, which says nothing of the core."""
LEAST_ROUNDS = 1.5
"""Rounds, on average, that the number of cases leaves time for; more sizes determine costs better than more rounds."""
PATIENCE_CALLS = 2
"""Calls before those that count."""


def measure(run: Run, rank: int, device: torch.device) -> None:
    """Time everything and write ``rank{r}.json``: rows with a time per round."""
    if run.out is None:
        raise ValueError("rows need a folder")
    on_gpu = device.type == "cuda"
    with torch.no_grad(), device if on_gpu else nullcontext():  # a default device costs each call some host time
        rows = _rows(BenchPlan.read(run.scenario), on_gpu=on_gpu)
    (run.out / f"rank{rank}.json").write_text(json.dumps(rows), encoding="utf-8")


def _rows(plan: BenchPlan, *, on_gpu: bool) -> list[dict[str, Any]]:
    threads, ranks = torch.get_num_threads(), dist.get_world_size()
    kernels = [case for case in cases(plan.seed, plan.cases, plan.largest) if not plan.kinds or case.kind in plan.kinds]
    rows: list[dict[str, Any]] = [
        {
            "kind": case.kind,
            **case.sizes,
            "evicted_bytes": EVICTED_BYTES if case.cold and not on_gpu else 0,
            "threads": threads,
            "ranks": ranks,
            "times_s": [],
        }
        for case in kernels
    ]
    calls = [(op, size) for op in COLLECTIVES for size in plan.collective_bytes] if ranks > 1 else []
    measured = ("times_s", "issue_s", "cores")
    rows += [
        {"kind": op, "bytes": size, "threads": threads, "ranks": ranks, **{name: [] for name in measured}}
        for op, size in calls
    ]
    slowdown = None if on_gpu else Slowdown()
    end = time.perf_counter() + plan.seconds
    begin, most = end - plan.seconds, len(kernels)
    fewest = FEWEST_CASES * most // max(1, plan.cases)
    for number in range(plan.rounds):
        for place, (case, row) in enumerate(zip(kernels, rows, strict=False)):
            if place == fewest and not number:
                each_s = _most(time.perf_counter() - begin) / fewest
                most = max(fewest, int(plan.seconds * (KERNELS_SHARE if calls else 1.0) / LEAST_ROUNDS / each_s))
            if place >= most or (number and _most(time.perf_counter() > end)):
                break
            slower = slowdown.now() if slowdown else 1.0
            row["times_s"].append((_time_on_gpu if on_gpu else _time)(case, plan.case_s) / slower)
        for (op, size), row in zip(calls, rows[len(kernels) :], strict=True):
            if number and _most(time.perf_counter() > end):
                break
            for name, value in _time_collective(op, size, plan.case_s, on_gpu=on_gpu).items():
                row[name].append(value)
    return [row for row in rows if row["times_s"]]


class Slowdown:
    """Slowness of the machine at a moment: time of a fixed product and gather."""

    def __init__(self) -> None:
        """Make its data."""
        self._a = torch.randn(256, 256)
        self._table, self._index = torch.zeros(2**16, 64), torch.randint(2**16, (2**13,))
        self._best = np.inf
        self._clock = _clock()

    def now(self) -> float:
        """Time of the work now over its best so far; at least 1."""
        taken = float(np.quantile([self._once() for _ in range(8)], 0.25))
        self._best = min(self._best, taken)
        interrupted = self._clock is time.perf_counter and taken > INTERRUPTED * self._best
        return 1.0 if interrupted else taken / self._best

    def _once(self) -> float:
        begin = self._clock()
        self._a.mm(self._a)
        self._table.index_select(0, self._index)
        return self._clock() - begin


def _clock() -> Callable[[], float]:
    """Seconds of this thread's own where it is the only one that works."""
    return time.thread_time if torch.get_num_threads() == 1 else time.perf_counter


def _time(case: KernelCase, budget_s: float) -> float:
    """The lower quartile of a case's calls, seconds."""
    calls = case.make()
    evicted = torch.zeros(EVICTED_BYTES // 4) if case.cold else None
    dist.barrier()
    for _ in range(PATIENCE_CALLS):
        next(calls)()
    taken: list[float] = []
    clock = _clock()
    while len(taken) < LEAST_CALLS or (sum(taken) < budget_s and len(taken) < MOST_CALLS):
        call = next(calls)
        if evicted is not None:
            evicted.add_(1.0)
        begin = clock()
        call()
        taken.append(clock() - begin)
    return float(np.quantile(taken, 0.25))


def _time_on_gpu(case: KernelCase, budget_s: float) -> float:
    """The same of calls that a GPU runs without the host between them, none on what its cache has of the one before."""
    drawn = case.make()
    some = [next(drawn) if case.cold else next(case.make()) for _ in range(GRAPH_CALLS)]
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):  # what libraries set up at first use cannot be captured
        for call in some:
            call()
    torch.cuda.current_stream().wait_stream(beside)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # NCCL's own threads ask for events meanwhile
        for call in some:
            call()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    taken: list[float] = []
    for _ in range(PATIENCE_CALLS):
        graph.replay()
    while len(taken) < LEAST_CALLS or (sum(taken) * GRAPH_CALLS * REPLAYS < budget_s and len(taken) < MOST_CALLS):
        begin.record()
        for _ in range(REPLAYS):
            graph.replay()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end) / 1e3 / (GRAPH_CALLS * REPLAYS))
    return float(np.quantile(taken, 0.25))


def _time_collective(op: str, size: int, budget_s: float, *, on_gpu: bool) -> dict[str, float]:
    """Time of a collective from its issue on, of the issue, and the CPU time of all of it over its time.

    On a core that a rank shares with its communication threads these begin, and may end, before the call returns.
    """
    start = _collective(op, size)

    def wait(work: dist.Work) -> None:
        work.wait()
        if on_gpu:  # until now its stream alone waits
            torch.cuda.synchronize()

    for _ in range(PATIENCE_CALLS):
        wait(start())
    dist.barrier()
    begin = time.perf_counter()
    wait(start())
    calls = int(_most(min(max(budget_s / (time.perf_counter() - begin), LEAST_CALLS), MOST_CALLS)))
    dist.barrier()
    issued, taken = [], []
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(calls):
        begin = time.perf_counter()
        work = start()
        middle = time.perf_counter()
        wait(work)
        issued.append(middle - begin)
        taken.append(time.perf_counter() - begin)
    cores = (time.process_time() - cpu) / (time.perf_counter() - wall)
    return {"times_s": float(np.quantile(taken, 0.25)), "issue_s": float(np.median(issued)), "cores": cores}


def _most(value: float) -> float:
    """The largest value over ranks; for booleans, whether any is true."""
    if dist.get_world_size() == 1:
        return value
    most = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    return float(most.item())


def _collective(op: str, size: int) -> Callable[[], dist.Work]:
    """A collective of nccl-tests' ``size`` bytes, fp32, started when called."""
    ranks = dist.get_world_size()
    part = max(1, size // (4 * ranks))
    whole, shard = torch.zeros(part * ranks), torch.zeros(part)
    other, even = torch.zeros(part * ranks), [part] * ranks
    starts: dict[str, Callable[[], Any]] = {
        "all_reduce": lambda: dist.all_reduce(whole, async_op=True),
        "all_to_all": lambda: dist.all_to_all_single(other, whole, even, even, async_op=True),
        "all_gather": lambda: renamed(*ALL_GATHER)(whole, shard, async_op=True),
        "reduce_scatter": lambda: renamed(*REDUCE_SCATTER)(shard, whole, async_op=True),
    }
    return starts[op]


if __name__ == "__main__":
    sys.exit(run_rank(measure))

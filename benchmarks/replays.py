"""``python -m benchmarks replays``: replays of public traces against what was measured, and what-ifs of them.

Needs the public traces (`dlrmsim fetch-traces`), where DLRMSIM_TRACES says or beside the checkout.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.rows import Row
from benchmarks.traces import ROOT
from simulator.collective_calls import CollectiveCall

if TYPE_CHECKING:
    from simulator.lowering import Machine
    from traces.imported import Imported
    from traces.replay import ReplayJob

TWO_SWITCHES = Path(__file__).resolve().parent / "two_switches.yaml"
GIB = 2.0**30
PS_PER_US = 1e6


def rows() -> Iterator[Row]:
    """A block of rows for each trace that is here."""
    torchrec, a100, chakra = (sorted(ROOT.glob(pattern)) for pattern in PATTERNS)
    if torchrec:
        yield from _torchrec(torchrec)
    if a100:
        yield from _a100(a100)
    if chakra:
        yield from _chakra(chakra)


PATTERNS = ("dlrm_8xV100_torchrec/dlrm_*/*.gz", "a100_8ranks_rec_rank3/*.gz", "chakra_dlrm_64/identical/*.et")


def machine(cluster: str | Path, ranks: int) -> Machine:
    """A cluster without launch times: those of a trace are measured."""
    from hardware_specs.loader import load_cluster
    from simulator.lowering import build_machine

    return build_machine(load_cluster(cluster), ranks, launch_s=0.0)


def _torchrec(files: Sequence[Path]) -> Iterator[Row]:
    """Collective ends predicted from arrivals and the network, everything else as measured."""
    from traces.formats import import_traces
    from traces.replay import job_of, replayed

    measured = import_traces(files)
    found = replayed(job_of(measured), machine("dgx1_v100_32", 8))
    pairs = list(zip(found.steps, measured.steps, strict=True))
    worst = max(abs(own.end_ps - was.end_ps) / (was.end_ps - was.start_ps) for own, was in pairs)
    off_us = np.abs(ends_us(found) - ends_us(measured))[1:]
    yield Row("torchrec_step_end_worst_pct", 100 * worst, "%", "<= 3")
    yield Row("torchrec_collective_end_median_us", float(np.median(off_us)), "us", "<= 50")
    yield Row("torchrec_collective_end_worst_us", float(off_us.max()), "us")
    same = np.array_equal(np.argsort(waiting_of(found)), np.argsort(waiting_of(measured)))
    yield Row("torchrec_waiting_ranked_as_measured", float(same), "", ">= 1")


def ends_us(imported: Imported) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Ends of all collectives."""
    if imported.measured is None or imported.measured.result.records[0].activities is None:
        return np.zeros(0)
    return np.asarray(imported.measured.result.records[0].activities.end_ps / PS_PER_US)


def waiting_of(imported: Imported) -> list[int]:
    """Waiting of each group of ranks in all collectives but the first, ps."""
    if imported.measured is None:
        return []
    return [int(own.waiting_rows_ps[1:].sum()) for own in imported.measured.result.records[0].groups]


def _a100(files: Sequence[Path]) -> Iterator[Row]:
    """One rank of eight: as measured, waiting apart, half precision."""
    from traces.formats import import_traces
    from traces.replay import job_of, replayed
    from traces.replay.absent import with_late_absent_ranks
    from traces.replay.precision import in_precision

    job = job_of(import_traces(files))
    half = {"all_to_all": "fp16"}
    cases = {
        "measured": job,
        "late": with_late_absent_ranks(job),
        "fp16": in_precision(job, half),
        "fp16_late": in_precision(with_late_absent_ranks(job), half),
    }
    for name, case in cases.items():
        found = mean_parts(replayed(case))
        for part in ("step_s", "exposed_comm_s", "exposed_waiting_s"):
            yield Row(f"a100_{name}_{part.removesuffix('_s')}_ms", 1e3 * found[part], "ms")


def mean_parts(imported: Imported) -> dict[str, float]:
    """Means over steps and traced ranks."""
    from traces.analysis import analyse_trace
    from traces.replay.record import mean_step

    return {} if imported.measured is None else mean_step(analyse_trace(imported, imported.measured).steps)


def _chakra(files: Sequence[Path]) -> Iterator[Row]:
    """64 ranks between the bound and the serial sum."""
    from traces.formats import import_traces
    from traces.replay import job_of, replayed

    job = job_of(import_traces(files))
    found = replayed(job, machine(TWO_SWITCHES, 64))
    least = replayed(bounded(job))
    lengths = collective_seconds(found)
    yield Row("chakra_64_all_to_all_us", 1e6 * lengths["all_to_all"], "us")
    yield Row("chakra_64_all_to_all_bound_us", 1e6 * bound_s("all_to_all", 16 * 2.0**20), "us")
    yield Row("chakra_64_all_reduce_us", 1e6 * lengths["all_reduce"], "us")
    yield Row("chakra_64_all_reduce_bound_us", 1e6 * bound_s("all_reduce", 12.5 * 2.0**20), "us")
    yield Row("chakra_64_bound_ms", makespan_ms(least), "ms")
    yield Row("chakra_64_ms", makespan_ms(found), "ms", f">= {makespan_ms(least):.6g}")
    yield Row("chakra_64_serial_sum_ms", serial_ms(job, found), "ms", f">= {makespan_ms(found):.6g}")


def bound_s(op: str, size_bytes: float, nodes: int = 8, local: int = 8) -> float:
    """Least time of a collective on ``two_switches.yaml``: the slower of its two links carries what it must.

    all_to_all: (n - local) / n of a rank's bytes leave its node through its port. all_reduce: each node sends
    2 (nodes - 1) / nodes of the bytes through its ports, each rank 2 (local - 1) / local through the switch.
    """
    ranks, port, near = nodes * local, 25 * GIB, 300 * GIB
    if op == "all_to_all":
        return max(size_bytes * (ranks - local) / ranks / port, size_bytes * (local - 1) / ranks / near)
    return max(2 * size_bytes * (nodes - 1) / nodes / (local * port), 2 * size_bytes * (local - 1) / local / near)


def bounded(job: ReplayJob) -> ReplayJob:
    """The job whose transfers take the bound."""
    calls = [w for w in job.graph.programs[0].work if isinstance(w, CollectiveCall)]
    least = [round(bound_s(call.op, float(np.max(call.bytes))) * 1e12) for call in calls]
    return replace(job, transfers_ps={("world", n): np.array([ps], dtype=np.int64) for n, ps in enumerate(least)})


def collective_seconds(imported: Imported) -> dict[str, float]:
    """The longest transfer of each operation."""
    found: dict[str, float] = {}
    if imported.measured is not None:
        times = imported.measured.result.records[0].groups[0]
        transfers = (times.end_ps - times.start_ps - times.waiting_ps).max(axis=1) / 1e12
        for work, length in zip(imported.graph.programs[0].work, transfers.tolist(), strict=True):
            if isinstance(work, CollectiveCall):
                found[work.op] = max(found.get(work.op, 0.0), length)
    return found


def serial_ms(job: ReplayJob, found: Imported) -> float:
    """All work and all transfers of a rank, one after the other."""
    compute = float(job.durations_ps[0].sum(axis=0).max()) / 1e12
    lengths = collective_seconds(found)
    return 1e3 * (compute + sum(lengths[w.op] for w in job.graph.programs[0].work if isinstance(w, CollectiveCall)))


def makespan_ms(imported: Imported) -> float:
    """Makespan of the whole job."""
    return 0.0 if imported.measured is None else float(imported.measured.result.iteration_end_ps[0]) / 1e9

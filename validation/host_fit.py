"""From timed kernels and collectives of this machine to a cluster that is this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np
import yaml

from hardware_specs.cpu_kernels import CpuKernels, Followed, KernelCosts
from hardware_specs.loader import load_library
from hardware_specs.types import Cluster
from scenarios.progress import Progress
from simulator.compute.cpu_amounts import Caches
from validation.collective_work import CollectiveWork, calls_lost, thread_costs
from validation.cpu_fit import KERNELS, KernelRow, Row
from validation.fits.fitting import fit_collectives
from validation.host_iterations import TrainedJob
from validation.in_situ import PartRow, alone
from validation.kernel_costs import expected_s, fit
from validation.suites.collectives import MeasuredCollective, Predictor
from validation.yardstick import FULLY

Pieces = Mapping[str, float]
"""Seconds of each piece of the trainer's yardstick."""

LINK_BYTES_PER_S = 10e9
"""What fractions of the way between ranks count from; what is fitted is the product."""
LEAST_SHARE = 0.1
"""Of a collective's time that is left at least when the time of issuing it is taken away."""
USUAL_COSTS = Path(str(files("validation") / "hosts" / "usual_costs.yaml"))
"""Which costs others are held against where few rows tell them."""
EQUAL, KEPT = 0.5, (0.05, 0.95)
"""Of a core that two who want it have when nothing else is known, and what is believed of a measurement."""
LIBRARY = "gloo"
"""What runs the collectives that are timed."""
SMALL_BYTES = 65536
"""Collectives up to this size take no longer to issue for their size."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What the system tells of the machine.

    Attributes:
        name: of the spec.
        cpu: the CPU's own name.
        vendor: as in specs.
        cores: cores that may be used.
        clock_hz: nominal clock.
        core_cache_bytes: last cache that a core has for itself.
        shared_cache_bytes: cache that cores share, as far as it is this machine's.
        memory_bytes: memory.
        most_ranks: ranks that it may hold.
        source: what measured it, when, with which versions.
        shared_cache_note: how it is known how much of it is.
    """

    name: str
    cpu: str
    vendor: str
    cores: int
    clock_hz: float
    core_cache_bytes: float
    shared_cache_bytes: float
    memory_bytes: float
    most_ranks: int
    source: str
    shared_cache_note: str = ""

    @property
    def caches(self) -> Caches:
        """The caches of the machine."""
        return Caches(self.core_cache_bytes, self.shared_cache_bytes)


@dataclass(frozen=True, slots=True)
class Trained:
    """Jobs that were trained.

    Attributes:
        collectives: what each job's collectives asked of the cores of a rank.
        yardstick_s: usual times of the yardstick's pieces meanwhile.
        jobs: the jobs themselves.
        issue_s: what a collective takes of the thread that issues it and waits for it.
        together: of lookups of all ranks at once (`hardware_specs.cpu_kernels.CpuKernels.lookups_together`).
        passing_s: between cores that are near each other, and far, likewise.
        followed: how closely they go with the yardstick.
    """

    collectives: Sequence[CollectiveWork]
    yardstick_s: Pieces
    jobs: Sequence[TrainedJob]
    issue_s: float = 0.0
    together: float = 1.0
    passing_s: tuple[float, float] | None = None
    followed: Followed = FULLY

    @property
    def parts(self) -> list[PartRow]:
        """Parts of the jobs' iterations."""
        return [part for job in self.jobs for part in job.parts]


def timed_alone(rows: Sequence[Row], threads: int) -> list[PartRow]:
    """The kernels that were timed alone with so many threads."""
    timed = [row for row in rows if row["threads"] == threads and row["kind"] in KERNELS]
    return [alone(KernelRow.of(row), row["ranks"]) for row in timed]


def fit_kernels(
    rows: Sequence[Row],
    threads: int,
    facts: HostFacts,
    trained: Trained | None = None,
) -> CpuKernels:
    """Costs of kernels for a number of threads.

    Args:
        rows: kernels and collectives timed alone.
        threads: of a rank.
        facts: of the machine.
        trained: jobs; without any, kernels cost what they cost alone and the host nothing.
    """
    costs = fit([*timed_alone(rows, threads), *(trained.parts if trained else ())], facts.caches, usual_costs(threads))
    share, posting_s, moving = _collective_cores(rows, threads), 0.0, 0.0
    lost_s, lost_share = calls_lost(trained.collectives) if trained else (0.0, 0.0)
    posting_kept, moving_kept = (kept_of_cores(rows, facts.cores, large=large) for large in (False, True))
    if trained:
        posting_s, moving = thread_costs(trained.collectives) if trained.collectives else (0.0, 0.0)
        costs["host"] = with_issue(costs.get("host"), trained.issue_s, issue_byte_s(rows))
    return CpuKernels.model_validate(
        {
            "threads": threads,
            "source": facts.source,
            "grade": "derived",
            "note": "fitted to iterations of the reference trainer and to its kernels alone",
            "core_cache_bytes": _read(f"{int(facts.core_cache_bytes)} B"),
            "shared_cache_bytes": _shared_cache(facts),
            "collective_cores": share,
            "collective_slower": round(max(1.0, moving / share), 3) if share else 1.0,
            "posting_s": f"{posting_s:.3g} s",
            "call_lost_s": f"{lost_s:.3g} s",
            "call_lost_share": round(lost_share, 3),
            "kernel_share_posting": posting_kept,
            "kernel_share_moving": moving_kept,
            "lookups_together": trained.together if trained else 1.0,
            "passing_s": [f"{value:.3g} s" for value in trained.passing_s] if trained and trained.passing_s else None,
            "followed": trained.followed if trained else FULLY,
            "yardstick_s": {name: f"{value:.4g} s" for name, value in (trained.yardstick_s if trained else {}).items()},
            "costs": {kind: costs[kind] for kind in sorted(costs)},
        }
    )


def usual_costs(threads: int) -> Mapping[str, Mapping[str, float | None]]:
    """Costs on a CPU that is known well, seconds by kind and amount, for the number of threads that is nearest.

    None where what is known of it tells nothing.
    """
    known: dict[int, dict[str, dict[str, float | None]]] = yaml.safe_load(USUAL_COSTS.read_text(encoding="utf-8"))
    return known[min(known, key=lambda each: abs(np.log(each / threads)))]


def _read(value: object, note: str = "") -> dict[str, object]:
    return {"value": value, "source": "the operating system", "grade": "read", "note": note}


def _shared_cache(facts: HostFacts) -> dict[str, object]:
    told = _read(f"{int(facts.shared_cache_bytes)} B", facts.shared_cache_note)
    return {**told, "source": facts.source, "grade": "derived"} if facts.shared_cache_note else told


def _assumed(value: object, note: str) -> dict[str, object]:
    return {"value": value, "source": "no measurement", "grade": "assumed", "note": note}


def _collective_cores(rows: Sequence[Row], threads: int) -> float:
    """What large collectives take of so many threads' cores: CPU time over time, the upper quartile.

    Those are of ranks of one thread with a core of their own: no thread spins in the CPU time. What others do on the
    machine lengthens the time but not the CPU time. Those whose calls copy their input do not count: that is other
    work.
    """
    others = {*KERNELS, *load_library(LIBRARY).made_of}
    shares = [
        float(np.max(row["cores"])) / threads
        for row in rows
        if row["kind"] not in others and row["bytes"] > SMALL_BYTES and row["threads"] == 1 and row["alone"]
    ]
    return round(min(1.0, float(np.quantile(shares, 0.75))), 3) if shares else 0.0


def kept_of_cores(rows: Sequence[Row], cores: int, *, large: bool) -> float:
    """The part of a core that kernels keep beside large collectives, or small ones; half where that was not measured.

    Args:
        rows: kernels and collectives that were timed.
        cores: of the machine; ranks in a greater number share them, and what they keep.
        large: whether beside those that move more than `SMALL_BYTES`.
    """
    found = [
        float(np.median(row["kept"])) * max(1.0, row["ranks"] / cores)
        for row in rows
        if row.get("kept") and (row["bytes"] > SMALL_BYTES) == large
    ]
    return round(float(np.clip(np.median(found), *KEPT)), 3) if found else EQUAL


def issue_s(rows: Sequence[Row]) -> float:
    """What it takes to issue a collective, seconds; 0 where none was timed."""
    found = [min(row["issue_s"]) for row in rows if row["kind"] not in KERNELS and row["bytes"] <= SMALL_BYTES]
    return float(np.median(found)) if found else 0.0


def issue_byte_s(rows: Sequence[Row]) -> float:
    """What a call takes for each byte that it copies before it issues a collective, seconds; 0 where none was timed.

    Of ranks with cores of their own, and of more than `SMALL_BYTES`.
    """
    made_of = load_library(LIBRARY).made_of
    copying = [row for row in rows if row["kind"] in made_of and row["bytes"] > SMALL_BYTES and row["alone"]]
    found = [(min(row["issue_s"]) - issue_s(rows)) / row["bytes"] for row in copying]
    return max(0.0, float(np.median(found))) if found else 0.0


def with_issue(host: KernelCosts | None, collective_s: float, byte_s: float) -> KernelCosts:
    """Costs of the host's work with what it takes to issue a collective, and for each byte that this copies.

    Both are timed apart.
    """
    known = {} if host is None else {name: f"{seconds!r} s" for name, seconds in host.seconds_per.items()}
    quality = {"rows": 1, "median_error_pct": 0.0, "worst_error_pct": 0.0, "noise_pct": 0.0}
    told = quality if host is None else host.model_dump(exclude={"seconds_per"})
    return KernelCosts.model_validate(
        {**told, "seconds_per": {**known, "issue": f"{collective_s:.5g} s", "issue_byte": f"{byte_s:.5g} s"}}
    )


def host_cluster(rows: Sequence[Row], facts: HostFacts, kernels: Sequence[CpuKernels], progress: Progress) -> Cluster:
    """The cluster: one node, its kernels, its collectives fitted to the rows.

    They are fitted between ranks that have their cores to themselves, where any were timed so: that others take longer
    follows from sharing cores (`simulator.lowering.cores`).
    """
    cluster = Cluster.model_validate(_cluster_of(facts, kernels, _memory_bytes_per_s(rows, facts)))
    timed = [row for row in rows if row["kind"] not in KERNELS and row["times_s"]]
    alone_rows = [row for row in timed if row["alone"]]
    if not timed:
        return cluster
    fitted = fit_collectives(
        cluster,
        _collectives(rows, alone_rows or timed),
        facts.source,
        progress,
        launches=False,
    )
    fractions = dict(fitted.near_fraction)
    for op, made_of in cluster.collectives.made_of.items():
        if made_of in fractions and any(row["kind"] == op for row in alone_rows or timed):
            fractions[op] = fractions[made_of]
    return cluster.model_copy(update={"fitted": fitted.model_copy(update={"near_fraction": fractions})})


def _collectives(rows: Sequence[Row], timed: Sequence[Row]) -> list[MeasuredCollective]:
    """Timed collectives as what the library makes of them, without what it takes to issue them, by all rows."""
    call_s, byte_s, made_of = issue_s(rows), issue_byte_s(rows), load_library(LIBRARY).made_of
    found = [_collective(row, call_s + (byte_s * row["bytes"] if row["kind"] in made_of else 0.0)) for row in timed]
    return [replace(of, op=made_of.get(of.op, of.op)) for of in found]


def _collective(row: Row, issuing_s: float) -> MeasuredCollective:
    """A timed collective without what it takes to issue one, which is the rank's own work.

    On a core that it shares with the rank, a collective may begin, and end, before the call that issues it returns: no
    more than ``issuing_s`` is taken away.
    """
    left_s = [
        max(time_s - min(issued_s, issuing_s), LEAST_SHARE * time_s)
        for time_s, issued_s in zip(row["times_s"], row["issue_s"], strict=True)
    ]
    return MeasuredCollective(
        op=row["kind"],
        nodes=1,
        ranks_per_node=int(row["ranks"]),
        bytes=float(row["bytes"]),
        time_s=median_low(left_s),  # of two rounds the one that was not interrupted
        source="gloo",
    )


def errors_pct(rows: Sequence[Row], cluster: Cluster) -> list[float | None]:
    """Predicted over measured, less 1, of every row, per cent; None for collectives of ranks that share cores."""
    kernels = {known.threads: known for known in cluster.node.cpu.kernels}
    timed = _collectives(rows, [row for row in rows if row["kind"] not in KERNELS and row["times_s"] and row["alone"]])
    seconds = iter(Predictor(cluster).seconds(timed) / np.array([row.time_s for row in timed])) if timed else iter(())
    found: list[float | None] = []
    for row in rows:
        if row["kind"] in KERNELS:
            found.append(_error_pct(row, kernels[row["threads"]]))
        else:
            found.append(100.0 * (float(next(seconds)) - 1.0) if row["alone"] and row["times_s"] else None)
    return [error for row, error in zip(rows, found, strict=True) if row["times_s"]]


def _error_pct(row: Row, kernels: CpuKernels) -> float:
    part = alone(KernelRow.of(row), row["ranks"])
    return 100.0 * (expected_s(part, kernels) / part.seconds - 1.0)


def _memory_bytes_per_s(rows: Sequence[Row], facts: HostFacts) -> float:
    """The best rate of a pass over more than the caches hold; 10 GB/s where none was."""
    passes = [
        (row["read_bytes"] + row["write_bytes"]) * row["ranks"] / float(np.median(row["times_s"]))
        for row in rows
        if row["kind"] == "stream" and row["read_bytes"] + row["write_bytes"] > facts.shared_cache_bytes / 2
    ]
    return max(passes, default=LINK_BYTES_PER_S)


def _cluster_of(facts: HostFacts, kernels: Sequence[CpuKernels], memory_bytes_per_s: float) -> dict[str, Any]:
    def measured(value: object, note: str) -> Mapping[str, object]:
        return {"value": value, "source": facts.source, "grade": "derived", "note": note}

    return {
        "name": facts.name,
        "description": f"This machine: {facts.cores} cores of {facts.cpu}. {facts.source}",
        "node": {
            "name": facts.name,
            "cpu": {
                "name": facts.name,
                "description": facts.cpu,
                "vendor": facts.vendor,
                "cores": _read(facts.cores),
                "base_clock_hz": _read(f"{facts.clock_hz:.6g} Hz"),
                "turbo_clock_hz": _read(f"{facts.clock_hz:.6g} Hz", "the system tells one clock"),
                "host_time_factor": _assumed(1.0, "host times are among the kernels' costs"),
                "kernels": [known.model_dump(mode="json") for known in kernels],
            },
            "sockets": _read(1, "all cores that may be used count as one socket"),
            "ranks_per_socket": _assumed(facts.most_ranks, "with more ranks than cores these take turns"),
            "ddr_bytes": _read(f"{int(facts.memory_bytes)} B"),
            "ddr_bytes_per_s": measured(f"{memory_bytes_per_s:.5g} B/s", "the fastest pass over more than caches hold"),
            "socket_link_bytes_per_s": _assumed(f"{LINK_BYTES_PER_S:.5g} B/s", "fitted fractions are of this"),
            "nics": {
                "nic": {
                    "name": "loopback",
                    "bytes_per_s": _assumed(f"{LINK_BYTES_PER_S:.5g} B/s", "not used: there is one node"),
                    "latency_s": _assumed("1 us", "not used: there is one node"),
                },
                "count": _assumed(1, "not used: there is one node"),
            },
        },
        "max_nodes": _read(1),
        "fabric": {
            "kind": "fat_tree",
            "network": "ethernet",
            "spine_oversubscription": _assumed(1, "not used: there is one node"),
            "hop_latency_s": _assumed("1 us", "not used: there is one node"),
        },
        "collectives": load_library(LIBRARY).model_dump(mode="json"),
        "calibration": [],
    }

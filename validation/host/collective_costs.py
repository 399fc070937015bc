"""Costs of collectives on the cores of their members: threads that move data, calls that issue them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median_low
from typing import Any

import numpy as np

from hardware_specs.bounds import Latency, clipped
from hardware_specs.collectives import FittedCollectives
from hardware_specs.cpu_kernels import KernelCosts
from hardware_specs.loader import load_library
from hardware_specs.types import Cluster
from scenarios.progress import Progress
from validation.fits.fitting import fit_collectives
from validation.fits.nonnegative import nonnegative
from validation.host.timed_kernels import KERNELS, Row
from validation.suites.collectives import MeasuredCollective

FLOOR_S = 2e-4
"""Seconds added to the predicted CPU time of a job's collectives where errors are relative."""
LIBRARY = "gloo"
"""Library of the collectives that are timed."""
SMALL_BYTES = 65536
"""Largest collective whose issuing time does not depend on its size, bytes."""
LEAST_SHARE = 0.1
"""Smallest fraction of a collective's time that is left after its issuing time is taken off."""


@dataclass(frozen=True, slots=True)
class CollectiveWork:
    """CPU time of a job's collectives on the core of a rank, per iteration.

    Attributes:
        moving_s: seconds in which data move if nothing runs beside the collectives.
        cores_s: CPU time of the threads that run them, seconds.
        calls: collectives that the rank issues.
    """

    moving_s: float
    cores_s: float
    calls: int


def thread_costs(jobs: Sequence[CollectiveWork]) -> tuple[float, float]:
    """CPU time of collective threads: seconds per collective, and seconds per second in which data move alone.

    Args:
        jobs: jobs with collectives; at least one.
    """
    cores_s, matrix = np.array([job.cores_s for job in jobs]), np.array([[job.calls, job.moving_s] for job in jobs])
    each, moving = nonnegative(matrix, cores_s, np.full(len(jobs), FLOOR_S), np.ones(len(jobs))).tolist()
    return each, moving


def cores_while_moving(rows: Sequence[Row], threads: int) -> float:
    """Fraction of the cores of a rank that large collectives take: CPU time over time, the upper quartile.

    Only ranks of one thread with a core of their own count: none of their CPU time is spinning. Collectives whose calls
    copy their input do not count: the copy is other work.
    """
    others = {*KERNELS, *load_library(LIBRARY).made_of}
    shares = [
        float(np.max(row["cores"])) / threads
        for row in rows
        if row["kind"] not in others and row["bytes"] > SMALL_BYTES and row["threads"] == 1 and row["alone"]
    ]
    return round(min(1.0, float(np.quantile(shares, 0.75))), 3) if shares else 0.0


def issue_s(rows: Sequence[Row]) -> float:
    """Time to issue a small collective, the median over sizes, seconds; 0 if none was timed."""
    found = [min(row["issue_s"]) for row in rows if row["kind"] not in KERNELS and row["bytes"] <= SMALL_BYTES]
    return float(np.median(found)) if found else 0.0


def issue_byte_s(rows: Sequence[Row]) -> float:
    """Seconds per byte that a call copies before it issues a collective; 0 if none was timed."""
    made_of = load_library(LIBRARY).made_of
    copying = [row for row in rows if row["kind"] in made_of and row["bytes"] > SMALL_BYTES and row["alone"]]
    found = [(min(row["issue_s"]) - issue_s(rows)) / row["bytes"] for row in copying]
    return max(0.0, float(np.median(found))) if found else 0.0


def with_issue(host: KernelCosts | None, collective_s: float, byte_s: float) -> KernelCosts:
    """Costs of the host's work with those of issuing a collective and of each byte that the call copies, seconds."""
    known = {} if host is None else {name: f"{seconds!r} s" for name, seconds in host.seconds_per.items()}
    no_errors = {"rows": 1, "median_error_pct": 0.0, "worst_error_pct": 0.0, "noise_pct": 0.0}
    rest: Mapping[str, Any] = no_errors if host is None else host.model_dump(exclude={"seconds_per"})
    issuing = {"issue": f"{clipped(collective_s, Latency):.5g} s", "issue_byte": f"{clipped(byte_s, Latency):.5g} s"}
    return KernelCosts.model_validate({**rest, "seconds_per": {**known, **issuing}})


def fitted_links(cluster: Cluster, rows: Sequence[Row], source: str, progress: Progress) -> FittedCollectives | None:
    """Constants of the links between ranks, fitted to collectives timed alone; None if none was timed.

    Collectives between ranks with cores of their own count, if there are any: sharing cores is the engine's business.
    """
    timed = [row for row in rows if row["kind"] not in KERNELS and row["times_s"]]
    timed = [row for row in timed if row["alone"]] or timed
    if not timed:
        return None
    fitted = fit_collectives(cluster, measured_collectives(rows, timed), source, progress, launches=False)
    fractions = dict(fitted.near_fraction)
    for op, made_of in cluster.collectives.made_of.items():
        if made_of in fractions and any(row["kind"] == op for row in timed):
            fractions[op] = fractions[made_of]
    return fitted.model_copy(update={"near_fraction": fractions})


def measured_collectives(rows: Sequence[Row], timed: Sequence[Row]) -> list[MeasuredCollective]:
    """Timed collectives without the time of issuing them; ``rows`` are all rows, which give the issuing costs."""
    call_s, byte_s, made_of = issue_s(rows), issue_byte_s(rows), load_library(LIBRARY).made_of
    found = [_collective(row, call_s + (byte_s * row["bytes"] if row["kind"] in made_of else 0.0)) for row in timed]
    return [replace(of, op=made_of.get(of.op, of.op)) for of in found]


def _collective(row: Row, issuing_s: float) -> MeasuredCollective:
    """A timed collective less its issuing time, at most ``issuing_s``: data may move within the call."""
    left_s = [
        max(time_s - min(issued_s, issuing_s), LEAST_SHARE * time_s)
        for time_s, issued_s in zip(row["times_s"], row["issue_s"], strict=True)
    ]
    return MeasuredCollective(
        op=row["kind"],
        nodes=1,
        ranks_per_node=int(row["ranks"]),
        bytes=float(row["bytes"]),
        time_s=median_low(left_s),  # of two rounds the one without an interruption
        source="gloo",
    )

"""A cluster and a framework profile, fitted to measurements on a machine's GPUs.

Kernels alone give the rates of the GPU (`validation.fits.kernel_fit`), collectives those of the links between GPUs
(`validation.fits.fitting`), and iterations of jobs the constants of a framework profile
(`validation.fits.framework_fit`): the host's time for each operator, and by how much longer the trainer's lookups,
updates and element-wise kernels take than those that the profile it starts from counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hardware_specs.types import Cluster
from scenarios.progress import Progress
from validation.fits.fitting import fit_collectives
from validation.fits.framework_fit import Configuration, FittedConstants, fit_framework
from validation.fits.kernel_fit import KernelFit, TimedKernel, fit_kernels
from validation.gpu.record import GpuRecord
from validation.host.timed_kernels import KERNELS, KernelRow, Row
from validation.suites.collectives import MeasuredCollective
from workloads.graph.framework import Constant

KIND_OF: Mapping[str, str] = {"gemm": "gemm", "batched": "gemm", "stream": "elementwise", "lookup": "lookup"}
"""Kernels that are timed, and as what `validation.fits.kernel_fit` knows each. Element-wise kernels that do not go
through memory as it lies are not among them: they say nothing of the rate at which it streams."""
CONSTANTS: tuple[Constant, ...] = ("operator_s", "elementwise_factor", "embedding_factor", "iteration_s")
"""Constants of the framework profile that jobs determine."""
FEWEST_JOBS = 4
"""Smallest number of jobs for a fit, one per constant: with fewer the profile stays as it was."""


@dataclass(frozen=True, slots=True)
class GpuFit:
    """A machine that is fitted.

    Attributes:
        kernels: rates of its GPU, and the names of the fitted ones.
        framework: constants of the profile; None where too few jobs were trained.
        errors_pct: errors of kernels alone, by kind as they were timed.
        has_collectives: whether collectives were timed, for which it takes two GPUs.
    """

    cluster: Cluster
    kernels: KernelFit
    framework: FittedConstants | None
    errors_pct: Mapping[str, Sequence[float]]
    has_collectives: bool


def fit_gpus(record: GpuRecord, name: str, progress: Progress) -> GpuFit:
    """The machine fitted to a record.

    Raises:
        InputError: a job cannot run on it.
    """
    start = record.start
    timed = {kind: [_timed(row) for row in record.rows if row["kind"] == kind] for kind in KIND_OF}
    every = [row for rows in timed.values() for row in rows]
    kernels = fit_kernels(start.node.accelerator, every, record.source, progress)
    cluster = start.model_copy(
        update={
            "name": name,
            "description": f"GPUs of this machine: {record.device}. {record.source}. All else as {start.name}",
            "node": start.node.model_copy(update={"gpu": kernels.gpu.model_copy(update={"name": name})}),
        }
    )
    collectives = [_collective(row) for row in record.rows if row["kind"] not in KERNELS]
    if collectives:
        fitted = fit_collectives(cluster, collectives, record.source, progress)
        cluster = cluster.model_copy(update={"fitted": fitted, "calibration": ()})
    errors = {kind: kernels.error_pct(rows) for kind, rows in timed.items() if rows}
    return GpuFit(cluster, kernels, _framework(record, cluster, progress), errors, bool(collectives))


def _framework(record: GpuRecord, cluster: Cluster, progress: Progress) -> FittedConstants | None:
    if len(record.jobs) < FEWEST_JOBS:
        return None
    jobs = [Configuration(job.on(cluster), (job.iteration_s,)) for job in record.jobs]
    return fit_framework(CONSTANTS, jobs, progress)


def _timed(row: Row) -> TimedKernel:
    known = KernelRow.of(row)
    return TimedKernel(KIND_OF[row["kind"]], known.operator, known.seconds)


def _collective(row: Row) -> MeasuredCollective:
    seconds = float(np.median(row["times_s"]))
    return MeasuredCollective(row["kind"], 1, int(row["ranks"]), float(row["bytes"]), seconds, "trainer")

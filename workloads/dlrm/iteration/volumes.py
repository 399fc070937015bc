"""Volumes of communication of an iteration: sizes of buffers, whatever the algorithms send."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.precisions import WIRE_BYTES
from workloads.dlrm.iteration.job import Job, make_job
from workloads.dlrm.model.model import DlrmModel
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.sharding.plan import Plan

EXCHANGES = ("all_to_all", "scatter")
"""Operations that bring pooled vectors to the ranks of their samples."""


class Volumes(NamedTuple):
    """Bytes per iteration.

    Attributes:
        all_reduce_bytes: gradients that every rank gives into an all_reduce, of data-parallel layers
            ``element x sum over layers (inputs x outputs + outputs)``, and the bytes of copied tables.
        all_to_all_bytes: pooled vectors of the forward exchange that all ranks send together, own parts included:
            ``element x tables x global batch x dim``, without the padding of uneven batches, or vectors of all
            positions of sequences; as many elements of gradients go back.
    """

    all_reduce_bytes: float
    all_to_all_bytes: float


def volumes(model: DlrmModel, plan: Plan, settings: DlrmSettings) -> Volumes:
    """The volumes of a job under a plan.

    Raises:
        InputError: the model contradicts itself.
    """
    return volumes_of(make_job(model, plan, settings))


def volumes_of(job: Job) -> Volumes:
    """The volumes of a job."""
    settings = job.settings
    wire, parts = WIRE_BYTES[settings.precision.all_reduce], job.parts.values()
    summed = sum(bucket.parameters for bucket in job.buckets) * wire
    summed += sum(part.layer.parameters * wire / part.shard.size for part in parts if part.sums_divided)
    sent = sum(
        float(np.broadcast_to(call.bytes, settings.world_size).sum())
        for group in job.groups
        for call in group.forward
        if call.op in EXCHANGES
    )
    samples = settings.iteration_samples or settings.global_batch_size * settings.gradient_accumulation
    counted = settings.global_batch_size if job.plan.tables.sequences else settings.exchanged_samples
    return Volumes(float(summed), sent / counted * samples)

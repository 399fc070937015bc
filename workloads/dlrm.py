"""One training iteration of a DLRM as a task graph.

What depends on what, on which stream it runs and when the host launches it follows TorchRec and c10d; the pipelines say
which batch the input tasks of an iteration serve.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from simulator.program import IntArray, TaskGraph
from workloads.backward import Backward
from workloads.embeddings import CROSS_NODE, INPUT_WORLD, NODE, WORLD
from workloads.forward import record_interaction, record_lookups, record_loss, record_mlp
from workloads.input_path import InputPath
from workloads.job import Job, make_job
from workloads.launch import Recorder, streams_of
from workloads.model import DlrmModel
from workloads.plan import Plan
from workloads.settings import DlrmSettings, Pipeline


def generate(model: DlrmModel, plan: Plan, settings: DlrmSettings) -> TaskGraph:
    """The task graph of one iteration on all ranks.

    Args:
        model: the model.
        plan: its tables and where they are.
        settings: ranks, batch, precisions, optimizers, framework, pipeline.

    Raises:
        InputError: the model contradicts itself.
    """
    job = make_job(model, plan, settings)
    own = settings.framework.input_process_group.value == "own"
    ranks = np.arange(settings.world_size, dtype=np.int64)
    recorder = Recorder(
        ranks, settings.framework, streams_of(settings.pipeline, own_input_group=own, node_groups=bool(len(plan.nodes)))
    )
    _RECORD[settings.pipeline](recorder, job)
    graph = TaskGraph((recorder.build(),), _communicators(plan, own_input_group=own))
    graph.check()
    return graph


def _communicators(plan: Plan, *, own_input_group: bool) -> dict[str, IntArray]:
    """Instance of each rank ``[P]`` in each communicator that the plan needs."""
    rank = np.arange(plan.world_size)
    found = {WORLD: np.zeros_like(rank)}
    if own_input_group:
        found[INPUT_WORLD] = np.zeros_like(rank)
    if len(plan.nodes):
        found |= {NODE: rank // plan.local_world_size, CROSS_NODE: rank % plan.local_world_size}
    return found


@dataclass(frozen=True, slots=True)
class _Forward:
    """Tasks of the forward pass that read the input: the lookups, and the first layer of the bottom MLP.

    Without a bottom MLP the interaction reads the dense features.
    """

    lookups: list[int]
    dense_input: int


def _without_pipeline(recorder: Recorder, job: Job) -> None:
    """One batch after the other; the copy of the next batch may run ahead into a second buffer."""
    path = InputPath(recorder, job)
    copy = path.copy()
    start = path.start() if job.exchanges_indices else None
    indices = path.finish(start) if start else copy
    forward = _forward(recorder, job)
    readers = _backward(recorder, job, forward)
    if start:
        recorder.depend(start.first, copy)
    _feed(recorder, job, forward, _Batch(copy, 0), _Batch(indices, 0))
    for reader in readers:
        recorder.depend(copy, reader, lag=2)


def _sparse_dist(recorder: Recorder, job: Job) -> None:
    """TorchRec's TrainPipelineSparseDist: while batch i trains, batch i+1 is distributed and batch i+2 copied.

    Three batches are on the device: the copy of i+2 overwrites i-1, whose last readers are of the iteration before.
    """
    path = InputPath(recorder, job)
    start = path.start() if job.exchanges_indices else None
    copy = path.copy()
    forward = _forward(recorder, job)
    copied = indices = _Batch(copy, 2)
    if start:
        indices = _Batch(path.finish(start), 1)
        recorder.depend(start.first, copy, lag=1)
    readers = _backward(recorder, job, forward)
    _feed(recorder, job, forward, copied, indices)
    for reader in readers:
        recorder.depend(copy, reader, lag=1)


@dataclass(frozen=True, slots=True)
class _Batch:
    """The task that makes a batch ready, and how many iterations ahead of its training it runs."""

    task: int
    ahead: int


def _feed(recorder: Recorder, job: Job, forward: _Forward, copied: _Batch, indices: _Batch) -> None:
    """Let the dense part and copied tables read the batch as copied, sharded tables the indices that arrived."""
    recorder.depend(forward.dense_input, copied.task, lag=copied.ahead)
    for group, lookup in zip(job.groups, forward.lookups, strict=True):
        source = indices if group.values is not None else copied
        recorder.depend(lookup, source.task, lag=source.ahead)


_RECORD: dict[Pipeline, Callable[[Recorder, Job], None]] = {"none": _without_pipeline, "sparse_dist": _sparse_dist}


def _forward(recorder: Recorder, job: Job) -> _Forward:
    """Lookups and their exchange, the bottom MLP beside them, interaction, top MLP, loss."""
    bottom: list[int] = []
    if job.bottom_on_first_rank:  # its output goes with the pooled vectors
        bottom = record_mlp(recorder, job, job.dense.bottom, "bottom_mlp_forward", job.bottom_samples)
    lookups, pooled = record_lookups(recorder, job)
    if not job.bottom_on_first_rank:
        bottom = record_mlp(recorder, job, job.dense.bottom, "bottom_mlp_forward")
    joined = record_interaction(recorder, job, pooled)
    record_mlp(recorder, job, job.dense.top, "top_mlp_forward")
    record_loss(recorder, job)
    return _Forward(lookups, [*bottom, joined][0])


def _backward(recorder: Recorder, job: Job, forward: _Forward) -> list[int]:
    """Backward pass and optimizers; returns the last readers of the input."""
    backward = Backward(recorder, job)
    backward.mlp(job.dense.top, "top_mlp_backward")
    backward.interaction()
    exchanges = backward.start_exchange()
    if job.bottom_on_first_rank:  # its gradient comes with those of pooled vectors
        recorder.stream_wait("wait_bottom_gradient", next(e for e in exchanges if e is not None), section="bottom_mlp_backward")
    dense_reader = backward.mlp(job.dense.bottom, "bottom_mlp_backward", input_gradient=False, samples=job.bottom_samples)
    updates = backward.update_embeddings(exchanges)
    optimizer = backward.optimizer()
    waits = job.settings.framework.iteration_s
    if waits is not None:
        recorder.device_wait("iteration_wait", waits.value, section="optimizer")
    recorder.depend(forward.dense_input, optimizer, lag=1)
    for lookup, update in zip(forward.lookups, updates, strict=True):
        recorder.depend(lookup, update, lag=1)
    return [dense_reader if job.dense.bottom else forward.dense_input, *updates]

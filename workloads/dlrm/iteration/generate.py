"""One training iteration of a DLRM as a task graph.

Dependencies, streams and the order of launches follow TorchRec, HugeCTR and c10d; the
pipeline (`workloads.graph.schedule`) says which batch each part of an iteration serves.
"""

from __future__ import annotations

import numpy as np

from simulator.program import IntArray, TaskGraph
from workloads.dlrm.iteration.divided_layers import divided_streams
from workloads.dlrm.iteration.groups import INPUT_WORLD, SUM_WORLD
from workloads.dlrm.iteration.job import Job, make_job
from workloads.dlrm.iteration.training_pass import record_pass
from workloads.dlrm.model.model import DlrmModel
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.sharding.plan import Plan
from workloads.graph.levels import CROSS_NODE, NODE, WORLD
from workloads.graph.recorder import Recorder, streams_of
from workloads.graph.schedule import SCHEDULES


def generate(model: DlrmModel, plan: Plan, settings: DlrmSettings) -> TaskGraph:
    """The task graph of one iteration on all ranks.

    Raises:
        InputError: the model contradicts itself.
    """
    return graph_of(make_job(model, plan, settings))


def graph_of(job: Job) -> TaskGraph:
    """The task graph of one iteration of a job on all ranks."""
    plan, settings = job.plan, job.settings
    schedule = SCHEDULES[settings.pipeline]
    own, sums = settings.framework.input_process_group.value == "own", settings.framework.sums_apart
    streams = streams_of(
        schedule,
        own_input_group=own,
        own_sum_group=sums,
        node_groups=bool(len(plan.nodes)),
        ingestion=settings.ingestion is not None,
        on_host=settings.on_host,
        collective_threads=settings.collective_threads,
        divided=divided_streams(job),
    )
    recorder = Recorder(
        np.arange(settings.world_size, dtype=np.int64),
        settings.framework,
        streams,
        cuda_graph=settings.cuda_graph,
        passes=settings.gradient_accumulation,
        on_host=settings.on_host,
        copied=settings.copied,
        host_factors=not settings.measured_host,
        progress=settings.progress,
        name="dlrm",
    )
    record_pass(recorder, job, schedule)
    for _ in range(1, settings.gradient_accumulation):
        recorder.next_pass()
        record_pass(recorder, job, schedule)
    graph = TaskGraph((recorder.build(),), _communicators(job, own_input_group=own, own_sum_group=sums))
    graph.check()
    return graph


def _communicators(job: Job, *, own_input_group: bool, own_sum_group: bool) -> dict[str, IntArray]:
    """Instance of each rank ``[P]`` in each communicator that the plan or divided layers need."""
    plan, rank = job.plan, np.arange(job.plan.world_size)
    groups = {group.communicator for part in job.parts.values() for group in (part.tensor, part.shard, part.replicas)}
    found = {WORLD: np.zeros_like(rank)}
    if own_input_group:
        found[INPUT_WORLD] = np.zeros_like(rank)
    if own_sum_group:
        found[SUM_WORLD] = np.zeros_like(rank)
    if len(plan.nodes) or groups & {NODE, CROSS_NODE}:
        found |= {NODE: rank // plan.local_world_size, CROSS_NODE: rank % plan.local_world_size}
    return found

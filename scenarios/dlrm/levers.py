"""Settings of a DLRM scenario that may make it faster: pipelines, planners, overlaps, calls, updates, narrow wires."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from scenarios.candidates import Basis, Candidate, Kind
from scenarios.dlrm.typed import DlrmResolved
from simulator.analysis import Bound
from simulator.precisions import BYTES_PER_ELEMENT, SumPrecision, WirePrecision
from workloads.dlrm.family import DlrmWorkload
from workloads.dlrm.model.choices import ExchangeCalls, SocketUpdate
from workloads.dlrm.model.model import DlrmModel
from workloads.dlrm.model.storage import is_cached
from workloads.graph.framework import CudaGraph, Pipeline
from workloads.graph.schedule import SCHEDULES

MORE_OVERLAP: tuple[Pipeline, ...] = (
    "none", "inter_iteration", "sparse_dist", "prefetch", "fused_sparse_dist", "semi_sync",
)  # fmt: skip
"""Pipelines by increasing overlap; ``inter_iteration`` is no lever, because ``sparse_dist`` overlaps more."""

PLANNERS_TRIED = ("table_row_wise", "table_column_wise", "greedy", "data_parallel")
"""Planners with different sharding types that plan 1,000 tables within a second; `plan --compare` tries all."""

SEQUENCE_PLANNERS = ("row_wise", "column_wise", "table_wise", "greedy")
"""The same of sequences, which no table is cut over nodes for."""

PLANNER = "workload.sharding.planner="
"""Start of the settings that choose a planner."""

WIRE_KEYS = ("forward_all_to_all", "backward_all_to_all", "all_reduce")
"""Keys of `precision` for values on the wire."""

LARGE_RANKS = 512
"""Largest number of ranks at which planners are compared with uneven loads, which take long to simulate (40 s at 4,096
ranks, row blocks over each of 512 nodes). Above, all ranks get equal loads."""


EVENED = (
    f"more than {LARGE_RANKS} ranks: planners are compared with the loads of all ranks evened out; "
    "`plan --compare` simulates them"
)


def planners_tried(model: DlrmModel) -> tuple[str, ...]:
    """Planners that are compared for a model."""
    return PLANNERS_TRIED if model.hstu is None else SEQUENCE_PLANNERS


def candidates(resolved: DlrmResolved, placed: DlrmWorkload, bound: Bound) -> Iterator[Candidate]:
    """Settings that the job does not have yet."""
    workload = resolved.scenario.workload
    comm, host = (bound.path_shares.get(name, 0.0) for name in ("communication", "host"))
    yield from _pipelines(placed)
    if resolved.world_size > 1:
        for name in planners_tried(resolved.model):
            if name != workload.sharding.planner:
                yield _planner(name, even=resolved.world_size > LARGE_RANKS)
    for key, chosen in workload.overlap.model_dump().items():
        if chosen is False and (key == "exchange" or not placed.settings.evaluates):
            yield Candidate(f"workload.overlap.{key}=true", most=comm)
    if resolved.cluster.node.gpu is not None:
        scopes = get_args(CudaGraph)
        for name in scopes[scopes.index(workload.cuda_graph or "none") + 1 :]:
            if name == "iteration" and placed.plan.tables.sequences:
                continue  # sizes of their exchanges differ from batch to batch
            yield Candidate(f"workload.cuda_graph={name}", most=host)
    yield from _layouts(placed)
    yield from _calls(resolved)
    yield from _updates(placed)
    yield from _narrower(resolved, comm)


def _layouts(placed: DlrmWorkload) -> Iterator[Candidate]:
    """Batches balanced by length, and no padding."""
    if not placed.plan.tables.sequences:
        return
    if placed.settings.batching != "balanced":
        yield Candidate("workload.batching=balanced")
    if not placed.settings.index_dedup and placed.settings.world_size > 1:
        yield Candidate("workload.sharding.index_dedup=true", plans=True)
    if placed.settings.padded:
        yield Candidate("workload.sequence_layout=jagged")


def _calls(resolved: DlrmResolved) -> Iterator[Candidate]:
    """Fewer calls of the exchange."""
    calls = get_args(ExchangeCalls)
    for name in calls[: calls.index(resolved.scenario.workload.exchange)]:
        yield Candidate(f"workload.exchange={name}")


def _updates(placed: DlrmWorkload) -> Iterator[Candidate]:
    """Ways in which sockets add gradients to rows with less contention; GPUs have one way."""
    own, ways = placed.settings.embedding_update, get_args(SocketUpdate)
    if own in ways:
        yield from (Candidate(f"workload.embedding_update={name}") for name in ways[: ways.index(own)])


def _planner(name: str, *, even: bool) -> Candidate:
    """Another planner; on many ranks, with the loads of all ranks evened out."""
    setting = f"{PLANNER}{name}"
    return Candidate(setting, plans=True, basis="even loads", note=EVENED) if even else Candidate(setting, plans=True)


def _pipelines(placed: DlrmWorkload) -> Iterator[Candidate]:
    """Pipelines that overlap more; rows are prefetched into caches only."""
    own: Pipeline = placed.settings.pipeline
    cached = bool(is_cached(placed.plan.storage.kernel).any())
    for name in MORE_OVERLAP[MORE_OVERLAP.index(own) + 1 :]:
        if name == "inter_iteration" or (name == "prefetch" and not cached):
            continue
        schedule = SCHEDULES[name]
        kind: Kind = "numerics" if schedule.staleness > SCHEDULES[own].staleness else "free"
        basis: Basis = "at most" if schedule.own_lookup_stream else "plan kept"
        yield Candidate(f"workload.pipeline={name}", kind, basis=basis)


def _narrower(resolved: DlrmResolved, comm: float) -> Iterator[Candidate]:
    """Narrower types on the wire, one of each width; bf16 for gradients because of their wide range."""
    for key in WIRE_KEYS[:1] if resolved.scenario.workload.mode == "eval" else WIRE_KEYS:
        own = BYTES_PER_ELEMENT[getattr(resolved.scenario.precision, key)]
        types = get_args(SumPrecision if key == "all_reduce" else WirePrecision)
        names = types if key == "forward_all_to_all" else reversed(types)
        by_width = {BYTES_PER_ELEMENT[name]: name for name in reversed(list(names))}
        for width, name in sorted(by_width.items(), reverse=True):
            if width < own:
                yield Candidate(f"precision.{key}={name}", "numerics", most=comm)

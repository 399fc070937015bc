"""Keys of a scenario that trains a DLRM, beside those of all workloads (`scenarios.types`)."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from inputs.given import cut
from inputs.model import Strict, problem
from inputs.quantities import RankNumber
from scenarios.types import KIND, PRECISION, WORKLOAD, BatchSize, Scenario, Section, Seed
from workloads.dlrm.laws.index_laws import IndexLaw
from workloads.dlrm.laws.pooling import PoolingSpread
from workloads.dlrm.laws.sequence_lengths import LengthLaw
from workloads.dlrm.model.choices import (
    DenseStrategies,
    ExchangeCalls,
    HybridEmbedding,
    Ingestion,
    Optimizer,
    Overlap,
    PrecisionChoice,
    SocketUpdate,
)
from workloads.dlrm.model.sequence_batches import Batching
from workloads.dlrm.model.storage import LOAD_FACTOR, ComputeKernel
from workloads.dlrm.model.target import TimeToTarget
from workloads.dlrm.sharding.plan_file import PlanKernel, ShardingType
from workloads.graph.framework import CudaGraph, Pipeline

Kernels: TypeAlias = Annotated[tuple[ComputeKernel, ...], Field(min_length=1)]
Part: TypeAlias = Annotated[float, Field(ge=1e-9, le=1)]


RANGES = re.compile(r"[0-9]{1,6}(?:-[0-9]{1,6})?")
"""A number or a range in the text of a device group."""

_GROUP = re.compile(rf"(nodes +)?{RANGES.pattern}( *, *{RANGES.pattern})*")


class TableConstraint(Strict):
    """Constraints of one table, or of the tables of a pattern; as TorchRec's ``ParameterConstraints``."""

    sharding_types: Annotated[tuple[ShardingType, ...], Field(min_length=1)] | None = Field(
        None, description="sharding types that a planner may give this table"
    )
    compute_kernels: Annotated[tuple[PlanKernel, ...], Field(min_length=1)] | None = Field(
        None, description="kernels it may have; data_parallel has dense, other types never do"
    )
    min_partition: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None, description="fewest columns of a column range"
    )
    device_group: Annotated[tuple[RankNumber, ...], Field(min_length=1)] | str | None = Field(
        None, description="ranks that may hold its shards: a list, 0-7,16 or nodes 0-1"
    )
    together: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        None, description="name of a set of tables whose shards are on the same ranks"
    )
    cache_load_factor: Part | None = Field(None, description="share of its rows that its cache holds")

    @model_validator(mode="after")
    def _group_has_ranks(self) -> Self:
        group = self.device_group
        if isinstance(group, str) and _GROUP.fullmatch(group) is None:
            expected = "a list of ranks, or a text such as 0-7,16 or nodes 0-1"
            raise problem(f"not a device group: {cut(group)}", key="device_group", expected=expected)
        return self


class Sharding(Strict):
    """Sharding of the embedding tables over the ranks: by a planner, or from a plan."""

    planner: str | None = Field(
        None, description="a registered planner (default: the framework's, or greedy); not together with plan"
    )
    plan: str | dict[str, Any] | None = Field(None, description="a plan file (YAML or JSON), or the plan itself")
    steps: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(
        None, description="candidates that the search planner simulates (default by world size, 8 to 128)"
    )
    seed: Seed = Field(0, description="seed of the search planner")
    compute_kernels: Kernels = Field(
        ("fused",), description="kernels a planner may give a table; it takes the cheapest ones that fit"
    )
    cache_load_factor: Part = Field(LOAD_FACTOR, description="share of a cached table's rows that its cache holds")
    cache_hit_rate: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="share of a batch's distinct rows found in caches (default: as the popularity of rows says)"
    )
    index_dedup: bool | None = Field(
        None,
        description="of sequences: each rank asks for a row once, however often its batch has it (default: false; "
        "TorchRec's use_index_dedup)",
    )
    constraints: dict[str, TableConstraint] = Field(
        default_factory=dict,
        description="by name of a table, or a pattern with * and ?: its own sharding_types, compute_kernels, "
        "min_partition, device_group, together, cache_load_factor",
    )


class DlrmSection(Section):
    """The trained model, its sharding, and the framework."""

    kind: Literal["dlrm"] = Field("dlrm", description=KIND)
    global_batch_size: BatchSize | None = Field(
        None, description="samples per iteration over all ranks (default: the model's local batch x world_size)"
    )
    framework: str | dict[str, Any] = Field("neo", description="framework profile: launch cost, buckets, streams")
    optimizer: Optimizer = Field(default_factory=Optimizer, description="optimizers")
    indices: IndexLaw | None = Field(
        None,
        description="by which law rows are looked up, instead of the model's, in tables without one of their own: "
        "uniform, the name of a reuse histogram, or e.g. {distribution: zipf, exponent: 1.05}",
    )
    pooling_spread: PoolingSpread | None = Field(
        None,
        description="distribution of bag lengths around the pooling factors, instead of the model's, e.g. "
        "{distribution: geometric}",
    )
    sequence_lengths: dict[str, LengthLaw] | None = Field(
        None,
        description="laws of the lengths of sequences, instead of the model's, by name, e.g. "
        "{history: {distribution: fixed}}",
    )
    batching: Batching | None = Field(
        None,
        description="how samples are dealt to ranks: random (default), sorted by length, or balanced by work",
    )
    sequence_layout: Literal["jagged", "padded"] | None = Field(
        None,
        description="layers run over positions alone (jagged, default), or padded to the longest of a rank",
    )
    mode: Literal["train", "eval"] | None = Field(
        None, description="eval: an iteration is a forward pass only (default: train)"
    )
    time_to_target: TimeToTarget | None = Field(
        None,
        description="samples until the target is met, and evaluations, e.g. {samples: 2e9, evaluation_samples: 2e6}",
    )
    sharding: Sharding = Field(default_factory=Sharding, description="planner or plan")
    pipeline: Pipeline | None = Field(
        None, description="software pipelining across iterations (default: the framework's, or none)"
    )
    overlap: Overlap = Field(default_factory=Overlap, description="operations that overlap within an iteration")
    embedding_update: SocketUpdate | None = Field(
        None,
        description="how sockets add gradients to rows (default: race_free): race_free, atomic, or reference on one "
        "core; GPUs have one way",
    )
    exchange: ExchangeCalls = Field(
        "all_to_all",
        description="calls that bring pooled vectors of whole tables to the ranks of their samples: all_to_all, "
        "scatter (one for each rank) or scatter_list (one for each table)",
    )
    cuda_graph: CudaGraph | None = Field(
        None, description="scope of one launch (default: the framework's): none, the network, the iteration"
    )
    hybrid_embedding: HybridEmbedding | None = Field(
        None, description="frequent rows of sharded tables on all ranks; {} takes HugeCTR's rule"
    )
    ingestion: Ingestion | None = Field(None, description="reader hosts; without them batches are always there")
    strategy: Literal["hybrid"] = Field(
        "hybrid", description="hybrid: embedding tables model-parallel, dense layers as the key dense says"
    )
    dense: DenseStrategies | None = Field(
        None, description="strategies of dense layers within a node and between nodes (default: ddp, data-parallel)"
    )
    rows_scaling: Literal["none", "fit"] = Field(
        "none", description="fit: shrink the rows of all tables by one factor until the plan fits"
    )


class DlrmScenario(Scenario):
    """One DLRM training job on one cluster."""

    workload: DlrmSection = Field(description=WORKLOAD)
    precision: PrecisionChoice = Field(default_factory=PrecisionChoice, description=PRECISION)

"""Contents of a scenario file: keys, types, defaults, descriptions.

Pure: nothing is loaded or computed here. Names (of a cluster, a model, a framework) and checks that need more than
one key are the business of `scenarios.resolve`.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from hardware_specs.library import Operation
from inputs.model import Strict
from inputs.quantities import MAX_SEED, Quantity, RankCount, RankNumber, Seconds
from workloads.dlrm.laws.index_laws import IndexLaw
from workloads.dlrm.laws.pooling import PoolingSpread
from workloads.dlrm.model.choices import (
    GradientBuckets,
    HybridEmbedding,
    Ingestion,
    Optimizer,
    Overlap,
    PrecisionChoice,
)
from workloads.dlrm.model.storage import LOAD_FACTOR, ComputeKernel
from workloads.graph.framework import CudaGraph, Pipeline

Placement: TypeAlias = Literal["block", "round_robin", "random"]
LinkClass: TypeAlias = Literal["nvlink", "pcie", "switch", "socket", "ddr", "nic", "spine", "torus"]
LARGEST_SHARE = 0.999
"""Largest share of a link that other jobs take: the rest is a rate that the engine can count."""
BackgroundShare: TypeAlias = Annotated[float, Field(ge=0, le=LARGEST_SHARE)]
SHORTEST_BURST_S = 1e-6
"""Shorter than a message: traffic of a steady share says the same."""
Burst: TypeAlias = Annotated[float, Quantity("s", SHORTEST_BURST_S)]
Seed: TypeAlias = Annotated[int, Field(ge=0, le=MAX_SEED)]
Factor: TypeAlias = Annotated[float, Field(ge=1, le=1e6)]
Iterations: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000)]


Kernels: TypeAlias = Annotated[tuple[ComputeKernel, ...], Field(min_length=1)]
Part: TypeAlias = Annotated[float, Field(ge=1e-9, le=1)]


class TableConstraint(Strict):
    """Constraints of one table, in place of those of all."""

    compute_kernels: Kernels | None = Field(None, description="kernels a planner may give this table")
    cache_load_factor: Part | None = Field(None, description="share of its rows that its cache holds")


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
        ("fused",), description="kernels a planner may give a table: of those that fit, the ones that cost least"
    )
    cache_load_factor: Part = Field(LOAD_FACTOR, description="share of a cached table's rows that its cache holds")
    cache_hit_rate: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="share of a batch's distinct rows found in caches (default: as the popularity of rows says)"
    )
    constraints: dict[str, TableConstraint] = Field(
        default_factory=dict, description="by name of a table: its own compute_kernels or cache_load_factor"
    )


class Workload(Strict):
    """The trained model, its sharding, and the framework."""

    model: str | dict[str, Any] = Field(description="a shipped model, a file, or the model itself")
    alternatives: dict[str, Any] = Field(
        default_factory=dict,
        description="which listed alternative of a quantity of the model or framework to take, e.g. {tables: 4096}",
    )
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
    global_batch_size: Annotated[int, Field(ge=1, le=10**12)] | None = Field(
        None, description="samples per iteration over all ranks (default: the model's local batch x world_size)"
    )
    sharding: Sharding = Field(default_factory=Sharding, description="planner or plan")
    pipeline: Pipeline | None = Field(
        None, description="software pipelining across iterations (default: the framework's, or none)"
    )
    gradient_accumulation: Annotated[int, Field(ge=1, le=100_000)] = Field(
        1,
        description="passes per iteration that share the batch; the last one sums dense gradients",
    )
    overlap: Overlap = Field(default_factory=Overlap, description="operations that overlap within an iteration")
    gradient_buckets: GradientBuckets | None = Field(
        None, description="sizes of the gradient buckets that one all_reduce sums (default: the framework's)"
    )
    cuda_graph: CudaGraph | None = Field(
        None, description="scope of one launch (default: the framework's): none, the network, the iteration"
    )
    hybrid_embedding: HybridEmbedding | None = Field(
        None, description="frequent rows of sharded tables on all ranks; {} takes HugeCTR's rule"
    )
    ingestion: Ingestion | None = Field(None, description="reader hosts; without them batches are always there")
    strategy: Literal["hybrid"] = Field(
        "hybrid", description="hybrid: embedding tables model-parallel, dense layers data-parallel"
    )
    framework: str | dict[str, Any] = Field("neo", description="framework profile: launch cost, buckets, streams")
    optimizer: Optimizer = Field(default_factory=Optimizer, description="optimizers")
    rows_scaling: Literal["none", "fit"] = Field(
        "none", description="fit: shrink the rows of all tables by one factor until the plan fits"
    )


class Bursts(Strict):
    """Traffic of another job that comes and goes."""

    share: Annotated[float, Field(ge=1e-9, le=LARGEST_SHARE)] = Field(
        description="share of every link of the class during a burst"
    )
    on: Burst = Field(description="length of a burst")
    off: Burst = Field(description="pause between two bursts")
    phase: Seconds = Field(0.0, description="when a burst begins, counted from the start of the run")


class NetworkChoice(Strict):
    """Choices that are otherwise made by predicted cost."""

    algorithms: dict[Operation, str] = Field(
        default_factory=dict, description="force an algorithm for an op, e.g. {all_reduce: ring}"
    )
    background: dict[LinkClass, BackgroundShare | Bursts] = Field(
        default_factory=dict,
        description="share of every link of a class that other jobs take, e.g. {nic: 0.2}; or in bursts, e.g. "
        "{nic: {share: 0.8, on: 20 ms, off: 80 ms, phase: 3 ms}}",
    )


class VariationChoice(Strict):
    """Randomness of durations; all zero means every rank and iteration is alike."""

    seed: Seed = Field(0, description="seed of every draw")
    compute_jitter: float = Field(0.0, ge=0, le=1, description="sigma of the log-normal factor on kernels")
    host_jitter: float = Field(0.0, ge=0, le=1, description="sigma of the log-normal factor on host work")
    input_jitter: float = Field(0.0, ge=0, le=1, description="sigma of the log-normal factor on reading batches")
    straggler_ranks: tuple[RankNumber, ...] = Field((), description="ranks that compute slower")
    straggler_slowdown: Factor = Field(1.0, description="factor on the kernels of those ranks")

    @property
    def varies(self) -> bool:
        """Whether iterations differ."""
        return bool(self.compute_jitter or self.host_jitter or self.input_jitter)


class RunChoice(Strict):
    """Number of simulated iterations."""

    iterations: Literal["auto"] | Iterations = Field(
        "auto", description="auto: until two successive windows of 4 iterations differ by less than 0.1 %"
    )
    max_iterations: Iterations = Field(50, description="at most this many with auto")


class Record(Strict):
    """Contents of the timeline."""

    ranks: Literal["all"] | Annotated[tuple[RankNumber, ...], Field(min_length=1)] = Field(
        "all", description="ranks whose tasks go into timeline.parquet"
    )
    iterations: Annotated[int, Field(ge=2, le=1_000_000)] = Field(
        4, description="the last so many iterations are kept; inputs prefetched two ahead need 4 for a whole window"
    )


class Cost(Strict):
    """Prices."""

    gpu_hour_usd: Annotated[float, Field(ge=1e-6, le=1e6)] = Field(
        description="price of a GPU for an hour, USD, with its part of the node; of a rank on CPUs"
    )


class Output(Strict):
    """Outputs of a run."""

    record: Record = Field(default_factory=Record, description="contents of the timeline")


class Scenario(Strict):
    """One training job on one cluster."""

    def to_dict(self) -> dict[str, Any]:
        """The scenario as plain JSON values; reads back as the same scenario."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    @property
    def hash(self) -> str:
        """sha256 of the canonical JSON of `to_dict`, hexadecimal."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    schema_version: Literal[1] = Field(1, alias="schema", description="version of this format")
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="names the run and its output folder")
    cluster: str | dict[str, Any] = Field(description="a shipped cluster, a file, or the cluster itself")
    nodes: RankCount | None = Field(None, description="world_size = nodes x GPUs per node")
    world_size: RankCount | None = Field(None, description="ranks, instead of nodes, for part of a node")
    placement: Placement = Field("block", description="which ranks share a node")
    workload: Workload = Field(description="what is trained")
    precision: PrecisionChoice = Field(default_factory=PrecisionChoice, description="number formats")
    network: NetworkChoice = Field(default_factory=NetworkChoice, description="collective algorithms")
    variation: VariationChoice = Field(default_factory=VariationChoice, description="randomness of durations")
    run: RunChoice = Field(default_factory=RunChoice, description="how many iterations")
    output: Output = Field(default_factory=Output, description="what is kept")
    cost: Cost | None = Field(None, description="prices, e.g. {gpu_hour_usd: 2.5}; without them no result has a cost")

"""Contents of a scenario file: keys, types, defaults, descriptions.

Pure: nothing is loaded or computed here. Names (of a cluster, a model, a framework) and checks that need more than
one key are the business of `scenarios.resolve`. Keys of one kind of workload stand with its family, such as
`scenarios.dlrm.section`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from hardware_specs.library import Operation
from inputs.model import Strict
from inputs.quantities import MAX_SEED, Quantity, RankCount, RankNumber, Seconds
from workloads.graph.choices import GradientBuckets, OptimizerChoice, Precision

Placement: TypeAlias = Literal["block", "round_robin", "random"]
LinkClass: TypeAlias = Literal["nvlink", "pcie", "switch", "socket", "ddr", "nic", "spine", "torus", "site"]
LARGEST_SHARE = 0.999
"""Largest share of a link that other jobs take: the rest is a rate that the engine can count."""
BackgroundShare: TypeAlias = Annotated[float, Field(ge=0, le=LARGEST_SHARE)]
SHORTEST_BURST_S = 1e-6
"""Shorter than a message: traffic of a steady share says the same."""
Burst: TypeAlias = Annotated[float, Quantity("s", SHORTEST_BURST_S)]
Seed: TypeAlias = Annotated[int, Field(ge=0, le=MAX_SEED)]
Factor: TypeAlias = Annotated[float, Field(ge=1, le=1e6)]
Iterations: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000)]
BatchSize: TypeAlias = Annotated[int, Field(ge=1, le=10**12)]


DEFAULT_KIND = "dlrm"
"""Kind of workload of a scenario that states none."""

KIND, WORKLOAD, PRECISION = "kind of workload; its keys depend on it", "what is trained", "number formats"
"""Descriptions of keys that families declare again, with types of their own."""


class Section(Strict):
    """The section ``workload``: keys of all kinds of workload; a family adds its own."""

    kind: str = Field(DEFAULT_KIND, description=KIND)
    model: str | dict[str, Any] = Field(description="a shipped model, a file, or the model itself")
    alternatives: dict[str, Any] = Field(
        default_factory=dict,
        description="which listed alternative of a quantity of the model or framework to take, e.g. {tables: 4096}",
    )
    global_batch_size: BatchSize | None = Field(None, description="samples per iteration over all ranks")
    gradient_accumulation: Annotated[int, Field(ge=1, le=100_000)] = Field(
        1,
        description="passes per iteration that share the batch; the last one sums dense gradients",
    )
    gradient_buckets: GradientBuckets | None = Field(
        None, description="sizes of the gradient buckets that one all_reduce sums (default: the framework's)"
    )
    framework: str | dict[str, Any] = Field("pytorch", description="framework profile: launch cost, buckets, streams")
    optimizer: OptimizerChoice = Field(default_factory=OptimizerChoice, description="optimizers")

    def training_ranks(self, world_size: int) -> int:
        """Ranks that have samples of the batch: all, unless a family has others beside them."""
        return world_size

    def roles(self, world_size: int) -> Mapping[str, int]:  # noqa: ARG002 - of a family with several
        """Numbers of ranks by role, plural nouns, those that train first, in order of ranks; empty: all do the same."""
        return {}


class Bursts(Strict):
    """Traffic of another job that comes and goes."""

    share: Annotated[float, Field(ge=1e-9, le=LARGEST_SHARE)] = Field(
        description="share of every link of the class during a burst"
    )
    on: Burst = Field(description="length of a burst")
    off: Burst = Field(description="pause between two bursts")
    phase: Seconds = Field(0.0, description="when a burst begins, counted from the start of the run")


class NetworkChoice(Strict):
    """Choices that are otherwise made by predicted cost, or that the cluster makes."""

    backend: str | None = Field(
        None,
        description="library of collectives: ccl or mpi between CPUs, nccl or mpi between GPUs "
        "(default: the workload's, or the cluster's)",
    )
    communication_cores: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None, description="cores of each rank for the workers of ccl, which compute nothing (default: the library's)"
    )

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
        "auto",
        description="auto: until two successive windows of 4 iterations differ by less than 0.1 %; of 1 where "
        "iterations are alike",
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
    """One training job on one cluster; each family has a subclass, with the types of its workload and precisions."""

    def to_dict(self) -> dict[str, Any]:
        """The scenario as plain JSON values; reads back as the same scenario.

        The default kind of workload is left out: hashes of scenarios from before there were kinds stay as they were.
        """
        found = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        if self.workload.kind == DEFAULT_KIND:
            found["workload"].pop("kind")
        return found

    @property
    def hash(self) -> str:
        """sha256 of the canonical JSON of `to_dict`, hexadecimal."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    schema_version: Literal[1] = Field(1, alias="schema", description="version of this format")
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="names the run and its output folder")
    cluster: str | dict[str, Any] = Field(description="a shipped cluster, a file, or the cluster itself")
    nodes: RankCount | None = Field(None, description="world_size = nodes x ranks per node (GPUs, or CPU sockets)")
    world_size: RankCount | None = Field(None, description="ranks, instead of nodes, for part of a node")
    placement: Placement = Field("block", description="which ranks share a node")
    site_order: Literal["search"] | tuple[str, ...] | None = Field(
        None,
        description="order in which ranks fill the cluster's sites: a list of all names; search: the order with the "
        "shortest time of messages between pipeline stages (default: the cluster's order)",
    )
    workload: Section = Field(description=WORKLOAD)
    precision: Precision = Field(default_factory=Precision, description=PRECISION)
    network: NetworkChoice = Field(default_factory=NetworkChoice, description="collective algorithms")
    variation: VariationChoice = Field(default_factory=VariationChoice, description="randomness of durations")
    run: RunChoice = Field(default_factory=RunChoice, description="how many iterations")
    output: Output = Field(default_factory=Output, description="what is kept")
    transform: tuple[dict[str, Any], ...] | None = Field(
        None,
        description="changes of the task graph, in order, e.g. [{fuse: layer_*}, {move: {tasks: sum_*, to: sums}}]; "
        "see schedules",
    )
    cost: Cost | None = Field(None, description="prices, e.g. {gpu_hour_usd: 2.5}; without them no result has a cost")

"""Keys of a scenario that serves a DLRM; `scenarios.types` has the keys of all workloads."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from inputs.quantities import Fraction, Quantity
from scenarios.types import KIND, PRECISION, WORKLOAD, BatchSize, Scenario, Section
from simulator.queueing.batching import Routing
from workloads.dlrm.laws.index_laws import IndexLaw
from workloads.dlrm.model.choices import TablePrecision
from workloads.graph.choices import FloatPrecision, Precision
from workloads.inference.settings import HOST_ROW_S, SSD_ROW_S

MOST_SAMPLES = 1024
"""Default of the largest number of samples of a batch."""

GPU_CACHE = 0.2
"""Default of the fraction of each table's rows in a server's cache (TorchRec's share of cached rows)."""

Count: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000)]
Rate: TypeAlias = Annotated[float, Field(ge=1e-3, le=1e9)]


class InferencePrecision(Precision):
    """Number formats."""

    dense: FloatPrecision = Field("fp16", description="arithmetic of the dense layers")
    tables: TablePrecision = Field("fp32", description="weights of the embedding tables")
    all_reduce: Literal["fp32"] = Field("fp32", description="without effect: servers have no all_reduce")


class InferenceSection(Section):
    """The served model, its servers and its requests."""

    kind: Literal["inference"] = Field(description=KIND)
    framework: str | dict[str, Any] = Field("hugectr_2022", description="framework profile: launch cost, kernels")
    indices: IndexLaw | None = Field(
        None,
        description="by which law rows are looked up, instead of the model's: uniform, the name of a reuse histogram, "
        "or e.g. {distribution: zipf, exponent: 1.05}",
    )
    requests_per_s: Rate = Field(description="requests that arrive in a second at all servers together (Poisson)")
    samples_per_request: Count = Field(1, description="samples of a request; they are answered together")
    max_batch: Count | None = Field(None, description=f"samples of a server's batch at most (default: {MOST_SAMPLES})")
    global_batch_size: BatchSize | None = Field(
        None, description="samples of the largest batches of all servers together, instead of max_batch"
    )
    max_wait: Annotated[float, Quantity("s", 0.0, 3600.0)] = Field(
        0.0,
        description="longest time for which the first request of a batch waits for more requests while a server is "
        "idle",
    )
    routing: Routing = Field(
        "shared",
        description="shared: one queue for all servers; round_robin, random: one queue for each server, filled in "
        "turn or at random",
    )
    gpu_cache: Fraction | None = Field(
        None, description=f"fraction of each table's rows in the cache of a GPU (default: {GPU_CACHE}); CPUs have none"
    )
    host_memory: Fraction = Field(
        1.0, description="fraction of each table's rows in the host memory of a node; below 1 the SSDs hold all rows"
    )
    host_threads: Count | None = Field(
        None, description="threads of the host that find rows for a GPU (default: the GPU's share of the cores)"
    )
    host_row_time: Annotated[float, Quantity("s", 0.0, 1.0)] = Field(
        HOST_ROW_S, description="time in which one host thread finds and copies a row in host memory"
    )
    ssd_row_time: Annotated[float, Quantity("s", 0.0, 1.0)] = Field(
        SSD_ROW_S, description="time of one host thread for a row that it reads from SSDs"
    )
    simulated_time: Annotated[float, Quantity("s", 1e-6, 1e6)] = Field(
        10.0, description="simulated time in which requests arrive; results leave out its first tenth"
    )


class InferenceScenario(Scenario):
    """Servers of one DLRM on one cluster."""

    workload: InferenceSection = Field(description=WORKLOAD)
    precision: InferencePrecision = Field(default_factory=InferencePrecision, description=PRECISION)

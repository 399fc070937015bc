"""Keys of a scenario with a captured job; keys of all workloads are in `scenarios.types`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from scenarios.types import KIND, PRECISION, WORKLOAD, BatchSize, Scenario, Section
from workloads.captured.settings import Fusion
from workloads.dlrm.laws.index_laws import IndexLaw
from workloads.dlrm.laws.reuse import UNIFORM
from workloads.graph.choices import Precision


class CapturedPrecision(Precision):
    """Number formats that replace the recorded ones."""

    dense: Literal["fp32", "tf32"] = Field(
        "fp32", description="arithmetic of products and convolutions of fp32 tensors; others compute as recorded"
    )
    all_reduce: Literal["fp32"] = Field("fp32", description="without effect: collectives have recorded tensors")


class CapturedSection(Section):
    """The captured job."""

    kind: Literal["captured"] = Field(description=KIND)
    model: str | dict[str, Any] = Field(description="the job: its folder or job.json, or the packed job itself")
    global_batch_size: BatchSize | None = Field(
        None, description="samples per iteration over all ranks; only as captured (default)"
    )
    framework: str | dict[str, Any] = Field(
        "pytorch_eager", description="framework profile: launch cost, memory that the framework keeps"
    )
    indices: IndexLaw = Field(
        UNIFORM,
        description="by which law rows of tables are looked up: uniform, zipf(1.05), the name of a reuse histogram, or "
        "e.g. {distribution: zipf, exponent: 1.05}",
    )
    fuse: Fusion = Field(
        "none",
        description="kernels that become one: none; elementwise: neighbours on a stream that are element-wise and pass "
        "a tensor, as a compiler fuses them",
    )


class CapturedScenario(Scenario):
    """A captured job on one cluster."""

    workload: CapturedSection = Field(description=WORKLOAD)
    precision: CapturedPrecision = Field(default_factory=CapturedPrecision, description=PRECISION)

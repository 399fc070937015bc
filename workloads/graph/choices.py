"""Choices of a job that scenarios of any family make and a generator takes as they are."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from inputs.model import Strict
from simulator.precisions import SumPrecision
from workloads.graph.framework import BucketBytes
from workloads.graph.optimizers import DenseOptimizerKind

FloatPrecision: TypeAlias = Literal["fp32", "tf32", "fp16", "bf16", "fp8"]


Progress: TypeAlias = Literal["beside", "in_calls"]
"""Place in which collectives advance: beside the computing, on threads of the library; or only while the host waits for
one, in the order in which they were issued."""


class Precision(Strict):
    """Number formats, apart for each use; a family adds its own."""

    dense: FloatPrecision = Field("fp32", description="arithmetic of the dense layers")
    all_reduce: SumPrecision = Field("fp32", description="dense gradients on the wire")


class OptimizerChoice(Strict):
    """Optimizers; a family adds its own."""

    dense: DenseOptimizerKind = Field("sgd", description="optimizer of the dense parameters")


class GradientBuckets(Strict):
    """Sizes at which DDP closes gradient buckets; a missing key means the framework's size."""

    first_bytes: BucketBytes | None = Field(
        None, description="size at which the first bucket is closed (PyTorch: 1 MiB)"
    )
    bytes: BucketBytes | None = Field(
        None, description="size at which other buckets are closed (PyTorch: bucket_cap_mb, 25 MiB)"
    )


def largest_share(samples: int, parts: int) -> int:
    """Samples of the largest of ``parts`` shares, which differ by one sample at most."""
    return -(-samples // parts)

"""Measurements of collectives on a machine: points, and constants fitted to many of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from hardware_specs.bounds import Amount, Bandwidth, Name, Ratio
from hardware_specs.library import Operation
from inputs.model import Strict, problem
from inputs.quantities import Seconds
from inputs.sourced import Grade, Sourced


class CollectivePoint(Strict):
    """One measured collective; ``bytes`` as nccl-tests defines them."""

    op: Operation
    ranks: Annotated[int, Field(ge=2)]
    ranks_per_node: Annotated[int, Field(ge=1)]
    bytes: Amount
    source: Name
    grade: Grade
    note: str = ""

    @property
    def shape(self) -> tuple[str, int, int]:
        """Operation, ranks, ranks per node: a machine has one point for each."""
        return self.op, self.ranks, self.ranks_per_node

    @property
    def nodes(self) -> int:
        """Number of nodes the ranks fill."""
        return -(-self.ranks // self.ranks_per_node)


class CalibrationPoint(CollectivePoint):
    """A measured large message, from which the achievable share of the links' rate follows."""

    algbw_bytes_per_s: Bandwidth | None = None
    """Message size divided by its time, measured on this machine."""
    share: Ratio | None = None
    """Share of the links' rate that the message reaches; default: derived from ``algbw_bytes_per_s`` and the links of
    the file. The share of an edited link stays the same, so that its rate changes the time."""

    @property
    def time_s(self) -> float | None:
        """Duration of the collective, measured on this machine, seconds."""
        return None if self.algbw_bytes_per_s is None else self.bytes / self.algbw_bytes_per_s

    @model_validator(mode="after")
    def _says_a_rate(self) -> CalibrationPoint:
        """Require a rate or a share."""
        if self.algbw_bytes_per_s is None and self.share is None:
            raise problem("neither a rate nor a share", expected="algbw_bytes_per_s or share")
        return self


class LatencyPoint(CollectivePoint):
    """A small message: the cost of starts and hops."""

    time_s: Annotated[Seconds, Field(gt=0)]


class FittedCollectives(Strict):
    """Results of `dlrmsim calibrate collectives`: one value of each for all sizes and numbers of ranks.

    Takes the place of ``calibration``. Fractions are of links inside a node and of those between nodes, by operation;
    factors multiply the library's latencies.
    """

    near_fraction: dict[Operation, Sourced[Ratio]] = Field(default_factory=dict)
    network_fraction: dict[Operation, Sourced[Ratio]] = Field(default_factory=dict)
    copy_bytes_per_s: Sourced[Bandwidth]
    """Rate at which a kernel copies the member's own part beside its transfers; it matters for few ranks."""
    base_factor: Sourced[Ratio]
    near_hop_factor: Sourced[Ratio]
    network_hop_factor: Sourced[Ratio]
    post_factor: Sourced[Ratio]
    launch_s: dict[str, Sourced[Seconds]] = Field(default_factory=dict)
    """Overhead of each source's method on every collective it timed; no part of a prediction for a training job."""
    residuals: str = ""
    """Errors and number of the fitted rows, and the most nodes of one."""

"""Measurements of collectives on a machine: points, and constants fitted to many of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hardware_specs.bounds import (
    Amount,
    Bandwidth,
    Latency,
    MeasuredTime,
    Name,
    Number,
    Percent,
    PerNode,
    Ratio,
    Share,
)  # fmt: skip
from hardware_specs.library import Operation
from inputs.model import Strict, problem
from inputs.quantities import MAX_RANKS, Quantity
from inputs.sourced import Grade, Sourced

MOST_SPAN = 0.5
"""The links between two halves of a machine grow at least with the root of its nodes."""
Shares = Literal["ring", "tree", "nvls", "direct", "sends"]
"""Algorithms that reach the same share of their links: rings; trees; those whose switches add; messages straight to
several receivers, or to one."""


class CollectivePoint(Strict):
    """One measured collective; ``bytes`` as nccl-tests defines them."""

    op: Operation
    ranks: Annotated[int, Quantity("count", 2, MAX_RANKS)]
    ranks_per_node: PerNode
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

    time_s: MeasuredTime


class FittedRows(Strict):
    """The timed collectives that a fit was made on."""

    number: Number
    nodes: Number
    """Most nodes of one."""
    node_ranks: Number
    """Most ranks of a node."""
    median_error_pct: Annotated[Percent, Field(ge=0)]
    worst_error_pct: Annotated[Percent, Field(ge=0)]

    def __str__(self) -> str:
        """One clause."""
        where = "1 node" if self.nodes == 1 else f"up to {self.nodes:g} nodes"
        errors = f"median error {self.median_error_pct:.1f} %, worst {self.worst_error_pct:.0f} %"
        return f"{errors}, of {self.number:g} rows on {where} of up to {self.node_ranks:g} ranks"


class FittedCollectives(Strict):
    """Results of `dlrmsim calibrate collectives`: one value of each for all sizes and numbers of ranks.

    Takes the place of ``calibration`` for the links it has fractions of. Fractions are of links inside a node and of
    those between nodes, by algorithm; of libraries of host messages, whose operations differ in what hosts do beside,
    by operation. Factors multiply the library's latencies.
    """

    near_fraction: dict[Shares | Operation, Sourced[Share]] = Field(default_factory=dict)
    network_fraction: dict[Shares | Operation, Sourced[Share]] = Field(default_factory=dict)
    together_fraction: Sourced[Share] | None = None
    """Share of both that is left where several GPUs of each of several nodes keep links inside and NICs busy at once;
    default: all."""
    ll_fraction: Sourced[Share] | None = None
    """Share left of what LL reaches between nodes by the library's constants; default: all."""
    span_exponent: Sourced[Annotated[float, Field(ge=0, le=MOST_SPAN)]] | None = None
    """The share of links between nodes falls as ``nodes ** -span_exponent`` for all algorithms but rings, whose members
    send to their neighbours only; default: it does not."""
    copy_bytes_per_s: Sourced[Bandwidth]
    """Rate at which a kernel copies the member's own part beside its transfers; it matters for few ranks."""
    base_factor: Sourced[Ratio]
    near_hop_factor: Sourced[Ratio]
    network_hop_factor: Sourced[Ratio]
    post_factor: Sourced[Ratio]
    launch_s: dict[str, Sourced[Latency]] = Field(default_factory=dict)
    """Overhead of each source's method on every collective it timed; no part of a prediction for a training job."""
    rows: FittedRows | None = None
    """Rows of the fit; one that was carried over from another machine has none."""

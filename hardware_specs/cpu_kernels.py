"""Costs of kernels and collectives on a CPU, as ``dlrmsim calibrate host`` fits them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field, field_validator

from hardware_specs.bounds import Amount, Latency, MeasuredTime, Name, Number, Percent, UnitCost
from inputs.errors import nearest_name
from inputs.model import Strict, problem
from inputs.sourced import Grade, Sourced

if TYPE_CHECKING:  # loading a spec takes no numpy
    import numpy as np
    from numpy.typing import NDArray

KernelClass = Literal[
    "gemm", "batched", "lookup", "update", "stream", "columns", "transpose", "gather", "scatter", "bucketize", "recat",
    "optimizer", "host",
]  # fmt: skip
"""Kinds of kernels; `simulator.compute.cpu_amounts` says which operators they are, and what costs count."""


MOST_SLOWER = 1000.0
"""Largest factor on a collective's time within an iteration."""

Count: TypeAlias = "float | NDArray[np.float64]"
"""An amount of a kernel: a scalar, or one per rank ``[P]``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelAmounts:
    """Amounts of a kernel, by the names that costs have; a kind of kernel each (`AMOUNTS`)."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Names of the amounts, in the order in which they are summed."""
        return tuple(of.name for of in fields(cls))

    def items(self) -> Iterator[tuple[str, Count]]:
        """Names and amounts."""
        return ((name, getattr(self, name)) for name in self.names())


@dataclass(frozen=True, slots=True, kw_only=True)
class PassAmounts(KernelAmounts):
    """Pass over memory; ``call`` is 0 where there is nothing to do."""

    call: Count
    byte: Count
    core_miss_byte: Count
    shared_miss_byte: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnAmounts(PassAmounts):
    """Pass over columns, which lie in parts and are copied in pieces."""

    part: Count
    piece: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerAmounts(PassAmounts):
    """Pass of an optimizer without state, or of one with a state."""

    state_call: Count
    state_byte: Count
    state_core_miss_byte: Count
    state_shared_miss_byte: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductAmounts(KernelAmounts):
    """Matrix product; ``left``, ``right`` and ``result``: numbers of the three matrices, ``row``: rows of the left."""

    call: Count
    row: Count
    left: Count
    right: Count
    result: Count
    core_miss_byte: Count
    shared_miss_byte: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmAmounts(ProductAmounts):
    """One product; ``tail``: numbers left where rows fill no whole vectors; ``transposed``: numbers transposed."""

    flop: Count
    tail: Count
    transposed: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchedAmounts(ProductAmounts):
    """Many small products at once, by vectors; ``short_transposed``: left numbers of short sums of a transposed one."""

    product: Count
    vector: Count
    short_transposed: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupAmounts(KernelAmounts):
    """Lookup in tables."""

    call: Count
    lookup: Count
    byte: Count
    core_miss: Count
    core_miss_byte: Count
    shared_miss: Count
    shared_miss_byte: Count
    output_byte: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateAmounts(KernelAmounts):
    """Update of rows of tables and of their optimizer's states."""

    call: Count
    lookup: Count
    sorted_shared_miss_byte: Count
    gathered_byte: Count
    gradient_core_miss_byte: Count
    row: Count
    state_row: Count
    weight_byte: Count
    state_weight_byte: Count
    state_byte: Count
    core_miss: Count
    core_miss_byte: Count
    shared_miss: Count
    shared_miss_byte: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class RecatAmounts(KernelAmounts):
    """Reordering of received indices and bags."""

    call: Count
    shift: Count
    index_byte: Count
    index_core_miss_byte: Count
    bag_byte: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAmounts(KernelAmounts):
    """Work of the host around kernels and collectives."""

    launch: Count
    cold_launch: Count
    collective: Count
    issue: Count
    issue_byte: Count


AMOUNTS: Mapping[KernelClass, type[KernelAmounts]] = {
    "gemm": GemmAmounts,
    "batched": BatchedAmounts,
    "lookup": LookupAmounts,
    "update": UpdateAmounts,
    "stream": PassAmounts,
    "columns": ColumnAmounts,
    "transpose": PassAmounts,
    "gather": PassAmounts,
    "scatter": PassAmounts,
    "bucketize": PassAmounts,
    "recat": RecatAmounts,
    "optimizer": OptimizerAmounts,
    "host": HostAmounts,
}
"""Amounts in which each kind of kernel is counted; a cost of any other amount is refused."""


class KernelCosts(Strict):
    """Costs of one kind of kernel; its time is the sum of amounts times costs."""

    seconds_per: dict[Name, UnitCost]
    """Seconds per unit of each amount (``call``, ``flop``, ``byte``...); an absent amount costs nothing."""
    rows: Number
    """Number of measurements in the fit."""
    median_error_pct: Annotated[Percent, Field(ge=0)]
    """Median absolute error of the fit, per cent."""
    worst_error_pct: Percent
    """Error of the worst measurement, per cent."""
    noise_pct: Annotated[Percent, Field(ge=0)]
    """Median over measurements of half the interquartile range of repeats over their median, per cent."""


class CpuKernels(Strict):
    """Costs of kernels and of collectives for one number of threads per rank."""

    threads: Number
    source: Name
    grade: Grade
    note: str = ""
    core_cache_bytes: Sourced[Amount]
    """Last cache that belongs to one core (L2), bytes."""
    shared_cache_bytes: Sourced[Amount]
    """Cache that cores share (L3), as far as lookups find it effective, bytes."""
    collective_cores: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Fraction of a member's cores that a collective uses while its data move: CPU time over time."""
    collective_slower: Annotated[float, Field(ge=1, le=MOST_SLOWER)] = 1.0
    """Factor on the time in which a collective's data move within an iteration, against a collective alone."""
    posting_s: Latency = 0.0
    """Core time that a rank spends for each collective it issues, seconds: its threads wake up and post messages."""
    collective_wait_s: Latency = 0.0
    """Latency of each collective within an iteration beyond that of a collective alone, seconds: threads wake up."""
    shared_wait_s: Latency = 0.0
    """``collective_wait_s`` of ranks that share cores, seconds."""
    yardstick_s: MeasuredTime | None = None
    """Median time of the trainer's yardstick (a small training step) during the calibration, seconds."""
    costs: dict[KernelClass, KernelCosts]

    @field_validator("costs")
    @classmethod
    def _of_what_is_counted(cls, costs: dict[KernelClass, KernelCosts]) -> dict[KernelClass, KernelCosts]:
        """Each cost is named after an amount of its kind."""
        for kind, of in costs.items():
            known = sorted(AMOUNTS[kind].names())
            for name in of.seconds_per:
                if name not in known:
                    raise problem(
                        f"no {kind} is counted in {name}",
                        expected=f"one of {', '.join(known)}",
                        nearest=nearest_name(name, known),
                        key=f"{kind}.seconds_per.{name}",
                    )
        return costs

"""Costs of kernels and collectives on a CPU, as ``dlrmsim calibrate host`` fits them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, field_validator

from hardware_specs.bounds import Amount, Latency, MeasuredTime, Name, Number, Percent, UnitCost
from inputs.errors import nearest_name
from inputs.model import Strict, problem
from inputs.sourced import Grade, Sourced

KernelClass = Literal[
    "gemm", "batched", "lookup", "update", "stream", "columns", "transpose", "gather", "scatter", "bucketize", "recat",
    "optimizer", "host",
]  # fmt: skip
"""Kinds of kernels; `simulator.compute.cpu_amounts` says which operators they are, and what costs count."""


MOST_SLOWER = 1000.0
"""Largest factor on a collective's time within an iteration."""

_PASS = frozenset({"call", "byte", "core_miss_byte", "shared_miss_byte"})
_PRODUCT = frozenset({"call", "row", "left", "right", "result", "core_miss_byte", "shared_miss_byte"})
_ROWS = frozenset({"call", "lookup", "core_miss", "core_miss_byte", "shared_miss", "shared_miss_byte"})
AMOUNTS: Mapping[KernelClass, frozenset[str]] = {
    "gemm": _PRODUCT | {"flop", "tail", "transposed"},
    "batched": _PRODUCT | {"product", "vector", "short_transposed"},
    "lookup": _ROWS | {"byte", "output_byte"},
    "update": _ROWS
    | {"sorted_shared_miss_byte", "gathered_byte", "gradient_core_miss_byte"}
    | {"row", "state_row", "weight_byte", "state_weight_byte", "state_byte"},
    "stream": _PASS,
    "columns": _PASS | {"piece", "part"},
    "transpose": _PASS,
    "gather": _PASS,
    "scatter": _PASS,
    "bucketize": _PASS,
    "recat": frozenset({"call", "shift", "index_byte", "index_core_miss_byte", "bag_byte"}),
    "optimizer": _PASS | {f"state_{name}" for name in _PASS},
    "host": frozenset({"launch", "cold_launch", "collective", "issue", "issue_byte"}),
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
            for name in of.seconds_per:
                if name not in AMOUNTS[kind]:
                    raise problem(
                        f"no {kind} is counted in {name}",
                        expected=f"one of {', '.join(sorted(AMOUNTS[kind]))}",
                        nearest=nearest_name(name, AMOUNTS[kind]),
                        key=f"{kind}.seconds_per.{name}",
                    )
        return costs

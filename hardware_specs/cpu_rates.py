"""Rates of a CPU socket from data sheets and published figures, for sockets whose kernels nobody measured."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator

from hardware_specs.bounds import Amount, Bandwidth, ComputeRate, Latency, Share
from inputs.errors import InputError
from inputs.model import Strict, problem
from inputs.sourced import Sourced

CpuPrecision = Literal["fp32", "bf16"]
"""Number formats that cores multiply matrices in."""
AS_FP32 = ("fp32", "tf32")
"""Precisions that a CPU computes as fp32."""


class CpuRates(Strict):
    """Rates of one socket with all its cores."""

    peak_flops: dict[CpuPrecision, Sourced[ComputeRate]]
    """Peak of the vector units at their clock under load (AVX-512); a format the cores lack is absent."""
    gemm_fraction: Sourced[Share]
    """Part of that peak that GEMMs of an MLP reach."""
    small_gemm_fraction: Sourced[Share]
    """Part of it that many small products at once reach (dot interaction)."""
    memory_bytes_per_s: Sourced[Bandwidth]
    """Rate of STREAM."""
    cache_bytes: Sourced[Amount]
    """Cache that all cores share."""
    gather_bytes_per_s: Sourced[Bandwidth]
    """Rate of kernels that move single values (indexing), bytes of the values."""
    kernel_start_s: Sourced[Latency]
    """Start of a parallel kernel on all cores, and its end."""
    serial_row_s: Sourced[Latency]
    """Time of one core for each row of an update that runs on it alone (sparse gradients summed, then added)."""

    @field_validator("peak_flops")
    @classmethod
    def _computes_in_fp32(cls, rates: dict[CpuPrecision, Sourced[float]]) -> dict[CpuPrecision, Sourced[float]]:
        """Every CPU does."""
        if "fp32" not in rates:
            raise problem("the key is missing", key="fp32", expected="the peak rate in fp32")
        return rates

    def peak_flops_per_s(self, precision: str) -> float:
        """Peak of a precision, in operations per second; tf32 counts as fp32.

        Raises:
            InputError: the cores do not compute in it.
        """
        known: dict[str, float] = {name: rate.value for name, rate in self.peak_flops.items()}
        name = "fp32" if precision in AS_FP32 else precision
        if name not in known:
            expected = "one of " + ", ".join(sorted(known))
            raise InputError("these CPUs do not compute in this precision", given=precision, expected=expected)
        return known[name]

"""GPU and CPU: peaks, and the fractions of them that kernels reach."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator, model_validator

from hardware_specs.bounds import Amount, Bandwidth, Clock, ComputeRate, Latency, Name, Number, Ratio, Share
from hardware_specs.cpu_kernels import CpuKernels
from hardware_specs.cpu_rates import CpuRates
from inputs.errors import InputError
from inputs.model import Strict, problem
from inputs.sourced import Sourced

Precision = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8"]
"""Number format a GPU has a peak rate for; dense, tensor cores where the format has them (fp32: it has none)."""

Architecture = Literal[
    "kepler", "maxwell", "pascal", "volta", "ampere", "ada", "hopper", "blackwell", "cdna3", "cdna4",
]  # fmt: skip
AMD: tuple[Architecture, ...] = ("cdna3", "cdna4")
"""Architectures of AMD Instinct (gfx942, gfx950); all further architectures are of NVIDIA."""


class AchievedRates(Strict):
    """Rates that kernels of this GPU reach, as machine constants (not per model)."""

    gemm_fraction: Sourced[Share]
    """Best tiles of GEMMs, of the peak of their precision."""
    gemm_balanced_tile: Sourced[Ratio]
    """Edge of the square GEMM tile whose operands are loaded as fast as the peak computes, elements."""
    gemm_memory_fraction: Sourced[Share]
    """Fraction of the HBM peak that memory-bound GEMMs reach."""
    gemm_start_s: Sourced[Latency]
    """Start of a GEMM kernel: launch, first loads, last stores."""
    gemm_unaligned_fraction: Sourced[Share]
    """Fraction of its rate that a GEMM on tensor cores reaches when its rows do not start at multiples of 16 bytes."""
    embedding_fraction: Sourced[Share]
    """Rate of embedding lookups and fused updates, as a fraction of the HBM peak."""
    stream_fraction: Sourced[Share]
    """Elementwise and optimizer kernels, of the HBM peak."""
    kernel_floor_s: Sourced[Latency]
    """Duration of the smallest kernel; what others take to start."""
    gemm_fp8_fraction: Sourced[Share] | None = None
    """Best tiles of GEMMs in fp8, of its peak; by default `gemm_fraction`."""
    sustained_fraction: Sourced[Share] | None = None
    """Rate of tensor cores in a training run, divided by their rate in a benchmark of one kernel; the power limit
    lowers the clock. The default is 1."""

    def gemm_fraction_in(self, precision: str) -> Sourced[Share]:
        """The fraction of the peak that the best tiles reach in a precision."""
        return (self.gemm_fp8_fraction or self.gemm_fraction) if precision == "fp8" else self.gemm_fraction


class Gpu(Strict):
    """One GPU."""

    name: Name
    description: str = ""
    architecture: Architecture | None = None
    """Generation of the chip, by which rates of kernels and tables of NCCL's tuner are chosen."""
    memory_bytes: Sourced[Amount]
    """HBM capacity."""
    usable_memory_fraction: Sourced[Share]
    """Fraction of `memory_bytes` that is left for the framework and the job (ECC, driver and context taken off)."""
    memory_bytes_per_s: Sourced[Bandwidth]
    """HBM peak."""
    sms: Sourced[Number]
    """Streaming multiprocessors; compute units of a GPU of AMD."""
    l2_bytes: Sourced[Amount]
    l2_bytes_per_s: Sourced[Bandwidth] | None = None
    """Rate at which the L2 serves reads of all SMs; the HBM peak where it is not known."""
    peak_flops: dict[Precision, Sourced[ComputeRate]]
    """Dense peak per precision; a precision the GPU lacks is absent."""
    achieved: AchievedRates

    @field_validator("peak_flops")
    @classmethod
    def _computes_in_fp32(cls, rates: dict[Precision, Sourced[float]]) -> dict[Precision, Sourced[float]]:
        """Every GPU does, and everything without a format of its own falls back to it."""
        if "fp32" not in rates:
            raise problem("the key is missing", key="fp32", expected="the peak rate in fp32")
        return rates

    @model_validator(mode="after")
    def _l2_is_smaller(self) -> Gpu:
        """A cache holds a part of the memory behind it."""
        if self.l2_bytes.value > self.memory_bytes.value:
            raise problem("the L2 is larger than the memory", expected="at most memory_bytes", key="l2_bytes")
        return self

    @property
    def is_of_amd(self) -> bool:
        """Whether the GPU is one of AMD (`AMD`), whose kernels come from ROCm and were not timed."""
        return self.architecture in AMD

    @property
    def embedding_bytes_per_s(self) -> float:
        """HBM rate of embedding lookups and fused updates."""
        return self.memory_bytes_per_s.value * self.achieved.embedding_fraction.value

    def peak_flops_per_s(self, precision: str) -> float:
        """Dense peak of a precision, in operations per second.

        tf32 is a way to compute on fp32 data: a GPU without it computes in fp32.

        Raises:
            InputError: the GPU does not have the precision.
        """
        known: dict[str, float] = {name: rate.value for name, rate in self.peak_flops.items()}
        return known[self.computes_in(precision)]

    def computes_in(self, precision: str) -> str:
        """The format the GPU computes ``precision`` in: itself, or fp32 for a tf32 it does not have.

        Raises:
            InputError: the GPU does not have the precision.
        """
        known = {str(name) for name in self.peak_flops}
        name = "fp32" if precision == "tf32" and "tf32" not in known else precision
        if name not in known:
            expected = "one of " + ", ".join(sorted(known))
            raise InputError(f"{self.name} does not compute in this precision", given=precision, expected=expected)
        return name


class Cpu(Strict):
    """One CPU socket."""

    name: Name
    description: str = ""
    vendor: Literal["intel", "amd", "arm", "other"]
    cores: Sourced[Number]
    base_clock_hz: Sourced[Clock]
    turbo_clock_hz: Sourced[Clock]
    host_time_factor: Sourced[Ratio]
    """Multiplies the host times of the framework profile (kernel launch, Python); 1 where nothing was measured."""
    kernels: tuple[CpuKernels, ...] = ()
    """Kernel costs by number of threads, as `dlrmsim calibrate host` fits them; empty: nothing was measured."""
    rates: CpuRates | None = None
    """Rates from data sheets, for sockets without `kernels`; with neither no training can be predicted."""

    @property
    def computes(self) -> bool:
        """Whether the times of kernels on it are known."""
        return bool(self.kernels) or self.rates is not None

    @model_validator(mode="after")
    def _turbo_is_faster(self) -> Cpu:
        """The turbo clock is the faster one."""
        if self.turbo_clock_hz.value < self.base_clock_hz.value:
            raise problem("slower than the base clock", expected="base_clock_hz or more", key="turbo_clock_hz")
        return self

"""Times of a GPU's kernels.

    GEMM          by shape: tiles, waves, split-K (`simulator.compute.gemm`)
    streams       start + bytes / rate: element-wise kernels, optimizers, copies
    attention     start + arithmetic or bytes, whichever is longer (`simulator.compute.attention`)
    series        one kernel after the other
    convolutions  the fastest algorithm: matrix product or Winograd (`simulator.compute.convolution`)
    interaction   start + arithmetic or bytes, whichever is longer
    embeddings    max(start, bytes / rate)

The constants are the GPU's named ``achieved`` ones (`hardware_specs.processors.AchievedRates`). The smallest kernel is
the start of a kernel. A kernel without any work (a rank that holds no table) is not launched and takes no time.
docs/reference/compute.md has the errors of the models on measured kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardware_specs.processors import Gpu
from hardware_specs.types import Node
from simulator.compute.attention import GEMMS_OF_AMPERE, attention_fraction, why_unmeasured
from simulator.compute.convolution import ConvolutionRates, convolution_s, fractions_of, has_fractions
from simulator.compute.gemm import GemmRates, aligned_elements, gemm_s
from simulator.compute.model import COMPUTE_MODELS
from simulator.operators import (
    Amount,
    Attention,
    CacheFill,
    Convolution,
    Copy,
    Delay,
    DenseOptimizer,
    Elementwise,
    EmbeddingLookup,
    EmbeddingUpdate,
    Gemm,
    HostTraffic,
    HostWork,
    Ingest,
    Interaction,
    Marker,
    Measured,
    SsdRead,
)
from simulator.precisions import BYTES_PER_ELEMENT
from simulator.work import KernelSeries, Operator

UPDATE_OVER_LOOKUP = 0.752
"""Memory rate of embedding updates over that of lookups: 1583 of 2105 GB/s on H100 (``python -m benchmarks
embedding``).

FBGEMM's own benchmark has 1197.9 GB/s forward and 859.5 GB/s forward and backward together (bench/tbe/README.md, GPU
not stated; it counts the backward pass as twice the forward bytes): 0.63 by that count, in which sorting is free."""

UPDATE_KERNELS = 9
"""Kernels that an update runs at least: linearise, sort, run lengths (2), prefix sum (2), long runs, rows by block,
rows by warp (FBGEMM in the TorchRec trace of 8 V100, facebookresearch/param et_replay tests)."""

L2_OVER_MEMORY = 1.0
"""L2 rate over the peak of the memory where nobody measured the L2's: rows that it holds are not read faster than the
memory could send them.

GPUs whose L2 was measured reach 2.0 (H200: 9.7 of 4.8 TB/s) to 6.0 (L40; te42kyfo/gpu-benches gpu-l2-cache) times
their memory, falling from generation to generation with faster memory (A100 2.7, H200 2.0), so that no one of them
stands for another; lookups have never been timed on a GPU without a measured L2."""


@dataclass(frozen=True, slots=True)
class GpuModel:
    """Kernel times of one GPU and its host thread.

    Attributes:
        node: the node it sits in (PCIe link, CPU).
        launch_s: host time of one kernel launch, from the framework profile.
        gemm_speed: multiplies the rates of GEMM tiles (1; 1.1 for 10 % better).
        memory_speed: multiplies the HBM rates.
        pcie_speed: multiplies the PCIe rate.
        ssd_speed: multiplies the rates of SSDs.
        host_speed: divides host times.
        kernel_starts: multiplies the starts of kernels other than GEMMs (1; 0: kernels start at once).
    """

    gpu: Gpu
    node: Node
    launch_s: float
    gemm_speed: float = 1.0
    memory_speed: float = 1.0
    pcie_speed: float = 1.0
    ssd_speed: float = 1.0
    host_speed: float = 1.0
    kernel_starts: float = 1.0

    def duration_s(self, operator: Operator) -> Amount:
        """Duration in seconds: a scalar, or ``[P]`` when an amount of the operator is ``[P]``.

        Raises:
            InputError: the GPU does not compute in the operator's precision.
        """
        return _DURATIONS[type(operator)](self, operator)

    def outside_range(self, operator: Operator) -> str | None:
        """Reason why the operator is outside the range of the measured constants, or None."""
        if isinstance(operator, KernelSeries):
            return next((why for _, kernel in operator.kernels if (why := self.outside_range(kernel))), None)
        if isinstance(operator, Attention):
            return why_unmeasured(self.gpu.name, self.gpu.architecture, operator)
        if isinstance(operator, Gemm) and operator.precision == "tf32" and "tf32" not in self.gpu.peak_flops:
            return f"{self.gpu.name} has no tf32: such GEMMs compute in fp32"
        if isinstance(operator, Gemm) and operator.precision == "fp8" and self.gpu.achieved.gemm_fp8_fraction is None:
            return "no GEMM in fp8 was measured: they reach the share of the peak that 16-bit ones do"
        if isinstance(operator, Convolution) and not has_fractions(self.gpu.architecture, operator.precision):
            return f"no convolution in {operator.precision} was measured on {self.gpu.name}: they count as on volta"
        return None

    def improved(self, speed: Mapping[str, float]) -> GpuModel:
        """The same machine with ``GEMM``, ``HBM``, ``PCIe/DDR``, ``SSD`` or ``host`` faster by the given factors."""
        return replace(
            self,
            gemm_speed=speed.get("GEMM", 1.0),
            memory_speed=speed.get("HBM", 1.0),
            pcie_speed=speed.get("PCIe/DDR", 1.0),
            ssd_speed=speed.get("SSD", 1.0),
            host_speed=speed.get("host", 1.0),
        )

    def without_starts(self) -> GpuModel:
        """The same GPU without kernel starts."""
        return replace(self, kernel_starts=0.0)

    @property
    def kernel_start_s(self) -> float:
        """Time of the smallest kernel."""
        return self.gpu.achieved.kernel_floor_s.value * self.kernel_starts

    @property
    def stream_bytes_per_s(self) -> float:
        """HBM rate of streaming kernels."""
        return self.gpu.memory_bytes_per_s.value * self.gpu.achieved.stream_fraction.value * self.memory_speed

    @property
    def embedding_bytes_per_s(self) -> float:
        """HBM rate of embedding kernels."""
        return self.gpu.embedding_bytes_per_s * self.memory_speed

    @property
    def l2_bytes_per_s(self) -> float:
        """Rate at which the L2 serves all SMs."""
        known = self.gpu.l2_bytes_per_s
        rate = known.value if known is not None else L2_OVER_MEMORY * self.gpu.memory_bytes_per_s.value
        return rate * self.memory_speed

    @property
    def pcie_bytes_per_s(self) -> float:
        """Rate of a large pinned copy over the GPU's PCIe link."""
        return self.node.gpu_link_bytes_per_s * self.pcie_speed

    def pcie_s(self, traffic: HostTraffic | None) -> Amount:
        """Seconds on the GPU's PCIe link alone; both directions at once."""
        if traffic is None:
            return 0.0
        return np.maximum(traffic.read_bytes, traffic.write_bytes) / self.pcie_bytes_per_s

    def ssd_s(self, traffic: HostTraffic | None) -> Amount:
        """Seconds on the node's SSDs alone, reads after writes; 0 where the node has none."""
        if traffic is None or self.node.ssd is None:
            return 0.0
        ssd = self.node.ssd
        alone_s = (
            traffic.ssd_read_bytes / ssd.read_bytes_per_s.value + traffic.ssd_write_bytes / ssd.write_bytes_per_s.value
        )
        return alone_s / self.ssd_speed

    def host_s(self, traffic: HostTraffic | None) -> Amount:
        """Seconds that a kernel spends on rows that are not in device memory."""
        return self.pcie_s(traffic) + self.ssd_s(traffic)

    def flops_per_s(self, precision: str) -> float:
        """Arithmetic rate of the best GEMM tiles on all SMs.

        Raises:
            InputError: the GPU does not compute in ``precision``.
        """
        fraction = self.gpu.achieved.gemm_fraction_in(precision).value
        return self.gpu.peak_flops_per_s(precision) * fraction * self.gemm_speed

    def gemm_rates(self, precision: str) -> GemmRates:
        """Rates that GEMMs reach in a precision.

        Raises:
            InputError: the GPU does not compute in ``precision``.
        """
        return gemm_rates(self.gpu, precision, self.gemm_speed, self.memory_speed)

    def _kernel(self, *parts_s: Amount, kernels: int = 1) -> Amount:
        """The longest part, at least the floor of so many kernels; 0 where all parts are 0."""
        longest = parts_s[0]
        for part in parts_s[1:]:
            longest = np.maximum(longest, part)
        floor_s = kernels * self.kernel_start_s
        timed = np.where(np.asarray(longest) > 0.0, np.maximum(longest, floor_s), 0.0)
        return timed if timed.ndim else float(timed)

    def _started(self, busy_s: Amount) -> Amount:
        """The start of a kernel and its work; 0 where that is nothing."""
        timed = np.where(np.asarray(busy_s) > 0.0, busy_s + self.kernel_start_s, 0.0)
        return timed if timed.ndim else float(timed)

    def _streamed(self, traffic_bytes: Amount) -> Amount:
        return self._started(traffic_bytes / self.stream_bytes_per_s)

    def _gemm(self, operator: Gemm) -> Amount:
        return gemm_s(operator, self.gemm_rates(operator.precision))

    def _attention(self, operator: Attention) -> Amount:
        fraction = attention_fraction(self.gpu.architecture, operator)
        if self.gpu.is_of_amd:
            fraction *= self.gpu.achieved.gemm_fraction.value / GEMMS_OF_AMPERE
        rate = self.gpu.peak_flops_per_s(operator.precision) * fraction * self.gemm_speed
        return self._started(np.maximum(operator.flops / rate, operator.bytes / self.stream_bytes_per_s))

    def _series(self, operator: KernelSeries) -> Amount:
        model = self._sustained
        return sum(count * model.duration_s(kernel) for count, kernel in operator.kernels)

    @property
    def _sustained(self) -> GpuModel:
        """The same GPU at the clock of kernels that follow each other without pause."""
        known = self.gpu.achieved.sustained_fraction
        return self if known is None else replace(self, gemm_speed=self.gemm_speed * known.value)

    def _convolution(self, operator: Convolution) -> Amount:
        rates = ConvolutionRates(
            gemm=self.gemm_rates(operator.precision),
            fractions=fractions_of(self.gpu.architecture, self.gpu.computes_in(operator.precision)),
            stream_bytes_per_s=self.stream_bytes_per_s,
            kernel_start_s=self.kernel_start_s,
        )
        return convolution_s(operator, rates)

    def _lookup(self, operator: EmbeddingLookup) -> Amount:
        """Rows that miss the L2 come from memory, all pass through the L2; whichever takes longer."""
        l2_bytes, others = self.gpu.l2_bytes.value, operator.output_bytes + operator.index_bytes
        read = operator.row_bytes if operator.missed is None else operator.missed.at(l2_bytes)
        through_s = operator.factor * (operator.row_bytes + others) / self.l2_bytes_per_s
        on_device_s = self._kernel(operator.factor * (read + others) / self.embedding_bytes_per_s, through_s)
        return on_device_s + self.host_s(operator.host)

    def _update(self, operator: EmbeddingUpdate) -> Amount:
        # Reads of a block in random order hit a cache of the L2's size with probability L2 / block.
        held = self.gpu.l2_bytes.value / np.maximum(operator.gradient_block_bytes, self.gpu.l2_bytes.value)
        read_again = operator.repeated_gradient_bytes * (1.0 - held)
        rows = operator.weight_bytes + operator.state_bytes + operator.padding_bytes
        traffic = operator.gradient_bytes + read_again + rows
        rate = self.embedding_bytes_per_s * UPDATE_OVER_LOOKUP
        on_device_s = traffic / rate + operator.sort_bytes / self.stream_bytes_per_s
        return self._kernel(operator.factor * on_device_s, kernels=UPDATE_KERNELS) + self.host_s(operator.host)

    def _cache_fill(self, operator: CacheFill) -> Amount:
        gathered_s = (operator.probe_bytes + operator.row_bytes) / self.embedding_bytes_per_s
        return self._kernel(gathered_s + operator.sort_bytes / self.stream_bytes_per_s) + self.host_s(operator.host)

    def _interaction(self, operator: Interaction) -> Amount:
        traffic_s = (operator.read_bytes + operator.write_bytes) / self.stream_bytes_per_s
        return self._started(np.maximum(operator.flops / self.flops_per_s(operator.precision), traffic_s))

    def _elementwise(self, operator: Elementwise) -> Amount:
        return self._streamed(operator.read_bytes + operator.write_bytes)

    def _optimizer(self, operator: DenseOptimizer) -> Amount:
        return self._streamed(operator.traffic_bytes)

    def _copy(self, operator: Copy) -> Amount:
        if operator.direction == "d2d":
            return self._streamed(operator.bytes * 2.0)
        return self._started(operator.bytes / self.pcie_bytes_per_s)

    def _ssd_read(self, operator: SsdRead) -> Amount:
        return self.ssd_s(HostTraffic(ssd_read_bytes=operator.bytes))

    def _host(self, operator: HostWork) -> Amount:
        busy_s = operator.launches * self.launch_s + operator.seconds
        return busy_s * self.node.cpu.host_time_factor.value / self.host_speed

    def _ingest(self, operator: Ingest) -> Amount:
        return operator.bytes / self.node.frontend_bytes_per_s

    def _measured(self, operator: Measured) -> Amount:
        return operator.seconds

    def _waiting(self, operator: Delay) -> Amount:
        """Time in which the device waits for the host."""
        return operator.seconds / self.host_speed

    def _marker(self, operator: Marker) -> Amount:  # noqa: ARG002 - one signature for all operators
        return 0.0


def gemm_rates(gpu: Gpu, precision: str, gemm_speed: float = 1.0, memory_speed: float = 1.0) -> GemmRates:
    """Rates that GEMMs reach on a GPU in a precision.

    Args:
        gemm_speed: multiplies the rate of tiles.
        memory_speed: multiplies the memory rate.

    Raises:
        InputError: the GPU does not compute in ``precision``.
    """
    achieved, computed = gpu.achieved, gpu.computes_in(precision)
    return GemmRates(
        peak_flops_per_s=gpu.peak_flops_per_s(precision) * gemm_speed,
        fraction=achieved.gemm_fraction_in(precision).value,
        balanced_tile=achieved.gemm_balanced_tile.value,
        memory_bytes_per_s=gpu.memory_bytes_per_s.value * achieved.gemm_memory_fraction.value * memory_speed,
        start_s=achieved.gemm_start_s.value,
        vector_start_s=achieved.kernel_floor_s.value,
        unaligned=achieved.gemm_unaligned_fraction.value,
        sms=gpu.sms.value,
        element_bytes=BYTES_PER_ELEMENT[precision],
        aligned_elements=aligned_elements(computed),
    )


_DURATIONS: dict[type, Callable[[GpuModel, Any], Amount]] = {
    Gemm: GpuModel._gemm,  # noqa: SLF001 - the class's own table
    Attention: GpuModel._attention,  # noqa: SLF001
    KernelSeries: GpuModel._series,  # noqa: SLF001
    Convolution: GpuModel._convolution,  # noqa: SLF001
    EmbeddingLookup: GpuModel._lookup,  # noqa: SLF001
    EmbeddingUpdate: GpuModel._update,  # noqa: SLF001
    CacheFill: GpuModel._cache_fill,  # noqa: SLF001
    Interaction: GpuModel._interaction,  # noqa: SLF001
    Elementwise: GpuModel._elementwise,  # noqa: SLF001
    DenseOptimizer: GpuModel._optimizer,  # noqa: SLF001
    Copy: GpuModel._copy,  # noqa: SLF001
    SsdRead: GpuModel._ssd_read,  # noqa: SLF001
    HostWork: GpuModel._host,  # noqa: SLF001
    Ingest: GpuModel._ingest,  # noqa: SLF001
    Marker: GpuModel._marker,  # noqa: SLF001
    Measured: GpuModel._measured,  # noqa: SLF001
    Delay: GpuModel._waiting,  # noqa: SLF001
}

COMPUTE_MODELS.add("roofline", GpuModel, "GEMMs by shape, other kernels by their memory traffic, at the achieved rates")

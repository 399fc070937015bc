"""Roofline of a GPU: each kernel takes its arithmetic or its memory traffic, whichever is longer.

    time = max(kernel_floor, flops / (peak x gemm_fraction), bytes / reached bandwidth)

The constants are the GPU's named ``achieved`` ones (`hardware_specs.types.AchievedRates`): the GEMM fraction of the
peak, the HBM rate of embedding kernels and of streaming kernels, the smallest kernel. A kernel without any work (a rank
that holds no table) is not launched and takes no time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardware_specs.processors import Gpu
from hardware_specs.types import Node
from simulator.compute.model import COMPUTE_MODELS
from simulator.operators import (
    BYTES_PER_ELEMENT,
    Amount,
    Copy,
    Delay,
    DenseOptimizer,
    Elementwise,
    EmbeddingLookup,
    EmbeddingUpdate,
    Gemm,
    HostWork,
    Ingest,
    Interaction,
    Measured,
    Nothing,
    Operator,
)

SMALL_GEMM_FLOPS = 1e10
"""Below this many flops a GEMM reaches less than the large-GEMM fraction: medians .25 to .39 of the peak on A100 at
1e9 to 1e10, .006 at 1e8 (ai-dynamo/aiconfigurator@095f58a5 ``systems/data/*/gemm``, BF16)."""


@dataclass(frozen=True, slots=True)
class GpuModel:
    """Roofline of one GPU and its host thread.

    Attributes:
        gpu: the GPU.
        node: the node it sits in (PCIe link, CPU).
        launch_s: host time of one kernel launch, from the framework profile.
        gemm_speed: multiplies the arithmetic rate (1; 1.1 for 10 % better).
        memory_speed: multiplies the HBM rates.
        pcie_speed: multiplies the PCIe rate.
        host_speed: divides host times.
    """

    gpu: Gpu
    node: Node
    launch_s: float
    gemm_speed: float = 1.0
    memory_speed: float = 1.0
    pcie_speed: float = 1.0
    host_speed: float = 1.0

    def duration_s(self, operator: Operator) -> Amount:
        """Duration in seconds: a scalar, or ``[P]`` when an amount of the operator is ``[P]``.

        Raises:
            InputError: the GPU does not compute in the operator's precision.
        """
        return _DURATIONS[type(operator)](self, operator)

    def outside_range(self, operator: Operator) -> str | None:
        """Why the operator is outside what the constants were measured on, or None."""
        if isinstance(operator, Gemm) and 0.0 < float(np.mean(_gemm_flops(operator))) < SMALL_GEMM_FLOPS:
            return f"GEMMs below {SMALL_GEMM_FLOPS:.0e} flops reach less than the large-GEMM fraction"
        if isinstance(operator, Gemm) and operator.precision == "tf32" and "tf32" not in self.gpu.peak_flops:
            return f"{self.gpu.name} has no tf32: such GEMMs compute in fp32"
        return None

    def improved(self, speed: Mapping[str, float]) -> GpuModel:
        """The same machine with some of ``GEMM``, ``HBM``, ``PCIe/DDR``, ``host`` faster by the given factors."""
        return replace(
            self,
            gemm_speed=speed.get("GEMM", 1.0),
            memory_speed=speed.get("HBM", 1.0),
            pcie_speed=speed.get("PCIe/DDR", 1.0),
            host_speed=speed.get("host", 1.0),
        )

    @property
    def stream_bytes_per_s(self) -> float:
        """HBM rate of streaming kernels."""
        return self.gpu.memory_bytes_per_s.value * self.gpu.achieved.stream_fraction.value * self.memory_speed

    @property
    def embedding_bytes_per_s(self) -> float:
        """HBM rate of embedding kernels."""
        return self.gpu.achieved.embedding_bytes_per_s.value * self.memory_speed

    @property
    def pcie_bytes_per_s(self) -> float:
        """Rate of a large pinned copy over the GPU's PCIe link."""
        return self.node.gpu_link_bytes_per_s * self.pcie_speed

    def flops_per_s(self, precision: str) -> float:
        """Arithmetic rate of large GEMMs.

        Raises:
            InputError: the GPU does not compute in ``precision``.
        """
        return self.gpu.peak_flops_per_s(precision) * self.gpu.achieved.gemm_fraction.value * self.gemm_speed

    def _kernel(self, *parts_s: Amount) -> Amount:
        """The longest part, at least the kernel floor; 0 where all parts are 0."""
        longest = parts_s[0]
        for part in parts_s[1:]:
            longest = np.maximum(longest, part)
        timed = np.where(np.asarray(longest) > 0.0, np.maximum(longest, self.gpu.achieved.kernel_floor_s.value), 0.0)
        return timed if timed.ndim else float(timed)

    def _gemm(self, operator: Gemm) -> Amount:
        flops_s = _gemm_flops(operator) / self.flops_per_s(operator.precision)
        m, n, k = operator.m, operator.n, operator.k
        elements = operator.count * (m * k + k * n + m * n)
        return self._kernel(flops_s, elements * BYTES_PER_ELEMENT[operator.precision] / self.stream_bytes_per_s)

    def _lookup(self, operator: EmbeddingLookup) -> Amount:
        traffic = operator.row_bytes + operator.output_bytes + operator.index_bytes
        return self._kernel(traffic / self.embedding_bytes_per_s)

    def _update(self, operator: EmbeddingUpdate) -> Amount:
        # Reads of a block in random order hit a cache of the L2's size with probability L2 / block.
        held = self.gpu.l2_bytes.value / np.maximum(operator.gradient_block_bytes, self.gpu.l2_bytes.value)
        read_again = operator.repeated_gradient_bytes * (1.0 - held)
        traffic = operator.gradient_bytes + read_again + operator.weight_bytes + operator.state_bytes
        return self._kernel(traffic / self.embedding_bytes_per_s + operator.sort_bytes / self.stream_bytes_per_s)

    def _interaction(self, operator: Interaction) -> Amount:
        traffic = operator.read_bytes + operator.write_bytes
        arithmetic_s = operator.flops / self.flops_per_s(operator.precision)
        return self._kernel(arithmetic_s, traffic / self.stream_bytes_per_s)

    def _elementwise(self, operator: Elementwise) -> Amount:
        return self._kernel((operator.read_bytes + operator.write_bytes) / self.stream_bytes_per_s)

    def _optimizer(self, operator: DenseOptimizer) -> Amount:
        return self._kernel(operator.traffic_bytes / self.stream_bytes_per_s)

    def _copy(self, operator: Copy) -> Amount:
        if operator.direction == "d2d":
            return self._kernel(operator.bytes * 2.0 / self.stream_bytes_per_s)
        return self._kernel(operator.bytes / self.pcie_bytes_per_s)

    def _host(self, operator: HostWork) -> Amount:
        busy_s = operator.launches * self.launch_s + operator.seconds
        return busy_s * self.node.cpu.host_time_factor.value / self.host_speed

    def _ingest(self, operator: Ingest) -> Amount:
        return operator.bytes / self.node.frontend_bytes_per_s

    def _measured(self, operator: Measured | Delay) -> Amount:
        return operator.seconds

    def _nothing(self, operator: Nothing) -> Amount:  # noqa: ARG002 - one signature for all operators
        return 0.0


def _gemm_flops(operator: Gemm) -> Amount:
    return 2.0 * operator.m * operator.n * operator.k * operator.count


_DURATIONS: dict[type, Callable[[GpuModel, Any], Amount]] = {
    Gemm: GpuModel._gemm,  # noqa: SLF001 - the class's own table
    EmbeddingLookup: GpuModel._lookup,  # noqa: SLF001
    EmbeddingUpdate: GpuModel._update,  # noqa: SLF001
    Interaction: GpuModel._interaction,  # noqa: SLF001
    Elementwise: GpuModel._elementwise,  # noqa: SLF001
    DenseOptimizer: GpuModel._optimizer,  # noqa: SLF001
    Copy: GpuModel._copy,  # noqa: SLF001
    HostWork: GpuModel._host,  # noqa: SLF001
    Ingest: GpuModel._ingest,  # noqa: SLF001
    Nothing: GpuModel._nothing,  # noqa: SLF001
    Measured: GpuModel._measured,  # noqa: SLF001
    Delay: GpuModel._measured,  # noqa: SLF001
}

COMPUTE_MODELS.add("roofline", GpuModel, "arithmetic or memory traffic, whichever is longer, at the achieved rates")

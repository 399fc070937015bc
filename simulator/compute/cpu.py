"""A rank on its share of a CPU's cores: durations of kernels, and which ranks share cores.

    time = sum over amounts a of (seconds_per[a] x a)

The costs are those of the CPU's spec (`hardware_specs.cpu_kernels`), fitted by ``dlrmsim calibrate host`` for the
number of threads of a rank; amounts are those of `simulator.compute.cpu_amounts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from hardware_specs.cpu_kernels import CpuKernels
from hardware_specs.types import Node
from inputs.errors import InputError
from simulator.compute.cpu_amounts import Caches, amounts_of, caches_of, class_of
from simulator.operators import (
    Amount,
    Attention,
    Convolution,
    Delay,
    Gemm,
    HostTraffic,
    HostWork,
    Interaction,
    Measured,
)
from simulator.program import IntArray
from simulator.work import KernelSeries, Operator

PRECISIONS = ("fp32", "tf32")
"""Arithmetic that was measured; a CPU computes tf32 as fp32."""


_GPU_KERNELS = {Convolution: "convolutions", Attention: "kernels of attention", KernelSeries: "series of kernels"}


@dataclass(frozen=True, slots=True)
class CpuModel:
    """A rank on its share of the cores of a node.

    Attributes:
        kernels: costs for the rank's number of threads.
        local_world_size: ranks on it.
        gemm_speed: divides times of GEMMs.
        memory_speed: divides times of all other kernels.
        host_speed: divides host times.
        kernel_starts: whether a call of a kernel has a fixed time.
    """

    kernels: CpuKernels
    node: Node
    local_world_size: int
    gemm_speed: float = 1.0
    memory_speed: float = 1.0
    host_speed: float = 1.0
    kernel_starts: bool = True

    @staticmethod
    def of(node: Node, local_world_size: int) -> CpuModel:
        """The model of so many ranks on a node, with the costs measured nearest to their number of threads.

        Raises:
            InputError: nothing was measured on the node's CPU.
        """
        if not node.cpu.kernels:
            raise InputError(
                "no measured kernels on these CPUs",
                given=node.cpu.name,
                expected="a CPU with `kernels`, as `dlrmsim calibrate host` writes it, or nodes with GPUs",
            )
        threads = threads_of(node, local_world_size)
        kernels = min(node.cpu.kernels, key=lambda known: abs(np.log(known.threads / threads)))
        return CpuModel(kernels, node, local_world_size)

    @property
    def core_groups(self) -> int:
        """Shares of a node's cores that ranks are pinned to; with more ranks than cores, several ranks have one."""
        return min(self.local_world_size, int(self.node.cpu.cores.value * self.node.sockets.value))

    def core_group_of(self, local_ranks: IntArray) -> IntArray:
        """Number of the share of its node's cores that each rank of a node is pinned to, in the shape of the ranks."""
        return local_ranks % self.core_groups

    @property
    def shares_cores(self) -> bool:
        """Whether a rank shares its cores with others."""
        return self.local_world_size > self.core_groups

    @property
    def caches(self) -> Caches:
        """The caches of a rank."""
        return caches_of(self.kernels).of_each(self.local_world_size)

    def duration_s(self, operator: Operator) -> Amount:
        """Duration in seconds: a scalar, or ``[P]`` when an amount of the operator is ``[P]``.

        Raises:
            InputError: it is a kernel of GPUs only: a convolution, attention, or a series of kernels.
        """
        if isinstance(operator, Measured):
            return operator.seconds
        if isinstance(operator, Delay):
            return operator.seconds / self.host_speed
        if isinstance(operator, Convolution | Attention | KernelSeries):
            what = _GPU_KERNELS[type(operator)]
            raise InputError(f"{what} run on GPUs only", given=self.node.name, expected="nodes with GPUs")
        kind = class_of(operator)
        if kind is None:
            return 0.0
        costs = self.kernels.costs.get(kind)
        seconds: Amount = 0.0
        for name, count in amounts_of(operator, self.caches).items():
            if name == "call" and not self.kernel_starts:
                continue
            seconds = seconds + count * (0.0 if costs is None else costs.seconds_per.get(name, 0.0))
        if isinstance(operator, HostWork):
            fixed = operator.seconds * self.node.cpu.host_time_factor.value
            return (seconds + fixed) / self.host_speed
        return seconds / (self.gemm_speed if kind in ("gemm", "batched") else self.memory_speed)

    def issuing_share(self, operator: HostWork) -> float:
        """Share, 0 to 1, of a host task that is issuing collectives, not what the framework does around that.

        The mean over ranks where they differ; 0 where the task takes no time.
        """
        whole, costs = float(np.mean(self.duration_s(operator))) * self.host_speed, self.kernels.costs.get("host")
        if costs is None or not whole:
            return 0.0
        issuing = float(np.mean(operator.collectives)) * costs.seconds_per.get("issue", 0.0)
        issuing += float(np.mean(operator.copied_bytes)) * costs.seconds_per.get("issue_byte", 0.0)
        return issuing / whole

    def pcie_s(self, traffic: HostTraffic | None) -> Amount:  # noqa: ARG002 - one signature for all models
        """Nothing: a rank computes where its memory is."""
        return 0.0

    def ssd_s(self, traffic: HostTraffic | None) -> Amount:  # noqa: ARG002 - as above
        """Nothing: tables of ranks on CPUs are in memory."""
        return 0.0

    def outside_range(self, operator: Operator) -> str | None:
        """Why the operator is outside what was measured, or None."""
        if isinstance(operator, Gemm | Interaction) and operator.precision not in PRECISIONS:
            return f"{operator.precision} on a CPU takes the costs measured in fp32"
        kind = class_of(operator)
        if kind is not None and kind not in self.kernels.costs and not isinstance(operator, HostWork):
            return f"kernels of kind {kind} were not measured on {self.node.cpu.name} and take no time"
        return None

    def improved(self, speed: Mapping[str, float]) -> CpuModel:
        """The same machine with ``GEMM``, ``HBM`` (all that memory and caches hold up) or ``host`` faster."""
        return replace(
            self,
            gemm_speed=speed.get("GEMM", 1.0),
            memory_speed=speed.get("HBM", 1.0),
            host_speed=speed.get("host", 1.0),
        )

    def without_starts(self) -> CpuModel:
        """The same ranks without a fixed time per kernel call."""
        return replace(self, kernel_starts=False)


def threads_of(node: Node, local_world_size: int) -> int:
    """Threads of each of so many ranks on a node: one on each of its cores; one where ranks share cores."""
    return max(1, int(node.cpu.cores.value * node.sockets.value) // local_world_size)

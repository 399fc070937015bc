"""The interface of compute models, and their registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from hardware_specs.processors import Gpu
from hardware_specs.types import Node
from simulator.operators import Amount, HostTraffic
from simulator.registry import Registry
from simulator.work import Operator


class ComputeModel(Protocol):
    """Times of operators that use nothing another rank or stream could share."""

    def duration_s(self, operator: Operator) -> Amount:
        """Duration in seconds: a scalar, or ``[P]`` when an amount of the operator is ``[P]``."""
        ...

    def pcie_s(self, traffic: HostTraffic | None) -> Amount:
        """The part of that on the GPU's PCIe link, when it has it for itself."""
        ...

    def ssd_s(self, traffic: HostTraffic | None) -> Amount:
        """The part of that on the SSDs of the node, likewise."""
        ...

    def outside_range(self, operator: Operator) -> str | None:
        """Reason why the operator is outside the range of the model, or None."""
        ...

    def improved(self, speed: Mapping[str, float]) -> ComputeModel:
        """The same machine with ``GEMM``, ``HBM``, ``PCIe/DDR``, ``SSD`` or ``host`` faster by the given factors."""
        ...

    def without_starts(self) -> ComputeModel:
        """The same machine without kernel starts, for the times that parts add to a kernel."""
        ...


ComputeModelFactory = Callable[[Gpu, Node, float], ComputeModel]
"""Makes a model of (gpu, node, seconds of host time per kernel launch)."""

COMPUTE_MODELS: Registry[ComputeModelFactory] = Registry("compute model", "dlrmsim.compute_models")

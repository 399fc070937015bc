"""Use of the machine by a run: kernels and host tasks on its critical path, and its collectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from simulator.collective_calls import CollectiveOp

LARGE_BYTES = 2**20
"""Size from which a collective is large: 1 MiB, as in tables of errors."""


@dataclass(frozen=True, slots=True)
class CallUse:
    """A collective.

    Attributes:
        ranks: members.
        nodes: nodes they are on.
        bytes: nccl-tests' size.
        seconds: duration on an idle machine.
        algorithm: name of its algorithm.
        straight: messages of a program of its own between a root and the others, such as gRPC's: no library's call.
    """

    op: CollectiveOp
    ranks: int
    nodes: int
    bytes: float
    seconds: float
    algorithm: str = "ring"
    straight: bool = False

    @property
    def local_size(self) -> int:
        """Members on each node."""
        return -(-self.ranks // self.nodes)


@dataclass(frozen=True, slots=True)
class Usage:
    """Use of the machine by a run; the parts of a class's time follow from it.

    Attributes:
        calls: collectives of one iteration.
        kernels_s: seconds of each operator on the critical path, by its name.
        precision: number format of GEMMs.
        host_s: seconds of an iteration that each time of the framework stands for, by its key.
        pointwise: whether attention has a function of each score in place of the softmax.
    """

    calls: Sequence[CallUse]
    kernels_s: Mapping[str, float] = field(default_factory=dict)
    precision: str = "fp32"
    host_s: Mapping[str, float] = field(default_factory=dict)
    pointwise: bool = False

    @property
    def nodes(self) -> int:
        """Most nodes of a collective."""
        return max((call.nodes for call in self.calls), default=1)

    def share_of_kernels(self, names: Sequence[str]) -> float:
        """Share of the kernels' time on the critical path that operators of these names take; 1 without kernels."""
        whole = sum(self.kernels_s.values())
        return sum(self.kernels_s.get(name, 0.0) for name in names) / whole if whole > 0.0 else 1.0

    def share_of_calls(self, calls: Sequence[CallUse], among: Sequence[CallUse]) -> float:
        """Share of the collectives' time that some of them take."""
        whole = sum(call.seconds for call in among)
        return sum(call.seconds for call in calls) / whole if whole > 0.0 else 0.0


def parts(weights: Mapping[str, float]) -> dict[str, float]:
    """Weights that add up to 1; empty without any."""
    whole = sum(weights.values())
    return {name: value / whole for name, value in weights.items()} if whole > 0.0 else {}

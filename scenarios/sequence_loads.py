"""Work of each rank with sequences, of families that have some: the curves of a run's page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from simulator.operators import FloatArray


@dataclass(frozen=True, slots=True)
class SequenceLoads:
    """Work of each rank with sequences in an iteration, all ``[P]``.

    Attributes:
        positions: positions that layers run over, padding included.
        flops: operations of the layers.
        served: lookups that its shards of the tables serve.
        received_bytes: vectors that reach it in the forward exchange, its own part included.
    """

    positions: FloatArray
    flops: FloatArray
    served: FloatArray
    received_bytes: FloatArray


@runtime_checkable
class SequenceJob(Protocol):
    """A placed job whose workload may have sequences."""

    def sequence_loads(self) -> SequenceLoads | None:
        """Work of each rank; None without sequences."""
        ...

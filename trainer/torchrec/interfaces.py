"""TorchRec's objects as dlrmsim sees them (torchrec 1.8.0): the attributes that are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol


class TorchModule(Protocol):
    """A ``torch.nn.Module``, on any device, ``meta`` included."""

    def named_modules(self) -> Iterator[tuple[str, Any]]:
        """Path and module, itself first."""
        ...


class TorchrecShardingPlan(Protocol):
    """TorchRec's ``ShardingPlan``, or one that has its attribute."""

    @property
    def plan(self) -> Mapping[str, Any]:
        """Module path -> table -> ``ParameterSharding``."""
        ...


class TorchrecConstraints(Protocol):
    """TorchRec's ``ParameterConstraints`` of a table."""

    @property
    def sharding_types(self) -> Sequence[str] | None:
        """Allowed sharding types."""
        ...

    @property
    def compute_kernels(self) -> Sequence[str] | None:
        """Allowed kernels."""
        ...

    @property
    def min_partition(self) -> int | None:
        """Fewest columns of a column range."""
        ...

    @property
    def pooling_factors(self) -> Sequence[float]:
        """Mean lookups per sample of each feature."""
        ...

    @property
    def num_poolings(self) -> Sequence[float] | None:
        """Pooled vectors per sample of each feature."""
        ...

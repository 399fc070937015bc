"""Places of tensors of a captured step: the GPU, or the host that makes batches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from torch import Tensor

from trainer.capture.tensors import StorageNumbers


@dataclass(slots=True)
class Placement:
    """Storages by place; a storage in no set is where the step computes.

    Attributes:
        uses_gpu: whether the user's code has named a GPU; until then all is where the step computes.
        makes_host: whether the function that runs makes tensors on the host.
        host: storages made without a device.
        device: storages made on, or moved to, a GPU for good.
        copied: host storages that the step has copied to the GPU.
    """

    storages: StorageNumbers = field(default_factory=StorageNumbers)
    uses_gpu: bool = False
    makes_host: bool = False
    host: set[int] = field(default_factory=set)
    device: set[int] = field(default_factory=set)
    copied: set[int] = field(default_factory=set)

    def on_gpu(self, tensor: Tensor) -> bool:
        """Whether a tensor would be on the GPU."""
        return self.uses_gpu and not self._hosted(self.storages.of(tensor))

    def on_host(self, tensors: Iterable[Tensor]) -> bool:
        """Whether a step that uses a GPU keeps all of some tensors on the host; False for none."""
        numbers = [self.storages.of(tensor) for tensor in tensors]
        return self.uses_gpu and bool(numbers) and all(map(self._hosted, numbers))

    def to_host(self, tensor: Tensor) -> None:
        """Note a tensor that is made on the host."""
        number = self.storages.of(tensor)
        if number not in self.device:
            self.host.add(number)

    def to_device(self, tensor: Tensor) -> None:
        """Note a tensor that is on the GPU for good."""
        self.device.add(self.storages.of(tensor))

    def _hosted(self, number: int) -> bool:
        return number in self.host and number not in self.device and number not in self.copied

"""Linear layers of the dense part."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DenseLayer:
    """A linear layer ``[outputs, inputs]``; ``activation`` is an elementwise kernel after it."""

    name: str
    inputs: int
    outputs: int
    activation: bool = True
    bias: bool = True

    @property
    def parameters(self) -> int:
        """Weights and biases."""
        return self.inputs * self.outputs + (self.outputs if self.bias else 0)

    @property
    def flops_per_sample(self) -> int:
        """Forward pass, two per multiply-add; biases not counted, as in published figures."""
        return 2 * self.inputs * self.outputs

"""Fraction of a GPU's peak that attention in one kernel reaches, by the generation of the GPU.

The kernels are FlashAttention-2's, which PyTorch's ``scaled_dot_product_attention`` runs. On H100 their forward pass
reaches 309 TFLOP/s of 989 at 512 tokens, 350 at 1,024, and 368 to 370 from 4,096 on, with heads of 128 and no mask
(FlashAttention-3, arXiv:2407.08608, figure of forward speeds): one rate, and the start of a kernel.
"""

from __future__ import annotations

from collections.abc import Mapping

FORWARD: Mapping[str, float] = {"ampere": 0.73, "hopper": 0.374}
"""Fraction of the dense 16-bit peak in the forward pass: FlashAttention-2 (arXiv:2307.08691) reaches up to 73 % on
A100; on H100 370 of 989 TFLOP/s."""

BACKWARD_OVER_FORWARD = 0.86
"""Rate of the backward pass over that of the forward pass: up to 63 of 73 % on A100 (arXiv:2307.08691)."""

OTHERS = FORWARD["ampere"]


def is_measured(architecture: str | None) -> bool:
    """Whether attention was measured on this generation of GPUs."""
    return architecture in FORWARD


def attention_fraction(architecture: str | None, *, backward: bool) -> float:
    """Fraction of the peak of a generation of GPUs; one without a measurement takes Ampere's."""
    forward = FORWARD.get(architecture or "", OTHERS)
    return forward * BACKWARD_OVER_FORWARD if backward else forward

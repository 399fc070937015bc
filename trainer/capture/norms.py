"""RMS norm in one kernel, as GPUs have it; a CPU takes it apart before a capture could see it.

The operators run on a CPU, too; their results equal PyTorch's own function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

NORM, NORM_BACKWARD = "dlrmsim::rms_norm", "dlrmsim::rms_norm_backward"


@torch.library.custom_op(NORM, mutates_args=())
def _norm(tensor: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The norm and the reciprocals of the roots of mean squares, in fp32."""
    axes = tuple(range(-weight.dim(), 0))
    scale = torch.rsqrt(tensor.float().square().mean(dim=axes, keepdim=True) + eps)
    return (tensor.float() * scale).to(tensor.dtype) * weight, scale


@_norm.register_fake
def _(tensor: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:  # noqa: ARG001 - of the signature
    outer = tensor.shape[: tensor.dim() - weight.dim()]
    scale = tensor.new_empty(*outer, *(1 for _ in weight.shape), dtype=torch.float32)
    return torch.empty_like(tensor), scale


@torch.library.custom_op(NORM_BACKWARD, mutates_args=())
def _norm_backward(gradient: Tensor, tensor: Tensor, weight: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of the tensor and of the weight."""
    axes = tuple(range(-weight.dim(), 0))
    normed, grown = tensor.float() * scale, gradient.float() * weight.float()
    of_tensor = scale * (grown - normed * (grown * normed).mean(dim=axes, keepdim=True))
    outer = tuple(range(tensor.dim() - weight.dim()))
    of_weight = (gradient.float() * normed).sum(dim=outer) if outer else gradient.float() * normed
    return of_tensor.to(tensor.dtype), of_weight.to(weight.dtype)


@_norm_backward.register_fake
def _(gradient: Tensor, tensor: Tensor, weight: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    return torch.empty_like(tensor), torch.empty_like(weight)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.set_materialize_grads(False)  # the second result has no gradient
    ctx.save_for_backward(inputs[0], inputs[1], output[1])


def _gradients(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None]:
    of_tensor, of_weight = _norm_backward(gradient, *ctx.saved_tensors)
    return of_tensor, of_weight, None


_norm.register_autograd(_gradients, setup_context=_keep)


def rms_norm(tensor: Tensor, shape: Sequence[int], weight: Tensor, eps: float | None) -> Tensor:
    """``torch.nn.functional.rms_norm`` in one kernel.

    Args:
        shape: extents of the weight, over which the norm goes.
        eps: None: the smallest step of the type.
    """
    del shape
    found: Tensor = _norm(tensor, weight, torch.finfo(tensor.dtype).eps if eps is None else eps)[0]
    return found

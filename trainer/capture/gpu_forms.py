"""Functions that PyTorch computes in one kernel on GPUs and in several, or in another one, on CPUs.

A capture runs on the CPU; each entry of `FORMS` calls the operator that a GPU would run, or none if the GPU, too, takes
the function apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from trainer.capture.norms import rms_norm

_HALF = (torch.float16, torch.bfloat16)
_FLASH_WIDTH = 256
"""Widest head of FlashAttention (pytorch sdp_utils.cpp, check_head_dim_size_flash)."""
_ATTENTION_DIMS = 4

_Given = tuple[Sequence[Any], Mapping[str, Any]]


def _named(given: _Given, *names: str) -> list[Any]:
    """Values of arguments in the order of names; None where one has none."""
    args, kwargs = given
    return [args[n] if n < len(args) else kwargs.get(name) for n, name in enumerate(names)]


def _plain(*tensors: Any) -> bool:
    """Whether all have elements and are no tensors that ranks share, whose parts come here again."""
    return all(type(tensor) is FakeTensor and tensor.numel() for tensor in tensors)


def _dropout(given: _Given) -> Tensor | None:
    """One kernel instead of a draw, a division and a product (pytorch Dropout.cpp, is_fused_kernel_acceptable)."""
    tensor, p, train = _named(given, "input", "p", "train")
    if not train or not 0 < p < 1 or not _plain(tensor):
        return None
    kept: Tensor = torch.native_dropout(tensor, p, train=True)[0]
    return kept


def _norm(given: _Given) -> Tensor | None:
    """One kernel where weight and input have one type (pytorch layer_norm.cpp, rms_norm_symint)."""
    tensor, shape, weight, eps = _named(given, "input", "normalized_shape", "weight", "eps")
    if not _plain(tensor, weight) or tensor.dtype != weight.dtype:
        return None
    return rms_norm(tensor, shape, weight, eps)


def _attention(given: _Given) -> Tensor | None:
    """FlashAttention for fp16 and bf16 without a mask, otherwise memory-efficient attention."""
    query, key, value, mask, p, causal, scale, grouped = _named(
        given, "query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"
    )
    scale, grouped = given[1].get("scale", scale), given[1].get("enable_gqa", grouped)
    if not _plain(query, key, value) or query.dim() != _ATTENTION_DIMS:
        return None
    query, key, value = (_cast(t) for t in (query, key, value))
    options = {"scale": scale}
    aten: Any = torch.ops.aten
    width = query.shape[-1]
    flash = mask is None and query.dtype in _HALF and width == value.shape[-1] <= _FLASH_WIDTH
    if flash:
        found = aten._scaled_dot_product_flash_attention(query, key, value, p or 0.0, bool(causal), **options)  # noqa: SLF001
    elif not grouped:
        bias = None if mask is None else _bias(mask, query, key)
        keeps = any(t.requires_grad for t in (query, key, value)) and torch.is_grad_enabled()
        found = aten._scaled_dot_product_efficient_attention(  # noqa: SLF001
            query, key, value, bias, keeps, p or 0.0, bool(causal), **options
        )
    else:
        return None
    mixed: Tensor = found[0]
    return mixed


def _cast(tensor: Tensor) -> Tensor:
    """A factor in the type of autocast, which lists attention among its lower precisions."""
    cast = torch.is_autocast_enabled("cpu") and tensor.dtype == torch.float32
    return tensor.to(torch.get_autocast_dtype("cpu")) if cast else tensor


def _bias(mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """A mask as numbers that are added to the products ``[batch, heads, queries, keys]``."""
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(mask.logical_not(), float("-inf"))
    return mask.to(query.dtype).expand(*query.shape[:-1], key.shape[-2])


_MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
"""cuDNN's number of a recurrent layer."""
_UNPACKED = 9
"""Arguments of recurrent layers on sequences of one length."""


def _recurrent(name: str) -> Callable[[_Given], tuple[Tensor, ...] | None]:
    """CuDNN's kernels; sequences of several lengths have a form of their own."""

    def run(given: _Given) -> tuple[Tensor, ...] | None:
        args, kwargs = given
        if kwargs or len(args) != _UNPACKED or not isinstance(args[2], list):
            return None
        inputs, state, weights, biases, layers, dropout, train, both, batch_first = args
        hidden, cell = (state[0], state[1]) if name == "lstm" else (state, None)
        size = hidden.shape[-1] if cell is None else cell.shape[-1]
        projected = hidden.shape[-1] != size
        found = torch._cudnn_rnn(  # noqa: SLF001 - the operator behind lstm, gru, ...
            inputs, weights, (4 if biases else 2) + projected, weights[0].detach(), hidden, cell, _MODES[name], size,
            hidden.shape[-1] if projected else 0, layers, batch_first, dropout, train, both, [], None,
        )  # fmt: skip
        return tuple(found[: 3 if name == "lstm" else 2])

    return run


FORMS: dict[str, Callable[[_Given], Any]] = {
    **{name: _recurrent(name) for name in _MODES},
    "dropout": _dropout,
    "rms_norm": _norm,
    "scaled_dot_product_attention": _attention,
}
"""Function -> its form on GPUs; None where the function itself is right."""

FP32_UNDER_AUTOCAST = frozenset(
    {"acos", "asin", "binary_cross_entropy_with_logits", "cosh", "cosine_embedding_loss", "cosine_similarity",
     "cross_entropy_loss", "cumprod", "cumsum", "dist", "erfinv", "exp", "expm1", "group_norm", "hinge_embedding_loss",
     "huber_loss", "kl_div", "l1_loss", "layer_norm", "log", "log10", "log1p", "log2", "log_softmax", "logsumexp",
     "margin_ranking_loss", "mse_loss", "multi_margin_loss", "nll_loss", "nll_loss2d", "nll_loss_nd", "norm", "pow",
     "poisson_nll_loss", "prod", "reciprocal", "renorm", "rsqrt", "sinh", "smooth_l1_loss", "soft_margin_loss",
     "softmax", "softplus", "sum", "tan", "triplet_margin_loss"}
)  # fmt: skip
"""Functions that compute in fp32 under autocast on CUDA (pytorch autocast_mode.h, AT_FORALL_FP32 and the two after)."""


def in_fp32(values: Any) -> Any:
    """Arguments of a function with tensors of 16 bits cast to fp32."""
    if isinstance(values, Tensor):
        return values.float() if values.dtype in _HALF else values
    if isinstance(values, list | tuple):
        return type(values)(map(in_fp32, values)) if type(values) in (list, tuple) else values
    return {name: in_fp32(value) for name, value in values.items()} if isinstance(values, dict) else values

"""Attention in one kernel, forward and backward.

FLOPs count the two products forward and five backward, 2.5 times as many (FlashAttention-2,
arXiv:2307.08691); a causal mask leaves half of them.
"""

from __future__ import annotations

from trainer.capture.operators.call import CalledOperator
from trainer.capture.tensors import dtype_of
from workloads.captured.records import AttentionWork, RecordedWork

BACKWARD = 2.5
"""Products of the backward pass over products of the forward pass."""

_PREFIX = "_scaled_dot_product_"
_KERNELS = ("flash_attention", "efficient_attention", "cudnn_attention", "fused_attention", "flash_attention_for_cpu")


def attention(call: CalledOperator) -> list[RecordedWork] | None:
    """The kernel of ``scaled_dot_product_attention``; None of any other operator."""
    name = call.func._opname  # noqa: SLF001 - the name without namespace and overload
    if not name.startswith(_PREFIX) or not name.removeprefix(_PREFIX).startswith(_KERNELS):
        return None
    backward = name.endswith("_backward")
    query, key = call.tensor("query"), call.tensor("key")
    *batch, queries, width = query.shape
    keys, causal = key.shape[-2], bool(call.given.get("is_causal"))
    flops = 4.0 * queries * keys * width
    for size in batch:
        flops *= size
    flops *= (BACKWARD if backward else 1.0) * (0.5 if causal else 1.0)
    if not flops:
        return []
    moved = call.read_bytes + call.write_bytes
    return [
        AttentionWork(
            flops=flops,
            bytes=moved,
            head_dim=width,
            sequence=keys,
            dtype=dtype_of(query),
            causal=causal,
            backward=backward,
        )
    ]

"""Works of an operator: from its kind where it has one, otherwise from the bytes that it reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from trainer.capture.operators.attention import attention
from trainer.capture.operators.call import CalledOperator
from trainer.capture.operators.convolutions import convolution
from trainer.capture.operators.lookups import lookup
from trainer.capture.operators.optimizers import fused_optimizer
from trainer.capture.operators.products import product
from trainer.capture.operators.recurrent import recurrent
from trainer.capture.operators.rows import sparse_rows
from trainer.capture.operators.selected import selected
from trainer.capture.operators.table_batched import table_batched
from trainer.capture.tensors import bytes_of, tensors_in
from workloads.captured.records import Moved, RecordedWork

_KINDS: tuple[Callable[[CalledOperator], list[RecordedWork] | None], ...] = (
    product, attention, convolution, recurrent, table_batched, sparse_rows, lookup, selected, fused_optimizer,
)  # fmt: skip

_WITHOUT_KERNEL = frozenset(
    {"detach", "detach_", "alias", "lift_fresh", "lift", "_unsafe_view", "empty", "empty_like", "empty_strided",
     "empty_permuted", "new_empty", "new_empty_strided", "_local_scalar_dense", "set_", "resize_", "record_stream",
     "_indices", "_values", "is_coalesced", "_coalesced_", "_nested_tensor_size", "sym_size", "is_pinned",
     "_sparse_coo_tensor_with_dims_and_tensors", "_sparse_coo_tensor_unsafe", "_reshape_alias", "is_same_size",
     "_version", "resize_as_", "_assert_async", "_assert_scalar", "_assert_tensor_metadata", "_to_functional_tensor",
     "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk", "squeeze_", "unsqueeze_",
     "t_", "transpose_", "as_strided_", "result_type", "_has_compatible_shallow_copy_type"}
)  # fmt: skip
"""Operators that start nothing on the device: views, allocations, and questions about a tensor."""

_OUTSIDE = frozenset({"prim", "profiler", "prims", "debugprims", "inductor", "_c10d_functional_autograd"})
"""Namespaces of operators that are not PyTorch's kernels."""

_MEMORY_BOUND = frozenset(
    {"add", "addcmul", "addcdiv", "any", "all", "amax", "amin", "arange", "argmax", "argmin", "bernoulli", "cat",
     "stack", "clone", "copy", "_to_copy", "_conj", "cumsum", "constant_pad_nd", "dropout", "native_dropout",
     "native_dropout_backward", "fill", "flip", "full", "full_like", "gather", "glu", "glu_backward",
     "index", "index_add", "index_copy", "index_fill", "index_put", "_unsafe_index", "_unsafe_index_put",
     "index_select",
     "linspace", "logsumexp", "masked_fill", "masked_fill_", "max", "mean", "min", "mse_loss", "mse_loss_backward",
     "native_layer_norm", "native_layer_norm_backward", "native_group_norm", "native_group_norm_backward",
     "native_batch_norm", "native_batch_norm_backward", "_native_batch_norm_legit", "cudnn_batch_norm",
     "_native_batch_norm_legit_functional", "_batch_norm_with_update", "batch_norm_backward",
     "_fused_rms_norm", "_fused_rms_norm_backward", "rms_norm", "rms_norm_backward",
     "nll_loss_forward", "nll_loss_backward",
     "binary_cross_entropy_with_logits", "binary_cross_entropy",
     "binary_cross_entropy_backward", "norm", "linalg_vector_norm", "ones", "ones_like",
     "zeros", "zeros_like", "new_zeros", "new_ones", "new_full", "rand", "rand_like", "randint", "randint_like",
     "randn",
     "randn_like", "random", "repeat", "repeat_interleave", "roll", "scalar_tensor", "scatter", "scatter_add",
     "scatter_reduce", "select_backward", "slice_backward", "diagonal_backward", "select_scatter", "slice_scatter",
     "_softmax", "_softmax_backward_data", "_safe_softmax", "_amp_foreach_non_finite_check_and_unscale_",
     "_amp_update_scale_", "_log_softmax", "_log_softmax_backward_data", "split_with_sizes_copy", "std",
     "sum", "threshold_backward", "tril", "triu", "uniform", "normal", "unfold_backward", "upsample_nearest2d",
     "upsample_nearest2d_backward", "upsample_bilinear2d", "upsample_bilinear2d_backward", "var", "var_mean", "where",
     "zero", "max_pool2d_with_indices", "max_pool2d_with_indices_backward", "avg_pool2d", "avg_pool2d_backward",
     "_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward", "mean_dim", "prod", "eye", "cumprod", "one_hot",
     "_chunk_cat", "chunk_cat", "split_copy", "all_gather_copy_in", "split_with_sizes_copy_out", "trunc_normal"}
)  # fmt: skip
"""Operators bound by memory on every device, beside PyTorch's element-wise and ``_foreach_`` operators."""

MULTI_TENSOR = {1: 110, 2: 64, 3: 48, 4: 36, 5: 30}
"""Most tensors of a kernel on lists, by lists that it goes through (pytorch ATen/native/cuda/MultiTensorApply.cuh)."""
MULTI_TENSOR_CHUNKS, MULTI_TENSOR_CHUNK = 320, 65_536
"""Most chunks of such a kernel, and elements of a chunk (the same file)."""


def has_kernel(call: CalledOperator) -> bool:
    """Whether an operator starts anything on the device."""
    func = call.func
    name = func._opname  # noqa: SLF001 - the name without namespace and overload
    return not (func.is_view or func.namespace in _OUTSIDE or name in _WITHOUT_KERNEL)


def works_of(call: CalledOperator) -> list[tuple[RecordedWork, int]]:
    """Works of an operator with the launches of each; empty where it starts nothing."""
    if not has_kernel(call):
        return []
    for kind in _KINDS:
        found = kind(call)
        if found is not None:
            return [(work, _launches(call)) for work in found]
    if not call.written:
        return []
    return [(_moved(call), _launches(call))]


def _moved(call: CalledOperator) -> Moved:
    """A kernel by its bytes."""
    name = call.func._opname  # noqa: SLF001
    if name == "all_gather_copy_in":  # of FSDP2: writes a part of its output
        copied = sum(map(bytes_of, tensors_in(call.given["all_gather_inputs"])))
        return Moved(read_bytes=copied, write_bytes=copied)
    lists = name.startswith("_foreach_")
    element_wise = call.pointwise or name in ("_to_copy", "copy_", "clone", "where", "masked_fill", "native_dropout")
    known = element_wise or lists or name.rstrip("_") in _MEMORY_BOUND or name in _MEMORY_BOUND
    return Moved(
        read_bytes=call.read_bytes,
        write_bytes=call.write_bytes,
        element_wise=element_wise,
        priced_by_bytes=not known,
    )


def _launches(call: CalledOperator) -> int:
    """Kernels of an operator: more than one on long lists of tensors."""
    if not call.func._opname.startswith(("_foreach_", "_fused_ada", "_fused_sgd")):  # noqa: SLF001
        return 1
    lists = [value for value in call.given.values() if isinstance(value, list | tuple) and value]
    lists = [value for value in lists if isinstance(value[0], Tensor) and value[0].dim()]  # numbers of steps stay apart
    tensors: Sequence[Tensor] = lists[0] if lists else []
    chunks = sum(-(-tensor.numel() // MULTI_TENSOR_CHUNK) for tensor in tensors)
    most = MULTI_TENSOR[min(max(len(lists), 1), 5)]
    return max(1, -(-len(tensors) // most), -(-chunks // MULTI_TENSOR_CHUNKS))

"""Works of operators by closed forms and by PyTorch's counter of operations, on tensors without memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from trainer.capture.norms import rms_norm
from trainer.capture.operators.call import CalledOperator
from trainer.capture.operators.gpu_only import RESULTS
from trainer.capture.operators.kernels import MULTI_TENSOR, MULTI_TENSOR_CHUNK, MULTI_TENSOR_CHUNKS, works_of
from trainer.capture.operators.recurrent import Recurrence
from trainer.capture.operators.rows import Unhandled, without_memory
from trainer.capture.tables import TableBatch
from workloads.captured.counts import flops_of
from workloads.captured.records import (
    AttentionWork,
    ConvolutionWork,
    Lookup,
    Moved,
    OptimizerWork,
    Product,
    RecordedWork,
    Update,
)

aten = torch.ops.aten


class Works(TorchDispatchMode):
    """Collects works and launches of all operators, as the recorder does."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[RecordedWork, int]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        result = without_memory(func, tuple(args), kwargs)
        if result is Unhandled:
            made = RESULTS.get(func._opname)
            result = func(*args, **kwargs) if made is None else made(CalledOperator(func, args, kwargs, None))
        self.found += works_of(CalledOperator(func, args, kwargs, result))
        return result


def works(run: Callable[[], object], kind: type = object) -> list:
    """Works of a kind that a function starts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with FakeTensorMode(), Works() as mode:
            run()
    return [work for work, _ in mode.found if isinstance(work, kind)]


def launches(run: Callable[[], object]) -> list[int]:
    with FakeTensorMode(), Works() as mode:
        run()
    return [count for _, count in mode.found]


def counted(run: Callable[[], object]) -> int:
    with FakeTensorMode(), FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(*shape, dtype=dtype)


PRODUCTS = {
    "mm": (lambda: tensor(3, 5) @ tensor(5, 7), Product(m=3, n=7, k=5, dtype="fp32")),
    "addmm": (lambda: torch.addmm(tensor(7), tensor(3, 5), tensor(5, 7)), Product(m=3, n=7, k=5, dtype="fp32")),
    "transposed": (lambda: tensor(5, 3).T @ tensor(5, 7), Product(m=3, n=7, k=5, dtype="fp32", transposed=True)),
    "bmm": (lambda: torch.bmm(tensor(2, 3, 5), tensor(2, 5, 7)), Product(m=3, n=7, k=5, count=2, dtype="fp32")),
    "baddbmm": (
        lambda: torch.baddbmm(tensor(2, 3, 7), tensor(2, 3, 5), tensor(2, 5, 7)),
        Product(m=3, n=7, k=5, count=2, dtype="fp32"),
    ),
    "mv": (lambda: torch.mv(tensor(3, 5), tensor(5)), Product(m=3, n=1, k=5, dtype="fp32")),
    "dot": (lambda: torch.dot(tensor(5), tensor(5)), Product(m=1, n=1, k=5, dtype="fp32")),
    "half": (
        lambda: tensor(3, 5, dtype=torch.bfloat16) @ tensor(5, 7, dtype=torch.bfloat16),
        Product(m=3, n=7, k=5, dtype="bf16"),
    ),
}


@pytest.mark.parametrize("name", [*PRODUCTS])
def test_products_have_the_sizes_of_their_factors(name: str) -> None:
    run, expected = PRODUCTS[name]
    (found,) = works(run, Product)
    got = (found.m, found.n, found.k, found.count, found.dtype, found.transposed)
    assert got == (expected.m, expected.n, expected.k, expected.count, expected.dtype, expected.transposed)


def test_products_without_elements_start_nothing() -> None:
    assert works(lambda: tensor(0, 5) @ tensor(5, 7), Product) == []


def attention_run(op: str, *, causal: bool, train: bool = True) -> Callable[[], object]:
    def run() -> object:
        query, key, value = (
            torch.empty(2, 4, length, 64, dtype=torch.bfloat16, requires_grad=train) for length in (96, 128, 128)
        )
        if op == "flash":
            found = aten._scaled_dot_product_flash_attention(query, key, value, 0.0, causal)
        else:
            found = aten._scaled_dot_product_efficient_attention(query, key, value, None, train, 0.0, causal)
        return found[0].sum().backward() if train else found

    return run


@pytest.mark.parametrize("op", ["flash", "efficient"])
def test_attention_has_two_products_forward_and_five_backward(op: str) -> None:
    forward, backward = works(attention_run(op, causal=False), AttentionWork)
    assert forward.flops == 2 * 2 * 2 * 4 * 96 * 128 * 64
    assert backward.flops == 2.5 * forward.flops
    assert forward.flops + backward.flops == counted(attention_run(op, causal=False))
    assert (forward.head_dim, forward.sequence, forward.backward, backward.backward) == (64, 128, False, True)
    tensors = 2 * 4 * 64 * 2 * (96 + 2 * 128 + 96)
    assert forward.bytes == pytest.approx(tensors, rel=0.02)  # and a sum for each query


def test_a_causal_mask_leaves_half() -> None:
    plain, masked = (works(attention_run("flash", causal=causal), AttentionWork) for causal in (False, True))
    assert [work.flops for work in masked] == [work.flops / 2 for work in plain]


CONVOLUTIONS = {
    "plane": (lambda: torch.nn.Conv2d(8, 16, 3, stride=2, padding=1), (4, 8, 32, 32)),
    "groups": (lambda: torch.nn.Conv2d(8, 16, 3, groups=4), (4, 8, 32, 32)),
    "depthwise": (lambda: torch.nn.Conv2d(8, 8, 5, groups=8), (4, 8, 32, 32)),
    "line": (lambda: torch.nn.Conv1d(8, 16, 3, stride=2), (4, 8, 100)),
    "transposed": (lambda: torch.nn.ConvTranspose2d(8, 16, 3, stride=2), (4, 8, 16, 16)),
}


@pytest.mark.parametrize("name", [*CONVOLUTIONS])
def test_convolutions_have_the_operations_of_pytorchs_counter(name: str) -> None:
    make, shape = CONVOLUTIONS[name]

    def run() -> None:
        make()(torch.empty(*shape, requires_grad=True)).sum().backward()

    found = works(run, ConvolutionWork)
    forward = counted(lambda: make()(torch.empty(*shape)))
    assert [flops_of(work) for work in found] == [forward] * 3
    if name not in ("groups", "depthwise"):  # whose gradients of weights PyTorch counts for all pairs of channels
        assert counted(run) == 3 * forward
    directions = [work.direction for work in found]
    assert sorted(directions) == ["forward", "inputs", "weights"]


def test_a_convolution_has_its_closed_form() -> None:
    (work,) = works(lambda: torch.nn.Conv2d(8, 16, 3, padding=1)(tensor(4, 8, 32, 32)), ConvolutionWork)
    assert flops_of(work) == 2 * 4 * 32 * 32 * 16 * 8 * 9


def test_lookups_count_indices_and_bags() -> None:
    def run() -> None:
        torch.nn.Embedding(1000, 16)(torch.zeros(4, 5, dtype=torch.int64)).sum().backward()
        torch.nn.EmbeddingBag(500, 8, mode="sum")(torch.zeros(4, 5, dtype=torch.int64)).sum().backward()
        torch.nn.EmbeddingBag(500, 8, mode="sum", sparse=True)(torch.zeros(4, 5, dtype=torch.int64)).sum().backward()

    tables = [(t.rows, t.dim, t.lookups, t.bags) for work in works(run, Lookup) for t in work.tables]
    assert tables == [(1000, 16, 20, 20), (500, 8, 20, 4), (500, 8, 20, 4)]
    updates = works(run, Update)
    assert [(t.rows, t.dim, t.lookups, t.bags) for work in updates for t in work.tables] == tables
    assert [work.dense for work in updates] == [True, True, False]


def test_table_batches_are_one_kernel_each_way() -> None:
    def run() -> None:
        batch = TableBatch([1000, 500], [16, 8], optimizer="rowwise_adagrad")
        batch([torch.zeros(4, 5, dtype=torch.int64), torch.zeros(4, 1, dtype=torch.int64)]).sum().backward()

    (lookup,), (update,) = works(run, Lookup), works(run, Update)
    tables = [(1000, 16, 20, 4), (500, 8, 4, 4)]
    for work in (lookup, update):
        assert [(t.rows, t.dim, t.lookups, t.bags) for t in work.tables] == tables
    assert update.optimizer == "rowwise_adagrad"


def test_sparse_gradients_move_stored_rows() -> None:
    def run() -> None:
        indices, values = torch.zeros(1, 20, dtype=torch.int64), tensor(20, 16)
        gradient = torch.sparse_coo_tensor(indices, values, (1000, 16), check_invariants=False)
        assert gradient.clone()._nnz() == 20
        assert (gradient + gradient)._nnz() == 40
        tensor(1000, 16).add_(gradient, alpha=-0.1)

    values, indices = 20 * 16 * 4, 20 * 8
    last = works(run, Moved)[-1]
    assert (last.read_bytes, last.write_bytes) == (2 * values + indices, values)


def parameters(count: int, size: int) -> list[Tensor]:
    return [tensor(size) for _ in range(count)]


def test_fused_optimizers_read_gradients_and_rewrite_the_rest() -> None:
    def run() -> None:
        model = torch.nn.Linear(8, 16)
        model(tensor(2, 8)).sum().backward()
        torch.optim.AdamW(model.parameters(), fused=True).step()

    (work,) = works(run, OptimizerWork)
    assert (work.parameters, work.bytes) == (8 * 16 + 16, 7 * (8 * 16 + 16) * 4)


@pytest.mark.parametrize("lists", [1, 2])
def test_kernels_on_lists_are_divided_by_tensors_and_by_chunks(lists: int) -> None:
    def run(count: int, size: int) -> list[int]:
        def body() -> None:
            own = parameters(count, size)
            if lists == 1:
                torch._foreach_mul_(own, 2.0)
            else:
                torch._foreach_add_(own, parameters(count, size))

        return launches(body)

    most = MULTI_TENSOR[lists]
    assert run(most, 8) == [1]
    assert run(most + 1, 8) == [2]
    assert run(3 * most, 8) == [3]
    assert run(1, MULTI_TENSOR_CHUNK * MULTI_TENSOR_CHUNKS) == [1]
    assert run(1, MULTI_TENSOR_CHUNK * MULTI_TENSOR_CHUNKS + 1) == [2]


def test_element_wise_kernels_move_their_tensors_once() -> None:
    relu, total = works(lambda: torch.relu(tensor(64, 32)).sum(dim=0), Moved)
    assert (relu.read_bytes, relu.write_bytes, relu.element_wise) == (8192, 8192, True)
    assert (total.read_bytes, total.write_bytes, total.element_wise) == (8192, 128, False)


def test_views_start_nothing_and_unknown_operators_are_marked() -> None:
    assert works(lambda: torch.split(tensor(8, 8).T.reshape(64).view(4, 16).detach(), 2), Moved) == works(
        lambda: tensor(8, 8).T.reshape(64), Moved
    )
    assert [work.priced_by_bytes for work in works(lambda: torch.linalg.inv_ex(tensor(8, 8)), Moved)] == [True]


@pytest.mark.parametrize(("gates", "output"), [(4, 32), (3, 32), (4, 16)])
def test_recurrent_layers_have_the_operations_of_their_cells(gates: int, output: int) -> None:
    layer = Recurrence(steps=7, batch=5, inputs=24, hidden=32, output=output, gates=gates, dtype="fp32", element=4)
    projection = 2 * 7 * 5 * 32 * output if output != 32 else 0
    forward = 2 * 7 * 5 * gates * 32 * (24 + output) + projection
    assert sum(map(flops_of, layer.forward())) == forward
    assert sum(map(flops_of, layer.backward())) == 2 * forward
    assert sum(isinstance(work, Moved) for work in layer.forward()) == 7


def test_rms_norm_and_its_gradients_are_pytorchs() -> None:
    generator = torch.Generator().manual_seed(0)
    x, weight, gradient = (torch.randn(*shape, generator=generator) for shape in ((4, 6, 32), (32,), (4, 6, 32)))
    found = []
    for norm in (rms_norm, torch.nn.functional.rms_norm):
        own, scale = x.clone().requires_grad_(), weight.clone().requires_grad_()
        result = norm(own, [32], scale, 1e-5)
        result.backward(gradient)
        found.append((result.detach(), own.grad, scale.grad))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)

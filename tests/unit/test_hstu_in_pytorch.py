"""A layer of the HSTU paper in plain PyTorch, whose operators are counted: an oracle for operations and parameters.

Zhai et al. (arXiv 2402.17152), equations 1 to 3, with the output layer of generative-recommenders (``stu.py``), which
projects u, the attention and the gated attention side by side. `FlopCounterMode` counts 2 m n k for every product that
ATen executes, whether a mask removes half of it or not; other operators count nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from tests.sequence_jobs import BATCH, HEADS, QUERY, VALUE, WIDTH, flops, model_data, placed, works  # noqa: E402

POSITIONS = 12
"""Positions of every sample; there are no candidates and no context."""
SPLIT = (HEADS * VALUE, HEADS * VALUE, HEADS * QUERY, HEADS * QUERY)
"""Elements of u, v, q and k."""


class PlainHstuLayer(nn.Module):
    """``x -> x + output(u, a, norm(a) * u)`` with ``a = SiLU(q k^T / sqrt(d)) v`` under a causal mask."""

    def __init__(self, *, again: bool = False) -> None:
        super().__init__()
        self.again = again
        self.input_norm = nn.LayerNorm(WIDTH)
        self.uvqk = nn.Linear(WIDTH, sum(SPLIT))
        self.attention_norm = nn.LayerNorm(HEADS * VALUE)
        self.output = nn.Linear(3 * HEADS * VALUE, WIDTH, bias=False)

    def projected(self, x: torch.Tensor) -> torch.Tensor:
        return functional.silu(self.uvqk(self.input_norm(x)))

    def attention(self, v: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        """``[B, N, h v]`` from ``[B, N, h v]`` and twice ``[B, N, h d]``."""
        batch, positions = v.shape[:2]
        q, k, v = (each.view(batch, positions, HEADS, -1).transpose(1, 2) for each in (q, k, v))
        mask = torch.ones(positions, positions).tril()
        scores = functional.silu(q @ k.transpose(-1, -2) / QUERY**0.5) / positions * mask
        return (scores @ v).transpose(1, 2).reshape(batch, positions, HEADS * VALUE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed = checkpoint(self.projected, x, use_reentrant=False) if self.again else self.projected(x)
        u, v, q, k = mixed.split(SPLIT, dim=-1)
        attended = self.attention(v, q, k)
        gated = self.attention_norm(attended) * u
        return x + self.output(torch.cat([u, attended, gated], dim=-1))


@dataclass(frozen=True)
class Counted:
    """Operations of linear layers and of the products of attention."""

    linear: int
    attention: int


def counted(layer: PlainHstuLayer, *, backward: bool) -> Counted:
    """Operators of the forward or of the backward pass of a layer, whose inputs need gradients, too."""
    x = torch.randn(BATCH, POSITIONS, WIDTH, requires_grad=True)
    with FlopCounterMode(display=False) as forward:
        result = layer(x).sum()
    if not backward:
        return _by_operator(forward)
    with FlopCounterMode(display=False) as of_gradients:
        result.backward()
    assert x.grad is not None
    return _by_operator(of_gradients)


def _by_operator(counter: FlopCounterMode) -> Counted:
    found = {str(operator): total for operator, total in counter.get_flop_counts()["Global"].items()}
    products = {name for name in found if name in ("aten.mm", "aten.addmm", "aten.bmm")}
    assert products == set(found), found
    return Counted(sum(total for name, total in found.items() if name != "aten.bmm"), found["aten.bmm"])


def simulated(*, backward: bool, recompute: bool = False) -> Counted:
    """The same of the first layer's tasks in a graph, of one rank."""
    model = model_data(
        {"distribution": "fixed"}, max_length=POSITIONS, targets=0, context=False, item_width=None, recompute=recompute
    )
    graph = works(placed(model, 1)[1].graph().programs[0])
    of_layer = {name: work for name, work in graph.items() if name.startswith("hstu_0_")}
    passes = {name: name.endswith(("_gradient", "_backward", "_again")) for name in of_layer}
    found = {name: int(flops(work, 1)[0]) for name, work in of_layer.items() if passes[name] == backward}
    attention = sum(total for name, total in found.items() if "attention" in name)
    return Counted(sum(found.values()) - attention, attention)


@pytest.fixture(scope="module", autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("backward", [False, True])
def test_linear_layers_have_the_operations_of_pytorch(backward):
    """UVQK and output, forward one product each, backward two each: equal to the last operation."""
    assert simulated(backward=backward).linear == counted(PlainHstuLayer(), backward=backward).linear


def test_attention_forward_is_half_of_that_of_pytorch():
    """PyTorch multiplies all pairs of positions; the mask removes half of them."""
    scores = 2 * BATCH * HEADS * POSITIONS**2 * QUERY
    values = 2 * BATCH * HEADS * POSITIONS**2 * VALUE
    found = counted(PlainHstuLayer(), backward=False).attention
    assert found == scores + values
    assert 2 * simulated(backward=False).attention == found


def test_attention_backward_is_half_of_that_of_pytorch_and_of_the_scores_again():
    """PyTorch has kept the scores: four products, of the gradients of queries, keys, scores and values. A kernel that
    never writes the scores computes them again: five products, of half the pairs."""
    scores = 2 * BATCH * HEADS * POSITIONS**2 * QUERY
    values = 2 * BATCH * HEADS * POSITIONS**2 * VALUE
    found = counted(PlainHstuLayer(), backward=True).attention
    assert found == 2 * scores + 2 * values
    assert 2 * simulated(backward=True).attention == found + scores


def test_recomputing_adds_what_a_checkpoint_adds():
    """`torch.utils.checkpoint` around UVQK and its activation: its forward product once more in the backward pass."""
    extra = simulated(backward=True, recompute=True).linear - simulated(backward=True).linear
    kept, again = (counted(PlainHstuLayer(again=again), backward=True) for again in (False, True))
    assert extra == again.linear - kept.linear == 2 * BATCH * POSITIONS * WIDTH * sum(SPLIT)


def test_parameters_of_a_layer_are_those_of_the_module():
    _, workload = placed(model_data(), 1)
    stack = workload.job.dense.hstu
    found = {layer.name: layer.parameters for layer in stack.named_layers()}
    module = PlainHstuLayer()
    size = {name: sum(p.numel() for p in part.parameters()) for name, part in module.named_children()}
    for number in range(stack.layers):
        assert found[f"hstu_{number}_uvqk"] == size["uvqk"]
        assert found[f"hstu_{number}_output"] == size["output"]
        assert found[f"hstu_{number}_norms"] == size["input_norm"] + size["attention_norm"]


def test_a_position_depends_on_none_behind_it():
    """The oracle is causal: otherwise the half that is left out here would be needed."""
    layer = PlainHstuLayer()
    x = torch.randn(1, POSITIONS, WIDTH)
    changed = x.clone()
    changed[:, -1] += 1.0
    one, other = (layer(each).detach().numpy() for each in (x, changed))
    assert np.array_equal(one[:, :-1], other[:, :-1])
    assert not np.array_equal(one[:, -1], other[:, -1])

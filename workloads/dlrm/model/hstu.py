"""HSTU: hierarchical sequential transduction units, which let the positions of a history attend to each other.

A layer (Zhai et al., arXiv 2402.17152) normalises its input x, projects it to u, v, q and k (UVQK), computes
``SiLU(q k^T / sqrt(d)) v`` without a softmax, gates the normalised result with ``SiLU(u)``, and projects u, the
attention and the gated attention back to the width of x, which is added.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import model_validator

from inputs.model import Strict, problem
from inputs.quantities import Quantity
from simulator.operators import AttentionKernel
from workloads.dlrm.model.table_list import Width
from workloads.graded import Graded

TRAINED = 3.0
"""Operations of linear layers, training over forward: a product, and one for each of two gradients."""

PROJECTED = 3
"""Vectors of a head that the output layer projects: u, the attention, and the gated attention (generative-recommenders,
``stu.py``: ``concat_u``, ``concat_x``)."""

Layers = Annotated[int, Quantity("count", 1, 10_000)]
Buckets = Annotated[int, Quantity("count", 1, 1e9)]


class Hstu(Strict):
    """A stack of HSTU layers over the positions of a sequence.

    Attributes:
        sequence: the sequence that attention runs over.
        context: the sequence of features that stand before it, one position each; None: there are none.
        layers: number of layers.
        width: elements of a position.
        heads: heads of attention.
        qk_width: elements of a head's query, and of its key.
        value_width: elements of a head's value, and of its u.
        preprocessor_width: hidden width of the MLPs that bring vectors of a position to ``width``.
        action_width: elements of the embedding of a position's action; None: positions have no actions.
        position_buckets: rows of the learned vectors of positions and of times together; None: there are none.
        bias_buckets: learned biases of relative positions and times, which are added to the scores of all heads; None:
            there are none.
        bias_stored: whether the biases of all pairs of positions are written to memory and read by the attention;
            False: its kernel looks them up.
        item_width: hidden width of the MLP over the candidates' own vectors; None: there is none.
        recompute: whether the backward pass computes UVQK and the gated attention again instead of keeping them; None:
            it keeps them.
        kernel: kernel of the attention, whose rate counts (`simulator.compute.attention`); None: ``flash2``.
    """

    sequence: str
    context: str | None = None
    layers: Graded[Layers]
    width: Graded[Width]
    heads: Graded[Width]
    qk_width: Graded[Width]
    value_width: Graded[Width]
    preprocessor_width: Graded[Width] | None = None
    action_width: Graded[Width] | None = None
    position_buckets: Graded[Buckets] | None = None
    bias_buckets: Graded[Buckets] | None = None
    bias_stored: Graded[bool] | None = None
    item_width: Graded[Width] | None = None
    recompute: Graded[bool] | None = None
    kernel: Graded[AttentionKernel] | None = None

    @model_validator(mode="after")
    def _biases(self) -> Self:
        if self.bias_stored is not None and self.bias_buckets is None:
            raise problem("no biases to store", expected="bias_buckets, or no bias_stored", key="bias_stored")
        return self

    @property
    def recomputes(self) -> bool:
        """Whether the backward pass computes UVQK and the gated attention again."""
        return self.recompute is not None and self.recompute.value

    @property
    def attention_kernel(self) -> AttentionKernel:
        """Kernel whose rate the attention takes."""
        return "flash2" if self.kernel is None else self.kernel.value

    @property
    def stores_bias(self) -> bool:
        """Whether biases of all pairs of positions are in memory."""
        return self.bias_stored is not None and self.bias_stored.value

    @property
    def values(self) -> int:
        """Elements of the values, or of u, of all heads."""
        return self.heads.value * self.value_width.value

    @property
    def queries(self) -> int:
        """Elements of the queries, or of the keys, of all heads."""
        return self.heads.value * self.qk_width.value

    @property
    def projected(self) -> int:
        """Elements of u, v, q and k together."""
        return 2 * (self.values + self.queries)

    @property
    def attention_forward(self) -> float:
        """Operations of attention for a pair of positions, masked or not: half of two products, of scores and values.

        The mask leaves half of the pairs, and each takes a multiplication and an addition an element.
        """
        return float(self.queries + self.values)

    @property
    def attention_backward(self) -> float:
        """Operations of its gradients: the scores again, gradients of queries, of keys, of scores, and of values.

        Five products (FlashAttention-2, arXiv:2307.08691), three as wide as queries, two as wide as values.
        """
        return float(3 * self.queries + 2 * self.values)

    @property
    def even_positions(self) -> float:
        """Length of a history at which attention takes as many operations as the linear layers of a block."""
        linear = 2.0 * self.width.value * (self.projected + PROJECTED * self.values)
        return TRAINED * linear / (self.attention_forward + self.attention_backward)

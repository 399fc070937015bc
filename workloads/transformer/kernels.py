"""Kernels of a layer, of the embedding, and of output layer and loss: forward and backward pass of a micro-batch.

With T tokens on a rank, width h, t ranks in a tensor group and sequences of s tokens, of which c ranks share each:

    linear layers  products [T, k] x [k, n / t]; gradients of inputs and weights are a product each
    attention      4 T s (h / t) operations, half with a causal mask; 2.5 times in the backward pass, which computes the
                   scores again. One kernel (FlashAttention), or products and kernels on the scores [heads / t, T, s]
    norms, sums    element-wise on T tokens, or T / t where the tensor group divides them (arXiv:2205.05198)

Element-wise work is a list of chains: the kernels of each in PyTorch, and the reads and writes that are left when a
compiler makes one kernel of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from simulator.operators import Attention, AttentionKernel, Elementwise, Gemm
from simulator.work import Kernel, KernelSeries
from workloads.transformer.settings import TransformerSettings

GEMM, ATTENTION, ELEMENTWISE = "Gemm", "Attention", "Elementwise"
"""Kinds of kernels that are told apart in breakdowns, by the name of their operator."""

Counted = tuple[int, Kernel]
Accesses = tuple[float, float]
"""Elements read and written, of the size of an activation, for each element of a tensor."""

ATTENTION_BACKWARD = 2.5
"""Products of the backward pass over those of the forward pass: 5 of 2 (FlashAttention-2, arXiv:2307.08691)."""

MASK = 0.5
"""Mask of a dropout: a byte for each element of 2 bytes."""


@dataclass(frozen=True, slots=True)
class PassKernels:
    """Kernels of one pass of a part of the network, by kind.

    Attributes:
        first: element-wise kernels.
        products: linear layers.
        attention: attention; empty outside layers.
    """

    first: tuple[Counted, ...]
    products: tuple[Counted, ...]
    attention: tuple[Counted, ...] = ()

    def __add__(self, other: PassKernels) -> PassKernels:
        """The kernels of both."""
        return PassKernels(self.first + other.first, self.products + other.products, self.attention + other.attention)

    def times(self, count: int) -> PassKernels:
        """The same of so many equal parts."""
        return PassKernels(*(tuple((n * count, k) for n, k in own) for own in self._kinds))

    @property
    def launches(self) -> int:
        """Number of kernels."""
        return sum(count for own in self._kinds for count, _ in own)

    def series(self) -> Iterator[KernelSeries]:
        """A series for each kind that there is."""
        for name, own in zip((ELEMENTWISE, GEMM, ATTENTION), self._kinds, strict=True):
            if own:
                yield KernelSeries(name, own)

    @property
    def _kinds(self) -> tuple[tuple[Counted, ...], ...]:
        return (self.first, self.products, self.attention)


@dataclass(frozen=True, slots=True)
class ElementwiseChain:
    """Element-wise operators that follow each other.

    Attributes:
        elements: elements of the tensor.
        eager: accesses of each kernel.
        fused: accesses of the one kernel of a compiler.
    """

    elements: float
    eager: tuple[Accesses, ...]
    fused: Accesses

    def kernels(self, settings: TransformerSettings) -> Iterator[Counted]:
        """The kernels, as the job has them."""
        size = self.elements * settings.element_bytes
        if settings.compiled:
            yield 1, Elementwise(self.fused[0] * size, self.fused[1] * size)
            return
        for (read, write), passed in zip(self.eager, self._passed(), strict=True):
            reads, only = (size * part for part in passed)
            yield 1, Elementwise(read * size, write * size, next_read_bytes=reads, next_only_bytes=only)

    def _passed(self) -> Iterator[Accesses]:
        """Accesses that one kernel spares, at each kernel: reads of the next one, and writes that only that reads.

        They are those that the one kernel of a compiler does not have, in proportion to what could be spared.
        """
        reads, writes = ([own[side] for own in self.eager] for side in (0, 1))
        later, earlier = sum(reads[1:]), sum(writes[:-1])
        for read, write in zip(reads[1:], writes[:-1], strict=True):
            yield (
                read / later * min(sum(reads) - self.fused[0], later) if later else 0.0,
                write / earlier * min(sum(writes) - self.fused[1], earlier) if earlier else 0.0,
            )
        yield 0.0, 0.0


RMS_FORWARD: tuple[Accesses, ...] = ((1, 2), (2, 2), (2, 0), (2, 2), (2, 1), (1, 1))
"""RMS norm in PyTorch: cast to fp32, square, mean, scale, cast back, weights (``torch.nn.functional.rms_norm``)."""

RMS_BACKWARD: tuple[Accesses, ...] = ((2, 1), (2, 0), (1, 2), (4, 2), (4, 0), (4, 2), (2, 2), (4, 2), (2, 1))
"""Gradients of the same operators, one after the other, and of the weights (counted by hand)."""

LAYER_FORWARD: tuple[Accesses, ...] = ((1, 1),)
LAYER_BACKWARD: tuple[Accesses, ...] = ((2, 1), (2, 0))
"""Layer norm has a kernel of its own; its backward pass has one for the inputs and one for the weights."""

ROTATION: tuple[Accesses, ...] = ((1, 2), (2, 2), (2, 1))
"""Rotary positions: cast to fp32, product of complex numbers, cast back (torchtitan, ``apply_rotary_emb``)."""


def layer_forward(settings: TransformerSettings) -> PassKernels:
    """Forward pass of a layer."""
    products = _linears(settings)
    return PassKernels(
        tuple(_kernels(_forward_chains(settings), settings)) + tuple(_casts(products, settings)),
        tuple((1, product) for product in products),
        tuple(attention_forward(settings)),
    )


def layer_backward(settings: TransformerSettings) -> PassKernels:
    """Backward pass of a layer, with what is computed again unless it is all of the forward pass."""
    forward = _linears(settings)
    gradients = [
        gradient
        for g in forward
        for gradient in (
            Gemm(g.m, g.k, g.n, g.precision),
            Gemm(g.k, g.n, g.m, g.precision, transposed=True),
        )
    ]
    own = PassKernels(
        tuple(_kernels(_backward_chains(settings), settings)) + tuple(_casts(forward, settings, backward=True)),
        tuple((1, product) for product in gradients),
        tuple(attention_backward(settings)),
    )
    if settings.recompute == "selective":
        return PassKernels((), (), tuple(attention_forward(settings))) + own
    if settings.recompute == "operators":
        return _repeated(settings) + own
    return own


def _repeated(settings: TransformerSettings) -> PassKernels:
    """Every second product of a layer, and what is between its products and within attention that writes its scores.

    In their order these are queries, keys, values, output, and two or three matrices of the feed-forward network.
    """
    model, tensor, tokens = settings.model, settings.sizes.tensor, settings.tokens
    h, kv, q = model.hidden, model.kv_width // tensor, model.query_width // tensor
    shapes = [(kv, h), (h, q)] + ([(model.ffn // tensor, h)] if model.gated else [])
    products = [Gemm(tokens, n, k, settings.precision) for n, k in shapes]
    between = tuple(_kernels(_forward_chains(settings), settings)) + tuple(_casts(products, settings))
    scores = () if settings.flash else tuple(attention_forward(settings))
    return PassKernels(between, tuple((1, product) for product in products), scores)


def _linears(settings: TransformerSettings) -> list[Gemm]:
    """Products of the linear layers of a layer: queries, keys and values; output; feed-forward network."""
    model, tensor, tokens = settings.model, settings.sizes.tensor, settings.tokens
    h, f, q = model.hidden, model.ffn // tensor, model.query_width // tensor
    shapes = [(q + 2 * model.kv_width // tensor, h), (h, q), (f * (2 if model.gated else 1), h), (h, f)]
    found = [Gemm(tokens, n, k, settings.precision) for n, k in shapes]
    if model.positions == "relative":
        found.append(Gemm(2 * settings.sequence, q, h, settings.precision))
    return found


def _casts(products: Sequence[Gemm], settings: TransformerSettings, *, backward: bool = False) -> Iterator[Counted]:
    """Casts of linear layers in fp8: inputs and weights, or gradients of outputs, each also transposed.

    The largest number of a tensor, which scales it, takes a pass of its own unless that is fused. A tensor of the
    model's width is cast before the tensor group gathers it, and transposed after.
    """
    if settings.precision != "fp8":
        return
    width, tokens = settings.model.hidden, settings.tokens
    for g in products:
        activations = g.n if backward else g.k
        tensors = [(float(g.m * activations), activations == width and g.m == tokens)]
        tensors += [] if backward else [(float(g.k * g.n), False)]
        for whole, gathered in tensors:
            own = whole * settings.own_tokens / tokens if gathered else whole
            if not settings.compiled:
                yield 1, Elementwise(2.0 * own, 0.0)
            later = whole if own < whole else 0.0  # bytes read again to transpose what was gathered
            yield 1, Elementwise(2.0 * own + later, own + whole)


def attention_forward(settings: TransformerSettings) -> Iterator[Counted]:
    """Scores, softmax and weighted sums."""
    if settings.flash:
        q, kv = _attention_elements(settings)
        moved = settings.element_bytes * (2 * q + 2 * kv)
        yield 1, _attention(settings, _attention_flops(settings), moved)
        return
    scores, sums, relative = _attention_products(settings)
    yield 1, scores
    yield from ((1, r) for r in relative)
    yield from _score_chain(settings).kernels(settings)
    yield 1, sums


def attention_backward(settings: TransformerSettings) -> Iterator[Counted]:
    """Gradients of queries, keys and values."""
    if settings.flash:
        q, kv = _attention_elements(settings)
        flops, moved = ATTENTION_BACKWARD * _attention_flops(settings), settings.element_bytes * (4 * q + 4 * kv)
        yield 1, _attention(settings, flops, moved, backward=True)
        return
    scores, sums, relative = _attention_products(settings)
    for product in (scores, *relative, sums):
        yield 1, Gemm(product.m, product.k, product.n, product.precision, product.count)
        yield 1, Gemm(product.k, product.n, product.m, product.precision, product.count, transposed=True)
    yield from _score_chain(settings, backward=True).kernels(settings)


def _attention(settings: TransformerSettings, flops: float, moved: float, *, backward: bool = False) -> Attention:
    """A kernel that never writes the scores."""
    model = settings.model
    kernel = cast(AttentionKernel, settings.attention)
    return Attention(
        flops, moved, model.head_width, settings.sequence, settings.tensors, model.causal, backward, kernel
    )


def _attention_flops(settings: TransformerSettings) -> float:
    model = settings.model
    products = 4.0 * settings.tokens * settings.sequence * model.query_width / settings.sizes.tensor
    return products / 2.0 if model.causal else products


def _attention_elements(settings: TransformerSettings) -> tuple[float, float]:
    """Elements of queries (outputs have as many), and of keys (values have as many), of whole sequences."""
    model, tensor = settings.model, settings.sizes.tensor
    keys = settings.micro_batch * settings.sequence * model.kv_width / tensor
    return settings.tokens * model.query_width / tensor, keys


def _attention_products(settings: TransformerSettings) -> tuple[Gemm, Gemm, list[Gemm]]:
    """Scores, weighted sums, and scores of relative positions."""
    model = settings.model
    places, width = settings.sequence // settings.sizes.context, model.head_width
    count = settings.micro_batch * model.heads // settings.sizes.tensor
    scores = Gemm(places, settings.sequence, width, settings.tensors, count)
    sums = Gemm(places, width, settings.sequence, settings.tensors, count)
    further = Gemm(places, 2 * settings.sequence, width, settings.tensors, count)
    return scores, sums, [further] if model.positions == "relative" else []


def _score_chain(settings: TransformerSettings, *, backward: bool = False) -> ElementwiseChain:
    """Kernels on the scores: scale, mask, softmax, dropout; relative positions are shifted and added before."""
    model, drops = settings.model, settings.model.dropout
    elements = settings.tokens * settings.sequence * model.heads / settings.sizes.tensor
    if backward:
        eager: tuple[Accesses, ...] = ((2, 1), (1, 1))
        fused: Accesses = (2 + MASK * drops, 1)
        return ElementwiseChain(elements, ((1 + MASK, 1), *eager) if drops else eager, fused)
    eager = ((1, 1), (1, 1), (1, 1))
    if model.positions == "relative":
        eager = ((2, 1), (2, 1), *eager)
    fused = (1 + 2 * (model.positions == "relative"), 1 + (1 + MASK) * drops)
    return ElementwiseChain(elements, (*eager, (1, 1 + MASK)) if drops else eager, fused)


def _kernels(chains: Sequence[ElementwiseChain], settings: TransformerSettings) -> Iterator[Counted]:
    for chain in chains:
        yield from chain.kernels(settings)


def _norm(settings: TransformerSettings, *, backward: bool = False) -> tuple[Accesses, ...]:
    if settings.model.norm == "layer":
        return LAYER_BACKWARD if backward else LAYER_FORWARD
    return RMS_BACKWARD if backward else RMS_FORWARD


def _forward_chains(settings: TransformerSettings) -> list[ElementwiseChain]:
    """Norms with the sums (and dropouts) between them, rotation of queries and keys, activation."""
    model, tensor, drops = settings.model, settings.sizes.tensor, settings.model.dropout
    own = float(settings.own_tokens * model.hidden)
    dropped: tuple[Accesses, ...] = ((1, 1 + MASK),) if drops else ()
    between = ElementwiseChain(own, (*dropped, (2, 1), *_norm(settings)), (2, 2 + MASK * drops))
    inside = float(settings.tokens * model.ffn // tensor)
    gated = ElementwiseChain(inside, ((1, 1), (2, 1)), (2, 1))
    found = [between, between, gated if model.gated else ElementwiseChain(inside, ((1, 1),), (1, 1))]
    if model.positions == "rotary":
        rotated = float(settings.tokens * (model.query_width + model.kv_width) // tensor)
        found.append(ElementwiseChain(rotated, ROTATION, (1, 1)))
    return found


def _backward_chains(settings: TransformerSettings) -> list[ElementwiseChain]:
    """Gradients of the same."""
    model, tensor, drops = settings.model, settings.sizes.tensor, settings.model.dropout
    own = float(settings.own_tokens * model.hidden)
    dropped: tuple[Accesses, ...] = ((1 + MASK, 1),) if drops else ()
    between = ElementwiseChain(own, (*dropped, (2, 1), *_norm(settings, backward=True)), (4 + MASK * drops, 1))
    inside = float(settings.tokens * model.ffn // tensor)
    gated = ElementwiseChain(inside, ((2, 1), (2, 1), (2, 1)), (3, 2))
    found = [between, between, gated if model.gated else ElementwiseChain(inside, ((2, 1),), (2, 1))]
    if model.positions == "rotary":
        rotated = float(settings.tokens * (model.query_width + model.kv_width) // tensor)
        found.append(ElementwiseChain(rotated, ROTATION, (1, 1)))
    return found


def embedding_forward(settings: TransformerSettings) -> PassKernels:
    """Token vectors are read, and those of places and segments added."""
    own = float(settings.own_tokens * settings.model.hidden)
    added: tuple[Accesses, ...] = ((2, 1),) if settings.model.positions == "learned" else ()
    return PassKernels(tuple(ElementwiseChain(own, ((1, 1), *added), (1 + len(added), 1)).kernels(settings)), ())


def embedding_backward(settings: TransformerSettings) -> PassKernels:
    """A dense gradient is set to zero, and the gradient of each token added to its row."""
    model = settings.model
    table = 4.0 * model.vocabulary * model.hidden / settings.sizes.tensor
    own = float(settings.own_tokens * model.hidden)
    return PassKernels(
        ((1, Elementwise(0.0, table)), (1, Elementwise((settings.element_bytes + 4.0) * own, 4.0 * own))), ()
    )


def head_forward(settings: TransformerSettings) -> PassKernels:
    """Last norm, output layer, and cross entropy in fp32 over the vocabulary."""
    norm = _norm(settings) if settings.model.final_norm else ()
    fused: Accesses = (1, 1) if norm else (0, 0)
    own = ElementwiseChain(float(settings.own_tokens * settings.model.hidden), norm, fused)
    logits = ElementwiseChain(float(_output(settings).m * _output(settings).n), ((1, 2), (2, 2)), (1, 0))
    return PassKernels(tuple(_kernels([own, logits] if norm else [logits], settings)), ((1, _output(settings)),))


def head_backward(settings: TransformerSettings) -> PassKernels:
    """Gradients of the same; nothing is computed again."""
    output = _output(settings)
    norm = _norm(settings, backward=True) if settings.model.final_norm else ()
    own = ElementwiseChain(float(settings.own_tokens * settings.model.hidden), norm, (3, 1))
    logits = ElementwiseChain(float(output.m * output.n), ((2, 2), (2, 1)), (1, 1))
    gradients = (
        (1, Gemm(output.m, output.k, output.n, output.precision)),
        (1, Gemm(output.k, output.n, output.m, output.precision, transposed=True)),
    )
    return PassKernels(tuple(_kernels([own, logits] if norm else [logits], settings)), gradients)


def _output(settings: TransformerSettings) -> Gemm:
    """Product with the output matrix, never in fp8."""
    model = settings.model
    return Gemm(settings.tokens, -(-model.vocabulary // settings.sizes.tensor), model.hidden, settings.tensors)

"""Architectures of transformers from their sizes, with parameter and floating point operation counts.

A layer is attention and a feed-forward network, each with a norm before or after it. Encoders (BERT), autoregressive
decoders (GPT, Llama) and XLNet, whose attention has relative positions, differ in a few numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from inputs.model import problem
from workloads.family import Model

Size: TypeAlias = Annotated[int, Field(ge=1, le=10**9)]
Norm: TypeAlias = Literal["layer", "rms"]
Positions: TypeAlias = Literal["learned", "rotary", "relative"]


class Transformer(Model):
    """A transformer.

    Attributes:
        layers: number of layers.
        hidden: width of a token's vector.
        heads: query heads of attention.
        kv_heads: key and value heads; fewer than heads: each serves a group of query heads.
        head_dim: width of a head; by default hidden / heads.
        ffn: width inside the feed-forward network.
        vocabulary: rows of the token embedding, and outputs.
        sequence: tokens of a sequence.
        tied: whether the output layer's weights are the token embedding.
        gated: whether the feed-forward network has a third matrix, whose product gates the first (SwiGLU).
        norm: layer norm with scale and shift, or RMS norm with a scale.
        biases: whether linear layers have biases.
        positions: learned vectors for each place, rotated queries and keys, or relative positions in attention.
        segments: learned vectors for kinds of segments (BERT 2).
        causal: whether a token attends to those before it only.
        final_norm: whether a norm follows the last layer.
        embedding_norm: whether a norm follows the embedding.
        pooler: whether a linear layer of the first token follows the last layer.
        dropout: whether outputs of attention and feed-forward network are dropped at random.
    """

    layers: Size
    hidden: Size
    heads: Size
    kv_heads: Size | None = None
    head_dim: Size | None = None
    ffn: Size
    vocabulary: Size
    sequence: Size
    tied: bool = False
    gated: bool = False
    norm: Norm = "layer"
    biases: bool = True
    positions: Positions = "learned"
    segments: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    causal: bool = True
    final_norm: bool = True
    embedding_norm: bool = False
    pooler: bool = False
    dropout: bool = False

    def model_post_init(self, context: object, /) -> None:  # noqa: ARG002 - pydantic's signature
        """Check that heads divide the width and each other.

        Raises:
            PydanticCustomError: they do not.
        """
        if self.head_dim is None and self.hidden % self.heads:
            raise problem("heads do not divide the width", expected=f"a divisor of hidden={self.hidden}", key="heads")
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise problem(
                "key and value heads do not divide the query heads",
                expected=f"a divisor of heads={self.heads}",
                key="kv_heads",
            )

    @property
    def head_width(self) -> int:
        """Width of a head."""
        return self.head_dim or self.hidden // self.heads

    @property
    def query_width(self) -> int:
        """Width of all queries of a token."""
        return self.heads * self.head_width

    @property
    def kv_width(self) -> int:
        """Width of all keys of a token; values have the same."""
        return (self.kv_heads or self.heads) * self.head_width

    @property
    def counts(self) -> ParameterCounts:
        """Numbers of parameters by part."""
        return _counts(self)

    def model_flops_per_token(self, sequence: int | None = None) -> float:
        """Floating point operations of forward and backward pass for a token, as publications count them.

        6 for each parameter that multiplies a token, and 12 l (heads x width) s for scores and weighted sums: a causal
        mask halves neither (PaLM, arXiv:2204.02311, appendix B).

        Args:
            sequence: tokens of a sequence; the model's own by default.
        """
        sums = 12.0 * self.layers * self.query_width * (sequence or self.sequence)
        return 6.0 * self.counts.multiplied + sums


@dataclass(frozen=True, slots=True)
class ParameterCounts:
    """Numbers of parameters.

    Attributes:
        layer: parameters of a layer.
        layer_matrices: parameters of its matrices alone.
        embedding: vectors of tokens, places and segments, and a norm after them.
        head: after the last layer: norm, pooler, output matrix unless it is the embedding.
        multiplied: parameters of all matrices that a token is multiplied by: the output matrix, tied or not, included.
        layers: number of layers.
    """

    layer: int
    layer_matrices: int
    embedding: int
    head: int
    multiplied: int
    layers: int

    @property
    def all(self) -> int:
        """All parameters."""
        return self.layers * self.layer + self.embedding + self.head


def _counts(model: Transformer) -> ParameterCounts:
    h, f = model.hidden, model.ffn
    per_norm = 2 * h if model.norm == "layer" else h
    matrices = h * (2 * model.query_width + 2 * model.kv_width) + h * f * (3 if model.gated else 2)
    small = 2 * per_norm
    if model.biases:
        small += f * (2 if model.gated else 1) + h
        small += 0 if model.positions == "relative" else model.query_width + 2 * model.kv_width + h
    if model.positions == "relative":  # projection of positions; biases of content, position and segment; 2 segments
        matrices += h * model.query_width
        small += 3 * model.query_width + 2 * model.query_width
    places = model.sequence * h if model.positions == "learned" else h * (model.positions == "relative")
    embedding = (model.vocabulary + model.segments) * h + places + per_norm * model.embedding_norm
    output = model.vocabulary * h
    head = per_norm * model.final_norm + (h * h + h) * model.pooler + (0 if model.tied else output)
    return ParameterCounts(
        layer=matrices + small,
        layer_matrices=matrices,
        embedding=embedding,
        head=head,
        multiplied=model.layers * matrices + output,
        layers=model.layers,
    )

"""Parts of a network: embedding, layers, output; their parameters, and the exchanges within their passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simulator.collective_calls import CollectiveCall, CollectiveOp
from workloads.transformer.kernels import (
    PassKernels,
    embedding_backward,
    embedding_forward,
    head_backward,
    head_forward,
    layer_backward,
    layer_forward,
)
from workloads.transformer.settings import TransformerSettings


@dataclass(frozen=True, slots=True)
class NetworkPart:
    """Neighbouring parts of the network that share tasks.

    Attributes:
        name: such as ``layer_3`` or ``layers_0_to_7``.
        layers: number of layers; ``repeated``: of those whose backward pass repeats all of the forward pass.
        embedding: whether it begins with the embedding.
        head: whether it ends with output layer and loss.
        parameters: parameters on a rank of the tensor group.
    """

    name: str
    layers: int
    repeated: int
    embedding: bool
    head: bool
    parameters: int

    def kernels(self, settings: TransformerSettings, *, backward: bool) -> PassKernels:
        """Kernels of a pass."""
        found = PassKernels((), ())
        if self.embedding:
            found += embedding_backward(settings) if backward else embedding_forward(settings)
        if self.layers:
            if not backward or self.repeated:
                found += layer_forward(settings).times(self.repeated if backward else self.layers)
            if backward:
                found += layer_backward(settings).times(self.layers)
        if self.head:
            found += head_backward(settings) if backward else head_forward(settings)
        return found

    def tensor_calls(self, settings: TransformerSettings, *, backward: bool) -> list[CollectiveCall]:
        """Exchanges of activations in the tensor group that products wait for.

        With divided tokens an all_gather before and a reduce_scatter after attention and the feed-forward network
        each, and the same in the backward pass; else an all_reduce after (forward) or before them (backward). Linear
        layers in fp8 gather their inputs in fp8.
        """
        if settings.sizes.tensor == 1:
            return []
        elements = float(settings.tokens * settings.model.hidden)
        size = elements * settings.element_bytes
        blocks = 2 * (self.layers + backward * self.repeated)
        if not settings.sizes.sequence_parallel:
            return _calls(
                {"all_reduce": blocks + (self.head if backward else self.embedding)}, "tensor", size, settings
            )
        ends = self.embedding if backward else self.head
        sums = blocks + (self.head if backward else self.embedding)
        return [
            *_calls({"all_gather": blocks}, "tensor", elements * settings.gathered_bytes, settings),
            *_calls({"all_gather": int(ends), "reduce_scatter": sums}, "tensor", size, settings),
        ]

    def tensor_calls_beside(self, settings: TransformerSettings, *, backward: bool) -> list[CollectiveCall]:
        """Exchanges of the tensor group that products hide: inputs gathered again for gradients of weights."""
        if settings.sizes.tensor == 1 or not settings.sizes.sequence_parallel or not backward:
            return []
        size = float(settings.tokens * settings.model.hidden * settings.gathered_bytes)
        return _calls({"all_gather": 2 * self.layers}, "tensor", size, settings)

    def context_calls(self, settings: TransformerSettings, *, backward: bool) -> list[CollectiveCall]:
        """Exchanges of keys and values, and in the backward pass of their gradients, between ranks of a sequence."""
        sizes = settings.sizes
        if sizes.context == 1 or not self.layers:
            return []
        own = 2.0 * settings.tokens * settings.model.kv_width / sizes.tensor * settings.element_bytes
        attends = self.layers * (1 + (backward and settings.recompute == "selective")) + backward * self.repeated
        if sizes.context_exchange == "ring":
            passed = attends + backward * self.layers  # gradients travel with their keys and values
            return _calls({"sendrecv": passed * (sizes.context - 1)}, "context", own, settings)
        whole = own * sizes.context
        ops: dict[CollectiveOp, int] = {"all_gather": attends}
        if backward:
            ops["reduce_scatter"] = self.layers
        return _calls(ops, "context", whole, settings)


def _calls(
    ops: dict[CollectiveOp, int], communicator: str, size: float, settings: TransformerSettings
) -> list[CollectiveCall]:
    return [
        CollectiveCall(op, communicator, size, settings.tensors, repeats=count, in_step=True)
        for op, count in ops.items()
        if count
    ]


def parts_of(settings: TransformerSettings) -> list[NetworkPart]:
    """Embedding, layers and output, one by one."""
    counts, tensor = settings.model.counts, settings.sizes.tensor
    layers = [
        NetworkPart(
            f"layer_{number}",
            1,
            int(settings.repeats(number)),
            embedding=False,
            head=False,
            parameters=_local(counts.layer, tensor),
        )
        for number in range(settings.model.layers)
    ]
    first = NetworkPart("embedding", 0, 0, embedding=True, head=False, parameters=_local(counts.embedding, tensor))
    last = NetworkPart("head", 0, 0, embedding=False, head=True, parameters=_local(counts.head, tensor))
    return [first, *layers, last]


def joined(parts: Sequence[NetworkPart]) -> NetworkPart:
    """Neighbouring parts as one."""
    if len(parts) == 1:
        return parts[0]
    return NetworkPart(
        f"{parts[0].name}_to_{parts[-1].name}",
        sum(part.layers for part in parts),
        sum(part.repeated for part in parts),
        embedding=any(part.embedding for part in parts),
        head=any(part.head for part in parts),
        parameters=sum(part.parameters for part in parts),
    )


def stage_parts(settings: TransformerSettings) -> list[list[NetworkPart]]:
    """The parts of each stage, ``[stages][virtual stages]``; layers are divided evenly, the first ones have more.

    The embedding is in the first part, output layer and loss in the last. Where these share their weights, the last
    stage has a copy of the embedding.
    """
    sizes = settings.sizes
    if sizes.pipeline == 1:
        return [[joined(parts_of(settings))]]
    first, *layers, last = parts_of(settings)
    chunks = sizes.pipeline * sizes.virtual_stages
    if settings.model.tied:
        copy = _local(settings.model.vocabulary * settings.model.hidden, sizes.tensor)
        last = NetworkPart(last.name, 0, 0, embedding=False, head=True, parameters=last.parameters + copy)
    each, more = divmod(len(layers), chunks)
    bounds = [number * each + min(number, more) for number in range(chunks + 1)]
    found: list[list[NetworkPart]] = [[] for _ in range(sizes.pipeline)]
    for chunk in range(chunks):
        own = layers[bounds[chunk] : bounds[chunk + 1]]
        own = [first] * (chunk == 0) + own + [last] * (chunk == chunks - 1)
        found[chunk % sizes.pipeline].append(joined(own))
    return found


def _local(parameters: int, tensor: int) -> int:
    """Parameters on a rank of a tensor group; the few that all of them hold are divided too."""
    return -(-parameters // tensor)

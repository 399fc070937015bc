"""Blocks of a network: layers between two cuts, through which one kept tensor passes.

A block owns its input and the tensors inside it that its backward pass reads. The input images are nobody's: they stay
in device memory. All blocks together keep what `Network.kept_elements` counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inputs.errors import InputError, nearest_name
from workloads.convnet.layers import IMAGES, Layer, Network


@dataclass(frozen=True, slots=True)
class LayerBlock:
    """Layers that are kept, swapped or recomputed together; elements are those of one image.

    Attributes:
        last: name of its last layer, behind which the network is cut.
        layers: numbers of its layers.
        again: numbers of the layers that make what its backward pass reads inside it; the others are not repeated.
        input_elements: numbers in the tensor that it reads; 0 if that is the images.
        inner_elements: numbers that its backward pass reads beside its input and its output.
        output_elements: numbers in its output, the next block's input; 0 for the last block.
        reads_output: whether its backward pass reads its output.
        parameters: trainable numbers.
    """

    last: str
    layers: range
    again: tuple[int, ...]
    input_elements: int
    inner_elements: int
    output_elements: int
    reads_output: bool
    parameters: int


def cuts_of(network: Network) -> list[int]:
    """Layers behind which a network can be cut: their output alone is read by later layers, and is kept."""
    kept = set[int]().union(*(network.read_again(number) for number in range(len(network.layers))))
    found, earliest = [], len(network.layers)
    for number in reversed(range(len(network.layers) - 1)):
        earliest = min(earliest, *network.layers[number + 1].inputs)
        if earliest == number and number in kept:
            found.append(number)
    return found[::-1]


def blocks_of(network: Network, last_layers: Sequence[str] | None = None) -> tuple[LayerBlock, ...]:
    """The blocks of a network.

    Args:
        last_layers: names of the last layers of the blocks in forward order, that of the network included; None: the
            network is cut wherever it can be.

    Raises:
        InputError: the network cannot be cut behind a layer, or the order is another.
    """
    names = [layer.name for layer in network.layers]
    possible = [*(names[cut] for cut in cuts_of(network)), names[-1]]
    ends = possible if last_layers is None else list(last_layers)
    for place, name in enumerate(ends):
        if name not in possible:
            raise InputError(
                f"{network.name} cannot be cut behind this layer",
                key=f"blocks[{place}].last",
                given=name,
                expected="a layer whose output alone is read later and kept: one that `dlrmsim plan` lists",
                nearest=nearest_name(name, possible),
            )
    numbers = [names.index(name) for name in ends]
    if not numbers or numbers[-1] != len(names) - 1 or sorted(set(numbers)) != numbers:
        raise InputError(
            "blocks are not the whole network in forward order",
            key="blocks",
            given=", ".join(ends),
            expected=f"each last layer once, in forward order, up to {names[-1]}",
        )
    starts = [0, *(number + 1 for number in numbers[:-1])]
    return tuple(_block(network, range(a, b + 1)) for a, b in zip(starts, numbers, strict=True))


def _block(network: Network, layers: range) -> LayerBlock:
    """The block of some layers."""
    first, last = layers[0] - 1, layers[-1]
    ends = last == len(network.layers) - 1
    read = set[int]().union(*(network.read_again(number) for number in layers))
    inner = {number for number in read if number in layers and (ends or number != last)}
    masks = [number for number in layers if network.layers[number].kind == "dropout"]
    elements = sum(network.layers[number].output.elements for number in (*inner, *masks))
    return LayerBlock(
        last=network.layers[last].name,
        layers=layers,
        again=_makers(network.layers, layers, {*inner, *masks}),
        input_elements=0 if first == IMAGES else network.layers[first].output.elements,
        inner_elements=elements,
        output_elements=0 if ends else network.layers[last].output.elements,
        reads_output=not ends and last in read,
        parameters=sum(network.layers[number].parameters for number in layers),
    )


def _makers(every: Sequence[Layer], layers: range, wanted: set[int]) -> tuple[int, ...]:
    """Layers of a block that a set of their outputs depends on, in forward order."""
    needed = set(wanted)
    for number in reversed(layers):
        if number in needed:
            needed.update(source for source in every[number].inputs if source in layers)
    return tuple(sorted(needed))

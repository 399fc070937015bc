"""Partitions of a network: layers that follow each other, the tensors that cross their cuts, and even cuts.

A layer with biases is one layer here, as in Keras, so that no cut is between the two. A tensor goes from the partition
that makes it straight to each partition that reads it: the output of the layer before a cut, and the input of a
residual block whose end lies behind the cut. A gradient takes the same way back; a partition that reads a tensor
several times adds up its gradients before it sends them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from inputs.errors import InputError
from workloads.convnet.layers import IMAGES, Layer, Network, Variable

PARTITIONS_KEY, LIST_KEY = "workload.partitions", "workload.layers_per_partition"


@dataclass(frozen=True, slots=True)
class Partition:
    """Layers of a network that the ranks of one stage of a pipeline hold.

    Attributes:
        numbers: numbers of the layers.
        receives: numbers of the layers whose outputs it receives, by the partition that makes them.
        sends: numbers of its layers whose outputs others read, by the partition that reads them.
    """

    network: Network
    number: int
    numbers: range
    receives: dict[int, tuple[int, ...]]
    sends: dict[int, tuple[int, ...]]

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Its layers."""
        return self.network.layers[self.numbers.start : self.numbers.stop]

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Trainable tensors in the order of their creation."""
        return tuple(variable for layer in self.layers for variable in layer.variables)

    @property
    def parameters(self) -> int:
        """Trainable numbers."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def statistics(self) -> int:
        """Numbers without gradients."""
        return sum(layer.statistics for layer in self.layers)

    @property
    def is_last(self) -> bool:
        """Whether it has the network's output."""
        return self.numbers.stop == len(self.network.layers)

    @property
    def gradients(self) -> Counter[int]:
        """Number of gradients that come together on it for each layer's output: of its own readers, and received."""
        found = Counter(number for layer in self.layers for number in layer.inputs)
        for numbers in self.sends.values():
            found.update(numbers)
        return found

    @property
    def received_elements(self) -> int:
        """Numbers of one image in all tensors that it receives."""
        return sum(self.network.elements(number) for numbers in self.receives.values() for number in numbers)

    @property
    def sent_elements(self) -> int:
        """Numbers of one image in all tensors that it sends, once for each receiver."""
        return sum(self.network.elements(number) for numbers in self.sends.values() for number in numbers)


def joined_layers(network: Network) -> list[range]:
    """Numbers of the layers between which a cut may be; biases stand with the layer before them."""
    starts = [number for number, layer in enumerate(network.layers) if layer.kind != "bias"]
    return [range(start, end) for start, end in pairwise([*starts, len(network.layers)])]


def partitions_of(network: Network, counts: Sequence[int]) -> list[Partition]:
    """Partitions with so many layers each.

    Args:
        counts: layers of each partition, as `joined_layers` counts them; empty: one partition with all.

    Raises:
        InputError: the counts do not sum up to the layers of the network.
    """
    joined = joined_layers(network)
    counts = counts or (len(joined),)
    if sum(counts) != len(joined) or min(counts) < 1:
        raise InputError(
            f"the layers of the partitions are not the layers of {network.name}",
            key=LIST_KEY,
            given=f"{len(counts)} numbers with the sum {sum(counts)}",
            expected=f"numbers from 1 with the sum {len(joined)}",
        )
    ends = [joined[count - 1].stop for count in accumulate(counts)]
    cuts = [range(start, end) for start, end in pairwise([0, *ends])]
    holder = [stage for stage, numbers in enumerate(cuts) for _ in numbers]
    found = [Partition(network, stage, numbers, {}, {}) for stage, numbers in enumerate(cuts)]
    for maker, reader, number in sorted(_crossing(network, holder)):
        sent, received = found[maker].sends, found[reader].receives
        sent[reader] = (*sent.get(reader, ()), number)
        received[maker] = (*received.get(maker, ()), number)
    return found


def _crossing(network: Network, holder: Sequence[int]) -> set[tuple[int, int, int]]:
    """Maker, reader and number of each tensor that crosses a cut; images are everywhere."""
    return {
        (holder[number], holder[reader], number)
        for reader, layer in enumerate(network.layers)
        for number in layer.inputs
        if number != IMAGES and holder[number] != holder[reader]
    }


def even_counts(network: Network, partitions: int, costs: Sequence[float]) -> tuple[int, ...]:
    """Layers of each partition so that the most costly partition costs least.

    Args:
        costs: cost of each layer of the network; layers without any are cheap, not free.

    Raises:
        InputError: there are more partitions than layers.
    """
    joined = joined_layers(network)
    if partitions > len(joined):
        raise InputError(
            f"more partitions than layers of {network.name}",
            key=PARTITIONS_KEY,
            given=partitions,
            expected=f"at most {len(joined)}",
        )
    sums = [sum(costs[number] for number in numbers) for numbers in joined]
    low, high = max(sums), sum(sums)
    for _ in range(_HALVINGS):
        limit = (low + high) / 2.0
        low, high = (low, limit) if len(list(_filled(sums, limit))) <= partitions else (limit, high)
    counts = list(_filled(sums, high))
    while len(counts) < partitions:  # a partition of several layers is cut: none gets more costly
        largest = max(range(len(counts)), key=counts.__getitem__)
        counts[largest : largest + 1] = [counts[largest] // 2, counts[largest] - counts[largest] // 2]
    return tuple(counts)


_HALVINGS = 50
"""Halvings of the interval in which the least cost of the most costly partition lies: below a double's resolution."""


def _filled(sums: Sequence[float], limit: float) -> Iterator[int]:
    """Layers of partitions that are filled one after the other up to a cost."""
    count, cost = 0, 0.0
    for each in sums:
        if count and cost + each > limit:
            yield count
            count, cost = 0, 0.0
        count, cost = count + 1, cost + each
    yield count

"""Even partitions of a network: the layers of each partition for the shortest time of the slowest partition."""

from __future__ import annotations

from functools import cache

from simulator.lowering import Machine
from simulator.work import Operator
from workloads.convnet.catalog import network
from workloads.convnet.kernels import ImageBatch, backward_order, forward_order
from workloads.convnet.settings import ConvnetSettings
from workloads.convnet.stages import even_counts
from workloads.graph.operator_names import operator_of
from workloads.graph.overheads import HostCosts


def even_partitions(settings: ConvnetSettings, partitions: int, machine: Machine) -> tuple[int, ...]:
    """Layers of each partition, by the predicted time of both passes of a micro-batch through each layer.

    Messages and updates of weights are not counted.

    Raises:
        InputError: there are more partitions than layers.
    """
    net = network(settings.model, settings.classes, settings.image_size)
    batch = ImageBatch(max(settings.images_per_rank // settings.micro_batches, 1), settings.precision)
    costs = HostCosts(settings.operator_s, settings.overheads, settings.overhead_factor)
    device_s = cache(lambda work: _seconds(machine, work))
    everything = range(len(net.layers))
    number_of = {layer.name: number for number, layer in enumerate(net.layers)}
    found = [0.0] * len(net.layers)
    passes = {
        "forward": forward_order(net, everything, batch),
        "backward": backward_order(net, everything, batch, net.readers),
    }
    for section, order in passes.items():
        for layer, kernel in order:
            launch = costs.launch([operator_of(kernel.work, section)], 1, continues=kernel.continues)
            parts = device_s(kernel.work), device_s(launch)
            found[number_of[layer.name]] += sum(parts) if settings.on_host else max(parts)
    return even_counts(net, partitions, found)


def _seconds(machine: Machine, work: Operator) -> float:
    return float(machine.compute.duration_s(work))

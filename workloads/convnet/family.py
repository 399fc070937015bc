"""The family of convolutional networks: a network and the settings of its training as one workload."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.program import TaskGraph
from workloads.convnet.all_reduce import all_reduce_graph, single_graph
from workloads.convnet.catalog import network
from workloads.convnet.layers import Network
from workloads.convnet.memory import memory_of_partitions, memory_per_rank
from workloads.convnet.out_of_core import OutOfCore
from workloads.convnet.partitioned import partitioned_graph
from workloads.convnet.served import served_graph
from workloads.convnet.settings import ConvnetSettings
from workloads.convnet.swapping_pass import out_of_core_graph
from workloads.family import Headline
from workloads.graph.memory import MemoryUse


@dataclass(frozen=True, slots=True)
class ConvnetWorkload:
    """A convolutional network that trains with all ranks, or with groups of them, on equal batches.

    Attributes:
        out_of_core: plan for its blocks; None: everything stays in device memory.
    """

    settings: ConvnetSettings
    out_of_core: OutOfCore | None = None

    @property
    def network(self) -> Network:
        """The network.

        Raises:
            InputError: no network has this name.
        """
        return network(self.settings.model, self.settings.classes, self.settings.image_size)

    def graph(self) -> TaskGraph:
        """The task graph of one iteration.

        Raises:
            InputError: no network has the settings' name, or the layers of its partitions.
        """
        if self.settings.strategy == "hypar_mpi":
            return partitioned_graph(self.network, self.settings)
        if self.out_of_core is not None:
            return out_of_core_graph(self.out_of_core)
        if self.settings.world_size == 1:
            return single_graph(self.network, self.settings)
        if self.settings.uses_servers:
            return served_graph(self.network, self.settings)
        return all_reduce_graph(self.network, self.settings)

    def memory(self) -> MemoryUse:
        """Bytes that every rank keeps, see `workloads.convnet.memory`."""
        if self.settings.strategy == "hypar_mpi":
            return memory_of_partitions(self.network, self.settings)
        return memory_per_rank(self.network, self.settings, self.out_of_core)

    @property
    def headline(self) -> Headline:
        """Images over all ranks."""
        return Headline("images", self.settings.global_batch_size)

"""The networks of `workloads.convnet`, and their workloads from resolved scenarios; registers the family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenarios.convnet.family import ConvnetFamily
from scenarios.convnet.settings import ConvnetResolved, workload_of
from scenarios.family import FAMILIES
from simulator.lowering import Machine
from workloads.convnet.catalog import names, network
from workloads.convnet.family import ConvnetWorkload
from workloads.convnet.partitioned import cut_bytes
from workloads.family import Workload


class ConvnetGenerator:
    """See `scenarios.convnet.family.Generator`."""

    def titles(self) -> Mapping[str, str]:
        """Parameters of each listed network."""
        return {name: self.title(name) for name in names()}

    def title(self, name: str) -> str:
        """Parameters of a network; raises as `workloads.convnet.catalog.network`."""
        return f"{network(name).parameters / 1e6:.1f} M parameters"

    def layers(self, name: str) -> int:
        """Layers of a network."""
        return len(network(name).layers)

    def workload(self, resolved: ConvnetResolved, machine: Machine) -> ConvnetWorkload:
        """The workload of a scenario; raises as `scenarios.convnet.settings.workload_of`."""
        return workload_of(resolved, machine)

    def partitions(self, workload: Workload) -> Mapping[str, Any]:
        """Groups of ranks, layers of each partition, and bytes over the cuts."""
        if not isinstance(workload, ConvnetWorkload) or workload.settings.strategy != "hypar_mpi":
            return {}
        settings = workload.settings
        cuts = cut_bytes(workload.network, settings)
        return {
            "partitions": settings.partitions,
            "replicas": settings.replicas,
            "micro_batches": settings.micro_batches,
            "schedule": settings.schedule,
            "layers_per_partition": list(settings.layers_per_partition),
            "cut_bytes": cuts,
        }


FAMILIES.add("convnet", ConvnetFamily(ConvnetGenerator()), "convolutional networks on equal batches of images")

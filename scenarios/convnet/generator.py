"""The networks of `workloads.convnet`, and their workloads from resolved scenarios; registers the family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scenarios.convnet.balance import even_partitions
from scenarios.convnet.family import ConvnetFamily, ConvnetResolved
from scenarios.family import FAMILIES
from simulator.lowering import Machine
from workloads.convnet.catalog import names, network
from workloads.convnet.family import ConvnetWorkload
from workloads.convnet.partitioned import cut_bytes
from workloads.convnet.settings import CYCLE_S, FUSION_BYTES, ConvnetSettings
from workloads.family import Workload


class ConvnetGenerator:
    """See `scenarios.convnet.family.Generator`."""

    def titles(self) -> Mapping[str, str]:
        """Parameters of each network that lists name."""
        return {name: self.title(name) for name in names()}

    def title(self, name: str) -> str:
        """Parameters of a network; raises as `workloads.convnet.catalog.network`."""
        return f"{network(name).parameters / 1e6:.1f} M parameters"

    def layers(self, name: str) -> int:
        """Layers of a network."""
        return len(network(name).layers)

    def workload(self, resolved: ConvnetResolved, machine: Machine) -> ConvnetWorkload:
        """The workload of a scenario; raises as `workloads.convnet.settings.ConvnetSettings`."""
        section = resolved.scenario.workload
        settings = _settings(resolved)
        if section.held_partitions > 1:
            layers = section.layers_per_partition or even_partitions(settings, section.held_partitions, machine)
            settings = replace(settings, layers_per_partition=layers)
        return ConvnetWorkload(settings)

    def partitions(self, workload: Workload) -> Mapping[str, Any]:
        """Groups of ranks, layers of each partition, and bytes that cross the cuts."""
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


def _settings(resolved: ConvnetResolved) -> ConvnetSettings:
    """The settings of a scenario, without its partitions."""
    section, framework = resolved.scenario.workload, resolved.framework
    return ConvnetSettings(
        model=resolved.model.name,
        world_size=resolved.world_size,
        local_world_size=min(resolved.cluster.node.ranks, resolved.world_size),
        images_per_rank=resolved.local_batch_size,
        strategy=section.strategy,
        operator_s=framework.operator_s.value,
        overheads=framework.overheads,
        overhead_factor=framework.factor("overhead_factor"),
        iteration_s=framework.seconds("iteration_s"),
        precision=resolved.scenario.precision.dense,
        classes=section.classes,
        images=section.images,
        optimizer=section.optimizer.dense,
        fusion_bytes=FUSION_BYTES if section.fusion_bytes is None else section.fusion_bytes,
        cycle_s=CYCLE_S if section.cycle_time is None else section.cycle_time,
        servers=section.servers or 1,
        server_threads=section.server_threads,
        reserve_bytes=framework.reserve_bytes.value,
        on_host=resolved.cluster.node.gpu is None,
        image_size=section.image_size,
        micro_batches=section.micro_batches or 1,
        schedule=section.schedule or "gpipe",
    )


FAMILIES.add("convnet", ConvnetFamily(ConvnetGenerator()), "convolutional networks on equal batches of images")

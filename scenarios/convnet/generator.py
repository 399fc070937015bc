"""The networks of `workloads.convnet`, and their workloads from resolved scenarios; registers the family."""

from __future__ import annotations

from collections.abc import Mapping

from scenarios.convnet.family import ConvnetFamily, ConvnetResolved
from scenarios.family import FAMILIES
from workloads.convnet.catalog import NETWORKS, network
from workloads.convnet.family import ConvnetWorkload
from workloads.convnet.settings import CYCLE_S, FUSION_BYTES, ConvnetSettings


class ConvnetGenerator:
    """See `scenarios.convnet.family.Generator`."""

    def titles(self) -> Mapping[str, str]:
        """Parameters of each network."""
        return {name: f"{network(name).parameters / 1e6:.1f} M parameters" for name in NETWORKS}

    def layers(self, name: str) -> int:
        """Layers of a network."""
        return len(network(name).layers)

    def workload(self, resolved: ConvnetResolved) -> ConvnetWorkload:
        """The workload of a scenario; raises as `workloads.convnet.settings.ConvnetSettings`."""
        section, framework = resolved.scenario.workload, resolved.framework
        settings = ConvnetSettings(
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
        )
        return ConvnetWorkload(settings)


FAMILIES.add("convnet", ConvnetFamily(ConvnetGenerator()), "convolutional networks on equal batches of images")

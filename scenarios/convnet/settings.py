"""Settings of the workload of a resolved scenario."""

from __future__ import annotations

from typing import TypeAlias

from scenarios.convnet.section import ConvnetScenario
from scenarios.resolved import ResolvedScenario
from workloads.convnet.settings import CYCLE_S, FUSION_BYTES, ConvnetSettings
from workloads.family import Model

ConvnetResolved: TypeAlias = ResolvedScenario[Model, ConvnetScenario]


def settings_of(resolved: ConvnetResolved) -> ConvnetSettings:
    """The settings; raises as `workloads.convnet.settings.ConvnetSettings`."""
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
    )

"""The workload of a resolved scenario: its network, settings, partitions and memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from scenarios.capacity import MemoryReport, capacities_bytes
from scenarios.convnet.balance import even_partitions
from scenarios.convnet.section import ConvnetScenario
from scenarios.resolved import ResolvedScenario
from simulator.lowering import Machine
from workloads.convnet.catalog import network
from workloads.convnet.family import ConvnetWorkload
from workloads.convnet.layers import Network
from workloads.convnet.settings import CYCLE_S, FUSION_BYTES, ConvnetSettings
from workloads.family import Model, Workload

ConvnetResolved: TypeAlias = ResolvedScenario[Model, ConvnetScenario]


def network_of(resolved: ConvnetResolved) -> Network:
    """The network of a scenario; raises as `workloads.convnet.catalog.network`."""
    section = resolved.scenario.workload
    return network(resolved.model.name, section.classes, section.image_size)


def settings_of(resolved: ConvnetResolved) -> ConvnetSettings:
    """The settings, without partitions; raises as `workloads.convnet.settings.ConvnetSettings`."""
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


def workload_of(resolved: ConvnetResolved, machine: Machine) -> ConvnetWorkload:
    """The workload with everything in device memory; by default partitions have even times on the machine.

    Raises:
        InputError: its settings contradict each other.
    """
    section, settings = resolved.scenario.workload, settings_of(resolved)
    if section.held_partitions > 1:
        layers = section.layers_per_partition or even_partitions(settings, section.held_partitions, machine)
        settings = replace(settings, layers_per_partition=layers)
    return ConvnetWorkload(settings)


def memory_of(resolved: ConvnetResolved, workload: Workload) -> MemoryReport:
    """Memory of every rank against its capacity."""
    return MemoryReport(workload.memory(), capacities_bytes(resolved.cluster, resolved.world_size))

"""A machine as lowering sees it: placed ranks, compute model, collective model, and improvements of a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hardware_specs.types import Cluster
from inputs.errors import InputError, nearest_name
from simulator.compute import COMPUTE_MODELS, ComputeModel, CpuModel, SocketModel
from simulator.network.background import OtherJob
from simulator.network.levels import ResourceClass
from simulator.network.model import CollectiveModel
from simulator.network.topology import Placement, Topology

BOUND_CLASSES: tuple[str, ...] = (
    "GEMM", "HBM", "NVLink", "NIC", "spine", "site", "messages", "PCIe/DDR", "SSD", "host", "input", "imbalance",
)  # fmt: skip
"""Resource classes that can bound an iteration."""

WHOLE_CLASSES: tuple[str, ...] = ("communication", "compute")
"""Collectives and kernels as wholes: links, messages and rates of several classes at once."""

LINK_CLASSES: dict[str, tuple[ResourceClass, ...]] = {
    "NVLink": ("nvlink",), "NIC": ("nic",), "spine": ("spine", "torus"), "site": ("site",),
    "PCIe/DDR": ("pcie", "switch", "socket", "ddr"), "SSD": ("ssd",),
}  # fmt: skip
"""Links of each class of the bound."""


@dataclass(frozen=True, slots=True)
class Machine:
    """All models that turn amounts into times, and the traffic of other jobs on the links."""

    topology: Topology
    compute: ComputeModel
    collectives: CollectiveModel
    background: Mapping[ResourceClass, OtherJob] = field(default_factory=dict)

    def improved(self, improve: Mapping[str, float]) -> Machine:
        """The machine with classes of `BOUND_CLASSES` faster by the given factors.

        GEMM: arithmetic rate. HBM: memory rates of all kernels. NVLink, NIC, spine (links of a torus too), site
        (links between sites), PCIe/DDR (other links inside a node, and host memory), SSD: bandwidth of that class; the
        time of a hop does not change.
        messages: starts, hops and posts of collectives. host: host work, and waits of devices for launches. The others
        are no part of a machine: see `simulator.lowering.lower`.

        Raises:
            InputError: a class is unknown.
        """
        known = (*BOUND_CLASSES, *WHOLE_CLASSES)
        for name in improve:
            if name not in known:
                raise InputError(
                    "no such bound class",
                    given=name,
                    expected=f"one of {', '.join(known)}",
                    nearest=nearest_name(name, known),
                )
        links = {link: factor for name, factor in improve.items() for link in LINK_CLASSES.get(name, ())}
        collectives = self.collectives.improved(links, improve.get("messages", 1.0))
        return replace(self, compute=self.compute.improved(improve), collectives=collectives)


def build_machine(
    cluster: Cluster,
    world_size: int,
    *,
    launch_s: float,
    placement: Placement = "block",
    seed: int = 0,
    site_order: Sequence[str] | None = None,
    algorithms: Mapping[str, str] | None = None,
    background: Mapping[ResourceClass, OtherJob] | None = None,
    compute_model: str = "roofline",
) -> Machine:
    """Place ``world_size`` ranks on ``cluster``.

    Args:
        world_size: number of ranks, one GPU each; without GPUs they share the cores of nodes.
        launch_s: host time of one kernel launch, from the framework profile.
        placement: see `Topology.build`.
        seed: seed of a random placement.
        site_order: order in which ranks fill the cluster's sites; None: the cluster's order.
        algorithms: collective algorithms to force, by operation; the others are chosen by predicted time.
        background: traffic of other jobs on the links of a class.
        compute_model: name in `COMPUTE_MODELS`.

    Raises:
        InputError: an impossible size, or an unknown placement, algorithm or compute model.
    """
    topology = Topology.build(cluster, world_size, placement, seed, site_order)
    compute = _compute(cluster, world_size, launch_s, compute_model)
    return Machine(topology, compute, CollectiveModel.of(cluster, topology, algorithms), dict(background or {}))


def _compute(cluster: Cluster, world_size: int, launch_s: float, name: str) -> ComputeModel:
    """The named model of the node's GPU; without GPUs a model of its CPUs: as measured, else from their rates."""
    node = cluster.node
    if node.gpu is None and not node.cpu.kernels and node.cpu.rates is not None:
        return SocketModel.of(cluster, node.cpu.rates, world_size, launch_s)
    if node.gpu is None:
        return CpuModel.of(node, min(world_size, node.ranks))
    return COMPUTE_MODELS.get(name, key="compute_model")(node.accelerator, node, launch_s)

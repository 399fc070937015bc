"""Where ranks sit and which links they share: ranks, nodes and numbered resources.

Resources are numbered in blocks, each per direction: the NVLink port of every GPU, the PCIe link of every GPU, the
NICs of every node, and, where the spine is oversubscribed, the up-links and down-links of every node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args, overload

import numpy as np

from hardware_specs.types import Cluster
from inputs.errors import InputError
from simulator.operators import FloatArray
from simulator.program import IntArray

ResourceClass = Literal["nvlink", "nic", "spine", "pcie"]
Placement = Literal["block", "round_robin", "random"]
Port = Literal[
    "nvlink_tx", "nvlink_rx", "pcie_h2d", "pcie_d2h", "nic_tx", "nic_rx", "spine_up", "spine_down"
]  # fmt: skip
PORTS: tuple[Port, ...] = get_args(Port)
CLASS_OF: dict[Port, ResourceClass] = {
    "nvlink_tx": "nvlink", "nvlink_rx": "nvlink", "pcie_h2d": "pcie", "pcie_d2h": "pcie",
    "nic_tx": "nic", "nic_rx": "nic", "spine_up": "spine", "spine_down": "spine",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """Ranks on nodes, and the links between them.

    Attributes:
        world_size: number of ranks; each has one GPU.
        nodes: nodes that hold at least one rank.
        gpus_per_node: GPUs of a node.
        nic_ports_per_node: NICs of a node; where a GPU has several, they count as one port of their joint rate.
        node_of: node of each rank ``[world_size]``.
        local_rank_of: GPU of each rank on its node ``[world_size]``.
        rates: capacity of one resource of each class and direction, B/s.
        spine: whether the spine is oversubscribed, and so a resource.
        rail_optimised: whether traffic between equal NICs of two nodes stays below the spine.
    """

    world_size: int
    nodes: int
    gpus_per_node: int
    nic_ports_per_node: int
    node_of: IntArray
    local_rank_of: IntArray
    rates: dict[ResourceClass, float]
    spine: bool
    rail_optimised: bool

    @staticmethod
    def build(cluster: Cluster, world_size: int, placement: Placement = "block", seed: int = 0) -> Topology:
        """Place ``world_size`` ranks on as few nodes of ``cluster`` as hold them.

        Args:
            cluster: the machine.
            world_size: number of ranks.
            placement: ``block`` fills node after node; ``round_robin`` deals ranks to the nodes in turn; ``random``
                shuffles the block placement.
            seed: of ``random`` (Philox).

        Raises:
            InputError: ``world_size`` is below 1, or the placement is unknown.
        """
        node = cluster.node
        gpus = int(node.gpus.value)
        if world_size < 1:
            raise InputError("a job needs ranks", key="world_size", given=world_size, expected="1 or more")
        nodes = -(-world_size // gpus)
        slots = _slots(world_size, nodes, gpus, placement, seed)
        nics = int(node.nics.count.value)
        ports = min(nics, gpus)
        port_rate = node.nics.nic.bytes_per_s.value * nics / ports
        oversubscription = cluster.fabric.spine_oversubscription.value
        return Topology(
            world_size=world_size,
            nodes=nodes,
            gpus_per_node=gpus,
            nic_ports_per_node=ports,
            node_of=slots // gpus,
            local_rank_of=slots % gpus,
            rates={
                "nvlink": node.scale_up.bytes_per_s.value,
                "nic": port_rate,
                "spine": port_rate * ports / oversubscription,
                "pcie": node.pcie_bytes_per_s.value * node.pcie_fraction.value,
            },
            spine=oversubscription > 1.0 and nodes > 1,
            rail_optimised=cluster.fabric.kind == "rail_optimised",
        )

    @property
    def nic_port_of(self) -> IntArray:
        """NIC port of each rank, counted over all nodes ``[world_size]``."""
        return (
            self.node_of * self.nic_ports_per_node + self.local_rank_of * self.nic_ports_per_node // self.gpus_per_node
        )

    def port_count(self, port: Port) -> int:
        """Number of resources of one kind and direction."""
        per_class: dict[ResourceClass, int] = {
            "nvlink": self.world_size,
            "pcie": self.world_size,
            "nic": self.nodes * self.nic_ports_per_node,
            "spine": self.nodes if self.spine else 0,
        }
        return per_class[CLASS_OF[port]]

    def first(self, port: Port) -> int:
        """Number of the first resource of one kind and direction."""
        return sum(self.port_count(p) for p in PORTS[: PORTS.index(port)])

    @property
    def resource_count(self) -> int:
        """L, all resources."""
        return sum(self.port_count(p) for p in PORTS)

    @property
    def resource_class(self) -> list[ResourceClass]:
        """Class of each resource ``[L]``."""
        return [CLASS_OF[port] for port in PORTS for _ in range(self.port_count(port))]

    @property
    def capacities_bytes_per_s(self) -> FloatArray:
        """Capacity of each resource ``[L]``, B/s."""
        return np.concatenate([np.full(self.port_count(p), self.rates[CLASS_OF[p]]) for p in PORTS])

    @property
    def resource_names(self) -> Sequence[str]:
        """Name of each resource ``[L]``, made when asked for."""
        return _ResourceNames(self)


def _slots(world_size: int, nodes: int, gpus: int, placement: str, seed: int) -> IntArray:
    """GPU slot (node * gpus + local rank) of each rank ``[world_size]``."""
    ranks = np.arange(world_size, dtype=np.int64)
    if placement == "block":
        return ranks
    if placement == "round_robin":
        return (ranks % nodes) * gpus + ranks // nodes
    if placement == "random":
        return np.random.Generator(np.random.Philox(seed)).permutation(ranks)
    raise InputError(
        "no such placement", key="placement", given=placement, expected="one of block, round_robin, random"
    )


class _ResourceNames(Sequence[str]):
    """Names as ``nic_tx[3]``, computed on access: a large fabric has hundreds of thousands."""

    def __init__(self, topology: Topology) -> None:
        self._counts = [(port, topology.port_count(port)) for port in PORTS]
        self._length = topology.resource_count

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._length))]
        left = index if index >= 0 else index + self._length
        for port, count in self._counts:
            if 0 <= left < count:
                return f"{port}[{left}]"
            left -= count
        raise IndexError(index)

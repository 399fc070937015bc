"""Placement of ranks and their shared links: ranks, nodes, levels of links and numbered resources.

A machine is a hierarchy of *levels*, each a kind of link that traffic takes on its way from one rank to another: the
NVLink port of a GPU, its PCIe link, the up-link of its PCIe switch, the link between sockets, host memory, the NIC, the
up-link of the leaf switch, the links of a torus. A level says which link each rank uses and which ranks reach each
other without it. What a collective puts on a level follows from that alone (`simulator.network.patterns`): a new kind
of machine is a new list of levels.

Resources are numbered level by level, outbound links first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Literal, overload

import numpy as np

from hardware_specs.types import Cluster
from inputs.errors import InputError
from simulator.network.levels import LEVEL_PORTS, Level, Port, ResourceClass, host_levels_of, levels_of, site_level
from simulator.program import IntArray

BETWEEN_RANKS_OF_A_NODE = ("pcie", "switch", "socket")

Placement = Literal["block", "round_robin", "random"]


@dataclass(frozen=True, eq=False)
class Topology:
    """Ranks on nodes, and the links between them.

    Attributes:
        world_size: number of ranks; each has one GPU.
        nodes: nodes that hold at least one rank.
        node_of: node of each rank ``[world_size]``.
        local_rank_of: GPU of each rank on its node ``[world_size]``.
        domain_of: ranks of one number reach each other by NVLink, or are on one node ``[world_size]``.
        levels: the kinds of links, from the GPU outwards.
        host_levels: levels that no collective uses.
        site_of: number of each rank's site in the cluster ``[world_size]``; None: all ranks are in one place.
    """

    world_size: int
    nodes: int
    node_of: IntArray
    local_rank_of: IntArray
    domain_of: IntArray
    levels: tuple[Level, ...]
    host_levels: tuple[Level, ...] = ()
    site_of: IntArray | None = None

    @staticmethod
    def build(
        cluster: Cluster,
        world_size: int,
        placement: Placement = "block",
        seed: int = 0,
        site_order: Sequence[str] | None = None,
    ) -> Topology:
        """Place ``world_size`` ranks on as few nodes of ``cluster`` as hold them.

        Args:
            placement: ``block`` fills node after node; ``round_robin`` deals ranks to the nodes in turn; ``random``
                shuffles the block placement.
            seed: seed of ``random`` (Philox).
            site_order: names of all sites in the order in which ranks fill them; None: the cluster's order.

        Raises:
            InputError: ``world_size`` is below 1 or more than fits, or the placement is unknown.
        """
        node_of, local, site_of = placed(cluster, world_size, placement, seed, site_order)
        domain, levels = levels_of(cluster, node_of, local)
        if site_of is not None:
            levels = (*levels, site_level(cluster, site_of))
        host_levels = host_levels_of(cluster.node, node_of, local, {level.name for level in levels})
        nodes = int(node_of.max()) + 1
        return Topology(world_size, nodes, node_of, local, domain, levels, host_levels, site_of)

    @cached_property
    def rates(self) -> dict[ResourceClass, float]:
        """Capacity of one link of each level and direction, B/s."""
        return {level.name: level.bytes_per_s for level in (*self.levels, *self.host_levels)}

    @cached_property
    def near_classes(self) -> tuple[ResourceClass, ...]:
        """Links that ranks of a node reach each other over: NVLink, or without it PCIe and what joins the sockets."""
        names = tuple(level.name for level in self.levels)
        return ("nvlink",) if "nvlink" in names else tuple(name for name in names if name in BETWEEN_RANKS_OF_A_NODE)

    @cached_property
    def ports(self) -> dict[Port, Level]:
        """Both directions of every level, in the order in which resources are numbered."""
        return {port: level for level in (*self.levels, *self.host_levels) for port in LEVEL_PORTS[level.name]}

    @cached_property
    def _firsts(self) -> dict[Port, int]:
        firsts, number = {}, 0
        for port, level in self.ports.items():
            firsts[port] = number
            number += level.count
        return firsts

    def port_count(self, port: Port) -> int:
        """Number of resources of one kind and direction; 0 where the machine has none."""
        return self.ports[port].count if port in self.ports else 0

    def first(self, port: Port) -> int:
        """Number of the first resource of one kind and direction; raises KeyError when the machine has none."""
        return self._firsts[port]

    @property
    def resource_count(self) -> int:
        """L, all resources."""
        return sum(level.count for level in self.ports.values())

    @property
    def resource_class(self) -> list[ResourceClass]:
        """Class of each resource ``[L]``."""
        return [level.name for level in self.ports.values() for _ in range(level.count)]

    @property
    def resource_names(self) -> Sequence[str]:
        """Name of each resource ``[L]``, made when asked for."""
        return _ResourceNames(self)


def placed(
    cluster: Cluster, world_size: int, placement: Placement, seed: int, site_order: Sequence[str] | None = None
) -> tuple[IntArray, IntArray, IntArray | None]:
    """Node of each rank, its GPU on the node, and its site ``[world_size]``; site None without sites.

    See `Topology.build` for arguments and errors.
    """
    per_node = cluster.node.ranks
    if world_size < 1:
        raise InputError("a job needs ranks", key="world_size", given=world_size, expected="1 or more")
    nodes = -(-world_size // per_node)
    _check_fits(cluster, nodes, world_size)
    slots = _slots(world_size, nodes, per_node, placement, seed)
    node_of = slots // per_node
    site_of_node = _sites_of_nodes(cluster, nodes, site_order)
    several = site_of_node is not None and site_of_node[0] != site_of_node[-1]
    return node_of, slots % per_node, site_of_node[node_of] if site_of_node is not None and several else None


def _sites_of_nodes(cluster: Cluster, nodes: int, site_order: Sequence[str] | None) -> IntArray | None:
    """Site of each node ``[nodes]``: the nodes of a site have consecutive numbers."""
    if cluster.sites is None:
        return None
    names = cluster.site_names
    order = np.array([names.index(name) for name in site_order or names], dtype=np.int64)
    held = np.array([cluster.sites[number].nodes.value for number in order], dtype=np.int64)
    return np.repeat(order, held)[:nodes]


def _check_fits(cluster: Cluster, nodes: int, world_size: int) -> None:
    """Refuse a job with more nodes than the torus or the sites have; other fabrics have no such limit."""
    dimensions = cluster.fabric.dimensions
    if dimensions is not None:
        most, where = prod(dimensions.value), "torus"
    elif cluster.sites is not None:
        most, where = cluster.max_nodes.value, "sites"
    else:
        return
    if nodes <= most:
        return
    expected = f"at most {most * cluster.node.ranks}, on the {most} nodes of its {where}"
    raise InputError("the job is larger than the machine", key="world_size", given=world_size, expected=expected)


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
        self._ports = list(topology.ports.items())
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
        for port, level in self._ports:
            if 0 <= left < level.count:
                return f"{port}[{level.link_names[left] if level.link_names else left}]"
            left -= level.count
        raise IndexError(index)

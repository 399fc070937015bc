"""The levels of links of a cluster: which link each rank uses, and whom it reaches without it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from hardware_specs.types import Cluster, Fabric, Node
from simulator.network.blocks import Block
from simulator.network.destinations import Messages
from simulator.network.routes import Routes
from simulator.network.sites import SiteMesh
from simulator.network.torus import Torus
from simulator.operators import FloatArray
from simulator.program import IntArray

ResourceClass = Literal["nvlink", "pcie", "switch", "socket", "ddr", "nic", "spine", "torus", "site", "ssd"]
Port = Literal[
    "nvlink_tx", "nvlink_rx", "pcie_h2d", "pcie_d2h", "switch_up", "switch_down", "socket_out", "socket_in",
    "ddr", "nic_tx", "nic_rx", "spine_up", "spine_down", "torus_plus", "torus_minus", "site_link", "ssd",
]  # fmt: skip
LEVEL_PORTS: dict[ResourceClass, tuple[Port, ...]] = {
    "nvlink": ("nvlink_tx", "nvlink_rx"), "pcie": ("pcie_d2h", "pcie_h2d"), "switch": ("switch_up", "switch_down"),
    "socket": ("socket_out", "socket_in"), "ddr": ("ddr",), "nic": ("nic_tx", "nic_rx"),
    "spine": ("spine_up", "spine_down"), "torus": ("torus_plus", "torus_minus"),
    "site": ("site_link",), "ssd": ("ssd",),
}  # fmt: skip
"""Resources of a level: the links its ranks send over, and those they receive over; one for both where they share
it."""
CLASS_OF: dict[Port, ResourceClass] = {port: name for name, ports in LEVEL_PORTS.items() for port in ports}


@dataclass(frozen=True, slots=True, eq=False)
class Rails:
    """Labels of a rail-optimised level ``[world_size]``.

    Attributes:
        leaf: the leaf switch of the rank's rail.
        leaf_in_domain: one number for each leaf and domain together.
        unit: the part of the machine whose nodes share leaves.
    """

    leaf: IntArray
    leaf_in_domain: IntArray
    unit: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Mesh:
    """Direct links between the GPUs of a node.

    Attributes:
        local_rank_of: number of each rank on its node ``[world_size]``.
        share: part of a GPU's port that leads to each other GPU of the node ``[gpus, gpus]``; without a link the rate
            of PCIe for the pair.
        routes: ways of sockets over each other, which have no shares; None: GPUs.
    """

    local_rank_of: IntArray
    share: FloatArray
    routes: Routes | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Beside:
    """Other traffic over the links of a level: between the NICs that hang on them and host memory.

    Attributes:
        link: link of the level that the traffic of each rank's NIC takes ``[world_size]``.
        inside: ranks of one number reach each other without a NIC ``[world_size]``.
    """

    link: IntArray
    inside: IntArray


class Routed(Protocol):
    """Links that depend on both sender and receiver of a message."""

    def loads(self, messages: Messages, block: Block) -> tuple[FloatArray, ...]:
        """Bytes over the links `used` of each instance, one array ``[I, w]`` for each port of the level."""
        ...

    def used(self, block: Block) -> tuple[IntArray, ...]:
        """Numbers of the links between members of each instance, one array ``[I, w]`` for each port."""
        ...

    def farthest(self, messages: Messages, block: Block) -> int:
        """Number of links between switches on the longest route of some messages."""
        ...

    def delay_s(self, messages: Messages, block: Block, rounds: int) -> FloatArray | float:
        """Latency of the links themselves, seconds ``[I, 1]`` or a number.

        Args:
            rounds: number of consecutive messages, each sent on by the receiver of the message before.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """One kind of link between ranks; all arrays ``[world_size]``.

    Attributes:
        bytes_per_s: capacity of one link and direction.
        count: number of links.
        link: number of the link that each rank uses.
        inside: ranks of one number reach each other without it.
        rails: the rails, where ranks below the same leaf reach each other without it too; None elsewhere.
        mesh: links of the GPUs of a node to some others only; None: links to all alike.
        within: the level serves only ranks of one number here (NVLink: of one domain); None: everybody.
        crossings: bytes over the link for each byte that needs it.
        beside: traffic that passes NICs on the same links, the other way round: sent from host memory, received into
            it.
        routed: a torus or the links between sites, if links depend on the receiver; `link` and `inside` are then the
            rank's node or site. None for other levels.
        link_names: names of the links in the order of their numbers, if the links have names.
    """

    name: ResourceClass
    bytes_per_s: float
    count: int
    link: IntArray
    inside: IntArray
    rails: Rails | None = None
    within: IntArray | None = None
    mesh: Mesh | None = None
    crossings: float = 1.0
    routed: Routed | None = None
    beside: Beside | None = None
    link_names: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[IntArray, ...]:
        """All labels by which it groups ranks."""
        rails = () if self.rails is None else (self.rails.leaf, self.rails.leaf_in_domain, self.rails.unit)
        within = () if self.within is None else (self.within,)
        beside = () if self.beside is None else (self.beside.link, self.beside.inside)
        return (self.link, self.inside, *rails, *within, *beside)


def levels_of(cluster: Cluster, node_of: IntArray, local_rank_of: IntArray) -> tuple[IntArray, tuple[Level, ...]]:
    """Domain of each rank ``[world_size]``, and the levels of a placed cluster from the GPU outwards.

    Args:
        node_of: node of each rank ``[world_size]``.
        local_rank_of: GPU of each rank on its node ``[world_size]``.
    """
    node, ranks = cluster.node, np.arange(len(node_of), dtype=np.int64)
    domain = node_of
    levels: list[Level] = []
    if node.scale_up is not None:
        nodes_of_domain = (node.scale_up.domain_gpus.value if node.scale_up.domain_gpus else node.ranks) // node.ranks
        domain = node_of // nodes_of_domain
        rate = node.scale_up.bytes_per_s.value
        mesh = _mesh(node, local_rank_of)
        levels.append(Level("nvlink", rate, len(ranks), ranks, inside=ranks, within=domain, mesh=mesh))
    inside_node = _pcie_levels if node.gpu is not None else _host_levels
    levels += inside_node(node, node_of, local_rank_of, domain)
    levels += _host_memory_levels(node, node_of, local_rank_of, domain)
    nic = _nic_level(node, node_of, local_rank_of, domain)
    return domain, (*levels, nic, *_fabric_levels(cluster, node_of, nic, domain))


def _mesh(node: Node, local_rank_of: IntArray) -> Mesh | None:
    """Shares of a GPU's port; pairs without a link share the GPU's PCIe link, as NCCL routes them."""
    gpus = node.ranks
    if node.scale_up is None or not (mesh := node.scale_up.mesh(gpus)):
        return None
    links = np.zeros((gpus, gpus))
    for link in mesh:
        links[link.gpus] = links[link.gpus[::-1]] = link.links
    share = links / links.sum(axis=1, keepdims=True)
    missing = (links == 0) & ~np.eye(gpus, dtype=bool)
    pcie = node.gpu_link_bytes_per_s / node.scale_up.bytes_per_s.value
    share[missing] = (pcie / np.maximum(missing.sum(axis=1, keepdims=True), 1) + np.zeros_like(share))[missing]
    return Mesh(local_rank_of, share)


def _pcie_levels(node: Node, node_of: IntArray, local: IntArray, domain: IntArray) -> list[Level]:
    """The GPU's own link, and where the node says so the up-link of its switch and the link between sockets.

    On a node that does not describe its PCIe, GPUs with NVLink reach the NICs beside it: only copies use the link.
    Without GPUDirect all that leaves the node goes up to host memory, and from there to a NIC on a switch it comes down
    again; without peer-to-peer access so does all that GPUs send each other.
    """
    ranks = np.arange(len(node_of), dtype=np.int64)
    tree, direct = node.pcie_tree, node.nics.is_gpudirect
    everyone = np.zeros_like(ranks)
    inside = ranks if node.scale_up is None else everyone if tree is None and direct else domain
    levels = [Level("pcie", node.gpu_link_bytes_per_s, len(ranks), ranks, inside=inside)]
    if tree is None or node.pcie_fraction is None:
        return levels
    gpus, nodes = node.ranks, int(node_of.max()) + 1
    switches, sockets = int(tree.switches.value), int(node.sockets.value)
    switch = node_of * switches + local * switches // gpus
    to_nics = tree.nics_at == "root" or not direct
    if to_nics or node.scale_up is None:
        beyond = domain if node.scale_up is not None else switch if tree.is_peer_to_peer else ranks
        rate = tree.uplink_bytes_per_s.value * node.pcie_fraction.value
        within = None if to_nics else node_of
        beside = None
        if tree.nics_at == "switch" and not direct:
            ports = min(int(node.nics.count.value), gpus)
            beside = Beside(node_of * switches + local * ports // gpus * switches // ports, domain)
        levels.append(Level("switch", rate, nodes * switches, switch, inside=beyond, within=within, beside=beside))
    if sockets > 1 and node.scale_up is None:
        socket = node_of * sockets + local * sockets // gpus
        link = tree.socket_link_bytes_per_s.value
        levels.append(Level("socket", link, nodes * sockets, socket, inside=socket, within=node_of))
    return levels


def _host_memory_levels(node: Node, node_of: IntArray, local: IntArray, domain: IntArray) -> list[Level]:
    """Memory channels of the sockets, which traffic to and from NICs crosses where there is no GPUDirect.

    So does traffic between GPUs without peer-to-peer access.
    """
    if node.gpu is None or node.nics.is_gpudirect:
        return []
    ranks = np.arange(len(node_of), dtype=np.int64)
    tree = node.pcie_tree
    staged = node.scale_up is None and tree is not None and not tree.is_peer_to_peer
    memory = _host_memory(node, node_of, local, inside=ranks if staged else domain)
    return [replace(memory, beside=Beside(memory.link, domain))]


def _host_memory(node: Node, node_of: IntArray, local: IntArray, inside: IntArray) -> Level:
    """A buffer lies beside its GPU; where the GPUs do not hang on the sockets evenly, the node's memory is one."""
    gpus, nodes = node.ranks, int(node_of.max()) + 1
    sockets = int(node.sockets.value) if gpus % int(node.sockets.value) == 0 else 1
    socket = node_of * sockets + local * sockets // gpus
    return Level("ddr", node.ddr_bytes_per_s.value / sockets, nodes * sockets, socket, inside=inside)


def host_levels_of(node: Node, node_of: IntArray, local: IntArray, known: Collection[str]) -> tuple[Level, ...]:
    """Links that only traffic between GPUs and their host uses: up-links of PCIe switches, memory channels, SSDs.

    Args:
        node_of: node of each rank ``[world_size]``.
        local: GPU of each rank on its node ``[world_size]``.
        known: levels that collectives use too, left out here.
    """
    if node.gpu is None:
        return ()
    nobody, nodes, found = np.zeros_like(node_of), int(node_of.max()) + 1, []
    if node.pcie_tree is not None and node.pcie_fraction is not None and "switch" not in known:
        switches = int(node.pcie_tree.switches.value)
        rate = node.pcie_tree.uplink_bytes_per_s.value * node.pcie_fraction.value
        switch = node_of * switches + local * switches // node.ranks
        found.append(Level("switch", rate, nodes * switches, switch, inside=nobody))
    if "ddr" not in known:
        found.append(_host_memory(node, node_of, local, inside=nobody))
    if node.ssd is not None:
        found.append(Level("ssd", node.ssd.read_bytes_per_s.value, nodes, node_of, inside=nobody))
    return tuple(found)


def _host_levels(node: Node, node_of: IntArray, local: IntArray, domain: IntArray) -> list[Level]:  # noqa: ARG001 - one signature
    """The link of each socket to the others of its node, on nodes without GPUs."""
    if node.socket_link_bytes_per_s is None:
        return []
    ranks = np.arange(len(node_of), dtype=np.int64)
    rate, mesh = node.socket_link_bytes_per_s.value, None
    if node.socket_links is not None:
        links = [(*link.sockets, link.links) for link in node.socket_links.value]
        mesh = Mesh(local, np.zeros((0, 0)), Routes.of(node.sockets.value, links))
    return [Level("socket", rate, len(ranks), ranks, inside=ranks, within=node_of, mesh=mesh)]


def _nic_level(node: Node, node_of: IntArray, local: IntArray, domain: IntArray) -> Level:
    """NICs; where a GPU has several they count as one port of their joint rate."""
    gpus, nics, nic = node.ranks, int(node.nics.count.value), node.nics.nic
    ports = min(nics, gpus)
    rate = nic.bytes_per_s.value * nics / ports
    if nic.pcie_bytes_per_s is not None and node.pcie_fraction is not None:
        rate = min(rate, nic.pcie_bytes_per_s.value * node.pcie_fraction.value * nics / ports)
    return Level("nic", rate, (int(node_of.max()) + 1) * ports, node_of * ports + local * ports // gpus, inside=domain)


def _fabric_levels(cluster: Cluster, node_of: IntArray, nic: Level, domain: IntArray) -> list[Level]:
    """Links between switches: those of a torus, or up-links of leaf switches where they are fewer than down-links."""
    fabric = cluster.fabric
    if fabric.dimensions is not None and fabric.link_bytes_per_s is not None:
        rates = fabric.link_bytes_per_s.value
        torus = Torus(fabric.dimensions.value, node_of, tuple(max(rates) / rate for rate in rates))
        return [Level("torus", max(rates), torus.link_count, node_of, inside=node_of, routed=torus)]
    oversubscription = fabric.oversubscription
    crossings = 1.0 if fabric.detour_share is None else 1.0 + fabric.detour_share.value
    if oversubscription * crossings <= 1.0 or int(node_of.max()) == 0:
        return []
    return [_spine_level(fabric, node_of, nic, domain, oversubscription)]


def _spine_level(fabric: Fabric, node_of: IntArray, nic: Level, domain: IntArray, oversubscription: float) -> Level:
    """Up-links of the leaf switches.

    A leaf holds ``leaf_nodes`` nodes; on a rail-optimised fabric there is one for each NIC number, and traffic between
    NICs of one number stays in it. On a dragonfly a leaf is a group, and a message that takes the detour over a third
    group uses the global links of two groups, and of that one both ways: twice as much of them in all.
    """
    nodes = int(node_of.max()) + 1
    ports, on_rails = nic.count // nodes, fabric.kind == "rail_optimised"
    per_leaf = int(fabric.leaf_nodes.value) if fabric.leaf_nodes is not None else nodes if on_rails else 1
    unit = node_of // per_leaf
    if on_rails:
        leaf = unit * ports + nic.link % ports
        rate = nic.bytes_per_s * min(per_leaf, nodes) / oversubscription
        rails = Rails(leaf, domain * (int(leaf.max()) + 1) + leaf, unit)
        return Level("spine", rate, int(leaf.max()) + 1, leaf, inside=domain, rails=rails)
    rate = nic.bytes_per_s * ports * per_leaf / oversubscription
    crossings = 1.0 if fabric.detour_share is None else 1.0 + fabric.detour_share.value
    return Level("spine", rate, int(unit.max()) + 1, unit, inside=unit, crossings=crossings)


def site_level(cluster: Cluster, site_of: IntArray) -> Level:
    """Links between sites, one for each direction of each pair.

    Args:
        site_of: site of each rank ``[world_size]``.
    """
    mesh = SiteMesh.of(cluster, site_of)
    return Level(
        "site", mesh.bytes_per_s, mesh.link_count, site_of, inside=site_of, routed=mesh, link_names=mesh.link_names
    )

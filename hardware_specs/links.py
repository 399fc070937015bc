"""Links between the GPUs of a node: NVLink and PCIe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from hardware_specs.bounds import Bandwidth, OnNode, PerNode
from inputs.model import Strict, problem
from inputs.sourced import Sourced


class MeshLink(Strict):
    """NVLinks between two GPUs of a node, by their numbers on it."""

    gpus: tuple[OnNode, OnNode]
    links: PerNode


class ScaleUp(Strict):
    """The fabric between the GPUs of one node."""

    kind: Literal["nvswitch", "nvlink_mesh"]
    """nvswitch: any pair at the full rate. nvlink_mesh: direct links, some pairs have none."""
    bytes_per_s: Sourced[Bandwidth]
    """Rate per GPU and direction, all links."""
    links: Sourced[tuple[MeshLink, ...]] | None = None
    """Number of links between pairs of GPUs in a mesh; without it any pair counts at the full rate."""
    domain_gpus: Sourced[PerNode] | None = None
    """GPUs that reach each other over it, where that is more than a node (NVL72); default: those of the node."""
    in_switch_reduction: bool = False
    """The switch adds (NVLS): the measured busbw of an all_reduce may then exceed the link rate."""


class PcieTree(Strict):
    """PCIe switches between the GPUs and the CPUs of a node; GPUs hang on them evenly."""

    switches: Sourced[PerNode]
    uplink_bytes_per_s: Sourced[Bandwidth]
    """Switch to CPU, per direction, raw link rate."""
    socket_link_bytes_per_s: Sourced[Bandwidth]
    """Rate between the sockets (UPI, xGMI), per direction, all links."""
    peer_bytes_per_s: Sourced[Bandwidth] | None = None
    """Rate at which a switch's GPUs reach those of other switches through the host, per direction; default: as the
    up-link."""
    far_peer_bytes_per_s: Sourced[Bandwidth] | None = None
    """Rate at which one GPU reaches those of another socket, per direction; default: the sockets' link."""
    nics_at: Literal["switch", "root"]
    """switch: a GPU reaches a NIC without its switch's up-link. root: NICs hang on the CPUs."""
    peer_to_peer: Sourced[bool] | None = None
    """false: GPUs reach each other through host memory only, even on one switch; default: directly."""

    @property
    def is_peer_to_peer(self) -> bool:
        """Whether GPUs reach each other directly."""
        return self.peer_to_peer is None or self.peer_to_peer.value


def check_tree(tree: PcieTree, gpus: int, sockets: int, nics: int, *, gpudirect: bool) -> None:
    """GPUs, sockets and NICs (not those of host memory) hang on the switches evenly; raises a `problem` of the node."""
    for key, count in (("pcie_tree.switches", tree.switches.value), ("sockets", sockets)):
        if gpus % count:
            expected = f"a divisor of the {gpus} GPUs"
            raise problem("the GPUs cannot hang on these evenly", expected=expected, key=f"{key}.value")
    if tree.switches.value % sockets:
        expected = f"a multiple of the {sockets} sockets"
        raise problem("the sockets cannot share these evenly", expected=expected, key="pcie_tree.switches.value")
    if gpudirect and tree.nics_at == "switch" and nics % tree.switches.value:
        expected = f"root, or a multiple of the {tree.switches.value} switches as nics.count"
        raise problem(f"{nics} NICs cannot hang on these switches evenly", expected=expected, key="pcie_tree.nics_at")


def check_scale_up(scale_up: ScaleUp, gpus: int) -> None:
    """A mesh joins all GPUs, a domain is made of whole nodes; raises a `problem` of the node."""
    mesh = scale_up.links.value if scale_up.links is not None else ()
    seen: set[frozenset[int]] = set()
    for number, link in enumerate(mesh):
        if frozenset(link.gpus) in seen:
            key = f"scale_up.links.value[{number}].gpus"
            raise problem("these GPUs are linked twice", expected="one entry for a pair, with all its links", key=key)
        seen.add(frozenset(link.gpus))
        if max(link.gpus) >= gpus or link.gpus[0] == link.gpus[1]:
            expected = f"two different GPUs of 0 to {gpus - 1}"
            raise problem("no such link", expected=expected, key=f"scale_up.links.value[{number}].gpus")
    unlinked = set(range(gpus)) - {gpu for link in mesh for gpu in link.gpus}
    if mesh and unlinked:
        message = f"GPU {min(unlinked)} hangs on no link of the mesh"
        raise problem(message, expected="a link for each GPU", key="scale_up.links")
    reached = _reached_from_first(mesh)
    if mesh and len(reached) < gpus:
        message = f"no NVLinks lead from GPU 0 to GPU {min(set(range(gpus)) - reached)}"
        raise problem(message, expected="a mesh that joins all GPUs", key="scale_up.links")
    domain = scale_up.domain_gpus
    if domain is not None and domain.value % gpus:
        expected = f"a multiple of the {gpus} GPUs of a node"
        raise problem("impossible value", expected=expected, key="scale_up.domain_gpus.value")


def _reached_from_first(mesh: Sequence[MeshLink]) -> set[int]:
    """GPUs that NVLinks lead to from GPU 0, over others too."""
    reached, grown = {0}, True
    while grown:
        ends = {gpu for link in mesh if reached & set(link.gpus) for gpu in link.gpus}
        grown = not ends <= reached
        reached |= ends
    return reached

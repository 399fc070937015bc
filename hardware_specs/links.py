"""Links between the GPUs of a node: NVLink, Infinity Fabric and PCIe."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal, NamedTuple

from pydantic import model_validator

from hardware_specs.bounds import Bandwidth, OnNode, PerNode
from inputs.model import Strict, problem
from inputs.sourced import Sourced


class MeshLink(Strict):
    """Links between two GPUs of a node, by their numbers on it."""

    gpus: tuple[OnNode, OnNode]
    links: PerNode


class SocketLink(Strict):
    """Links between two sockets of a node, by their numbers on it."""

    sockets: tuple[OnNode, OnNode]
    links: PerNode


class ScaleUp(Strict):
    """The fabric between the GPUs of one node."""

    kind: Literal["nvswitch", "nvlink_mesh", "infinity_fabric"]
    """nvswitch: any pair at the full rate. nvlink_mesh: direct links, some pairs may have none. infinity_fabric: direct
    links without a switch, one between each pair unless `links` says otherwise."""
    bytes_per_s: Sourced[Bandwidth]
    """Rate per GPU and direction, all links."""
    links: Sourced[tuple[MeshLink, ...]] | None = None
    """Number of links between pairs of GPUs in a mesh; an nvlink_mesh without it counts any pair at the full rate."""
    domain_gpus: Sourced[PerNode] | None = None
    """GPUs that reach each other over it, where that is more than a node (NVL72); default: those of the node."""
    in_switch_reduction: bool = False
    """The switch adds (NVLS): the measured busbw of an all_reduce may then exceed the link rate."""

    def mesh(self, gpus: int) -> tuple[MeshLink, ...] | None:
        """Number of links between pairs of ``gpus`` GPUs; None: any pair reaches the full rate."""
        if self.links is not None:
            return self.links.value
        if self.kind != "infinity_fabric":
            return None
        return tuple(MeshLink(gpus=pair, links=1) for pair in combinations(range(gpus), 2))

    @model_validator(mode="after")
    def _switches_add(self) -> ScaleUp:
        """Infinity Fabric has no switch that adds or joins nodes."""
        if self.kind == "infinity_fabric" and (self.in_switch_reduction or self.domain_gpus is not None):
            key = "in_switch_reduction" if self.in_switch_reduction else "domain_gpus"
            raise problem("infinity_fabric has no switches", key=key, expected="nothing: no such key")
        return self


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
    _check_mesh(
        [link.gpus for link in (scale_up.links.value if scale_up.links is not None else ())],
        gpus,
        _MeshWords("scale_up.links", "gpus", "GPU", "NVLinks"),
    )
    domain = scale_up.domain_gpus
    if domain is not None and domain.value % gpus:
        expected = f"a multiple of the {gpus} GPUs of a node"
        raise problem("impossible value", expected=expected, key="scale_up.domain_gpus.value")


def check_socket_links(links: Sequence[SocketLink], sockets: int) -> None:
    """The links join all sockets; raises a `problem` of the node."""
    _check_mesh([link.sockets for link in links], sockets, _MeshWords("socket_links", "sockets", "socket", "links"))


class _MeshWords(NamedTuple):
    """Names of a mesh in messages: its key, the key of a pair, one of its members, its links."""

    key: str
    pair: str
    member: str
    links: str


def _check_mesh(mesh: Sequence[tuple[int, int]], members: int, words: _MeshWords) -> None:
    """Pairs are of different members, stand once, and join all members."""
    seen: set[frozenset[int]] = set()
    for number, pair in enumerate(mesh):
        key = f"{words.key}.value[{number}].{words.pair}"
        if frozenset(pair) in seen:
            message = f"these {words.member}s are linked twice"
            raise problem(message, expected="one entry for a pair, with all its links", key=key)
        seen.add(frozenset(pair))
        if max(pair) >= members or pair[0] == pair[1]:
            expected = f"two different {words.member}s of 0 to {members - 1}"
            raise problem("no such link", expected=expected, key=key)
    unlinked = set(range(members)) - {member for pair in mesh for member in pair}
    if mesh and unlinked:
        message = f"{words.member} {min(unlinked)} hangs on no link of the mesh"
        raise problem(message, expected=f"a link for each {words.member}", key=words.key)
    reached = _reached_from_first(mesh)
    if mesh and len(reached) < members:
        first, lost = f"{words.member} 0", f"{words.member} {min(set(range(members)) - reached)}"
        message = f"no {words.links} lead from {first} to {lost}"
        raise problem(message, expected=f"a mesh that joins all {words.member}s", key=words.key)


def _reached_from_first(mesh: Sequence[tuple[int, int]]) -> set[int]:
    """Members that links lead to from the first one, over others too."""
    reached, grown = {0}, True
    while grown:
        ends = {member for pair in mesh if reached & set(pair) for member in pair}
        grown = not ends <= reached
        reached |= ends
    return reached

"""Parts of a machine: GPU, CPU, NIC, node, cluster, and measurements of its collectives.

Every number is a `Sourced` value: SI, with the source it was taken from and a grade for how far to trust that. All
bandwidths are per direction. A part inside another (`Node.gpu`, `Cluster.node`...) is written in YAML as the name of a
shipped file, a path, or inline; here it is always the resolved part.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Annotated, Any

from pydantic import Field, model_validator

from hardware_specs.bounds import Amount, Bandwidth, ByName, Name, Number, PerNode, Share
from hardware_specs.collectives import CalibrationPoint, CollectivePoint, FittedCollectives, LatencyPoint
from hardware_specs.fabric import Fabric, Nic, NodeNics
from hardware_specs.library import Backend, CollectiveLibrary
from hardware_specs.links import PcieTree, ScaleUp, SocketLink, check_scale_up, check_socket_links, check_tree
from hardware_specs.processors import Cpu, Gpu
from hardware_specs.sites import Site, SiteLinks, check_sites
from inputs.errors import InputError
from inputs.model import Strict, problem
from inputs.sourced import Sourced

__all__ = [
    "CalibrationPoint",
    "Cluster",
    "CollectiveLibrary",
    "Cpu",
    "Fabric",
    "Gpu",
    "Nic",
    "Node",
    "NodeNics",
    "ScaleUp",
    "Ssd",
]

WITHOUT, NONE = "a node without `gpu` has none of these", "nothing: no such key"


class Ssd(Strict):
    """The local SSDs of a node, all together."""

    bytes: Sourced[Amount]
    read_bytes_per_s: Sourced[Bandwidth]
    write_bytes_per_s: Sourced[Bandwidth]


class Node(Strict):
    """One server."""

    name: Name
    description: str = ""
    gpu: Annotated[Gpu, ByName()] | None = None
    """None: ranks compute on the CPUs."""
    gpus: Sourced[PerNode] | None = None
    cpu: Annotated[Cpu, ByName()]
    sockets: Sourced[PerNode]
    ddr_bytes: Sourced[Amount]
    """Host memory of the node."""
    ddr_bytes_per_s: Sourced[Bandwidth]
    """Host memory peak of the node, all sockets."""
    ssd: Ssd | None = None
    """None: none that tables could be on."""
    pcie_bytes_per_s: Sourced[Bandwidth] | None = None
    """Raw link rate per GPU and direction."""
    pcie_fraction: Sourced[Share] | None = None
    """Fraction of the raw link rate that a large pinned copy reaches."""
    socket_link_bytes_per_s: Sourced[Bandwidth] | None = None
    """Rate of one socket to the others of its node on nodes without GPUs (UPI, xGMI), per direction, all links; where
    sockets hold several ranks, rate of one rank to the others of its node."""
    socket_links: Sourced[tuple[SocketLink, ...]] | None = None
    """Number of links between pairs of sockets that hold a rank each; a pair without takes the shortest ways over
    others. Without this any pair counts at the full rate."""
    ranks_per_socket: Sourced[PerNode] | None = None
    """Ranks that a socket may hold on nodes without GPUs; default: one."""
    sockets_per_rank: Sourced[PerNode] | None = None
    """Sockets that a rank spans on nodes without GPUs, instead; default: one."""
    pcie_tree: PcieTree | None = None
    """None: every GPU has a root port of its own."""
    scale_up: ScaleUp | None = None
    """None: GPUs of a node reach each other over PCIe."""
    nics: NodeNics
    """Back-end NICs, used by collectives."""
    frontend: NodeNics | None = None
    """NICs that bring the training data in, where they are apart from `nics`."""

    @property
    def ranks(self) -> int:
        """Ranks a node holds: its GPUs, or without any so many on each socket."""
        if self.gpus is not None:
            return self.gpus.value
        on_socket = 1 if self.ranks_per_socket is None else self.ranks_per_socket.value
        return self.sockets.value * on_socket // self.spanned_sockets

    @property
    def spanned_sockets(self) -> int:
        """Sockets that a rank spans: 1 unless `sockets_per_rank` says more."""
        return 1 if self.sockets_per_rank is None else self.sockets_per_rank.value

    @property
    def rank_name(self) -> str:
        """Plural noun of the devices that hold a rank each; ``ranks`` where a socket or a machine may hold several."""
        if self.gpu is not None:
            return "GPUs"
        if self.spanned_sockets > 1:
            return "machines" if self.spanned_sockets == self.sockets.value else "ranks"
        return "sockets" if self.ranks_per_socket is None else "ranks"

    @property
    def processor_name(self) -> str:
        """Name of the processors that run kernels."""
        return self.cpu.name if self.gpu is None else self.gpu.name

    @property
    def accelerator(self) -> Gpu:
        """The GPU.

        Raises:
            InputError: the node has none, and computing on CPUs is not modelled.
        """
        if self.gpu is None:
            raise InputError(
                "kernels run on GPUs, and these nodes have none", given=self.name, expected="nodes with GPUs"
            )
        return self.gpu

    @property
    def gpu_link_bytes_per_s(self) -> float:
        """Rate of a large pinned copy between host and GPU, B/s per direction; 0 without GPUs."""
        if self.pcie_bytes_per_s is None or self.pcie_fraction is None:
            return 0.0
        return self.pcie_bytes_per_s.value * self.pcie_fraction.value

    @property
    def frontend_bytes_per_s(self) -> float:
        """Rate at which a rank receives training data, B/s: its share of the front-end NICs, else of `nics`."""
        nics = self.frontend or self.nics
        return nics.nic.bytes_per_s.value * nics.count.value / self.ranks

    @model_validator(mode="after")
    def _ranks_are_on_sockets(self) -> Node:
        """Only nodes without GPUs say how sockets hold ranks; ranks share a socket, or span as many as all others."""
        for key in ("ranks_per_socket", "sockets_per_rank"):
            if self.gpu is not None and getattr(self, key) is not None:
                raise problem("a node with `gpu` has none of these", key=key, expected=NONE)
        if self.ranks_per_socket is not None and self.sockets_per_rank is not None:
            raise problem("given together with ranks_per_socket", key="sockets_per_rank", expected="one of the two")
        if self.sockets.value % self.spanned_sockets:
            expected = f"a divisor of the {self.sockets.value} sockets"
            raise problem("ranks cannot share the sockets evenly", key="sockets_per_rank.value", expected=expected)
        return self

    @model_validator(mode="after")
    def _has_gpu_parts(self) -> Node:
        """A node with GPUs says how many and how they are linked; one without says nothing of them."""
        keys = ("gpus", "pcie_bytes_per_s", "pcie_fraction")
        for key in keys:
            if (getattr(self, key) is None) != (self.gpu is None):
                raise (
                    problem(WITHOUT, key=key, expected=NONE)
                    if self.gpu is None
                    else problem("the key is missing", key=key, expected="a value, as the node has a `gpu`")
                )
        for key in ("pcie_tree", "scale_up"):
            if self.gpu is None and getattr(self, key) is not None:
                raise problem(WITHOUT, key=key, expected=NONE)
        if self.gpu is None and self.nics.gpudirect is not None:
            raise problem(WITHOUT, key="nics.gpudirect", expected=NONE)
        if self.socket_links is not None:
            if self.gpu is not None or self.ranks != self.sockets.value:
                expected = "a node without `gpu`, a rank on each socket"
                raise problem("only sockets with a rank each have this", key="socket_links", expected=expected)
            check_socket_links(self.socket_links.value, self.sockets.value)
        several = self.gpu is None and self.ranks > 1
        if several != (self.socket_link_bytes_per_s is not None):
            message = "the key is missing" if several else "only several ranks without GPUs have this"
            raise problem(message, key="socket_link_bytes_per_s", expected="a rate" if several else NONE)
        return self

    @model_validator(mode="after")
    def _parts_are_shared_evenly(self) -> Node:
        """NICs, PCIe switches and sockets serve equally many ranks; an NVLink domain is made of whole nodes."""
        count = self.nics.count.value
        if max(self.ranks, count) % min(self.ranks, count):
            expected = f"a divisor or a multiple of the {self.ranks} {self.rank_name}"
            raise problem(
                f"the {self.rank_name} cannot share these NICs evenly", expected=expected, key="nics.count.value"
            )
        if self.pcie_tree is not None:
            check_tree(self.pcie_tree, self.ranks, self.sockets.value, count, gpudirect=self.nics.is_gpudirect)
        if self.scale_up is not None:
            check_scale_up(self.scale_up, self.ranks)
        return self


class OtherLibrary(Strict):
    """Another library of collectives of a machine, with the measurements made by it; see `Cluster`."""

    collectives: Annotated[CollectiveLibrary, ByName()]
    calibration: tuple[CalibrationPoint, ...] = ()
    fitted: FittedCollectives | None = None
    latency_points: tuple[LatencyPoint, ...] = ()


class Cluster(Strict):
    """A machine: nodes of one kind on one fabric."""

    name: Name
    description: str = ""
    node: Annotated[Node, ByName()]
    max_nodes: Sourced[Number]
    """Nodes of the real machine; a larger cluster is an extrapolation."""
    fabric: Fabric
    collectives: Annotated[CollectiveLibrary, ByName()]
    calibration: tuple[CalibrationPoint, ...]
    """Large messages, one per op, ranks and ranks_per_node: the achievable link fractions come from them.

    May be empty: links then count at their full rate.
    """
    fitted: FittedCollectives | None = None
    """Result of a fit over many measurements; it replaces the points of `calibration` on the links it has shares of."""
    latency_points: tuple[LatencyPoint, ...] = ()
    """Small messages, to check the latency constants against; nothing is fitted on them."""
    other_libraries: tuple[OtherLibrary, ...] = ()
    """Libraries that a scenario may ask for instead (``network.backend``), at most one of each backend."""
    sites: Annotated[tuple[Site, ...], Field(min_length=1, max_length=1000)] | None = None
    """Groups of nodes, filled in this order; None: all nodes are in one place."""
    site_links: SiteLinks | None = None
    """Links between the sites; the fabric joins the nodes of one site."""

    @model_validator(mode="after")
    def _points_are_of_this_machine(self) -> Cluster:
        """No more ranks on a node than it has GPUs; one point for each shape."""
        _check_points("calibration", self.calibration, self.node)
        _check_points("latency_points", self.latency_points, self.node)
        for number, other in enumerate(self.other_libraries):
            key = f"other_libraries[{number}]"
            _check_points(f"{key}.calibration", other.calibration, self.node)
            _check_points(f"{key}.latency_points", other.latency_points, self.node)
        return self

    @model_validator(mode="after")
    def _libraries_have_different_backends(self) -> Cluster:
        """A backend names one library."""
        seen = [self.collectives.backend]
        for number, other in enumerate(self.other_libraries):
            if other.collectives.backend in seen:
                expected = f"a library of another backend than {', '.join(seen)}"
                raise problem("two libraries of one backend", expected=expected, key=f"other_libraries[{number}]")
            seen.append(other.collectives.backend)
        return self

    def by_backend(self, backend: Backend) -> Cluster | None:
        """The cluster with its library of a backend, the former one among the others; None where it names none."""
        if self.collectives.backend == backend:
            return self
        taken = next((other for other in self.other_libraries if other.collectives.backend == backend), None)
        return None if taken is None else self.with_library(taken)

    def with_library(self, taken: OtherLibrary) -> Cluster:
        """The cluster with another library, the former one among the others."""
        names = list(OtherLibrary.model_fields)
        former = OtherLibrary(**{name: getattr(self, name) for name in names})
        others = (former, *(other for other in self.other_libraries if other is not taken))
        return self.model_copy(update={name: getattr(taken, name) for name in names} | {"other_libraries": others})

    @model_validator(mode="after")
    def _protocols_are_left(self) -> Cluster:
        """NCCL sends messages to single peers by Simple alone, and rings by one of its protocols."""
        for library in (self.collectives, *(other.collectives for other in self.other_libraries)):
            if library.nccl is not None:
                _check_protocols(self.fabric, library.nccl.protocols, library.name)
        return self

    @model_validator(mode="after")
    def _sites_hold_all_nodes(self) -> Cluster:
        """Check that the fabric suits sites: links in pairs, and no shared links between the switches of a site."""
        check_sites(self.sites, self.site_links, self.max_nodes.value)
        if self.sites is None:
            return self
        if self.fabric.kind in ("torus", "dragonfly"):
            raise problem("sites are joined by their own links", expected="fat_tree, rail_optimised", key="fabric.kind")
        if self.fabric.oversubscription > 1.0:
            expected, key = "1: shared up-links inside a site are not modelled", "fabric.spine_oversubscription.value"
            raise problem("the cluster has sites", expected=expected, key=key)
        domain = None if self.node.scale_up is None else self.node.scale_up.domain_gpus
        nodes = 1 if domain is None else domain.value // self.node.ranks
        for number, site in enumerate(self.sites):
            if site.nodes.value % nodes:
                expected = f"a multiple of the {nodes} nodes that NVLink joins"
                raise problem("NVLink joins no sites", expected=expected, key=f"sites[{number}].nodes.value")
        return self

    @property
    def site_names(self) -> tuple[str, ...]:
        """Names of the sites in the cluster's order; empty: all nodes are in one place."""
        return tuple(site.name for site in self.sites or ())

    def of_one_site(self) -> Cluster:
        """The cluster without its sites: the nodes and the fabric of a site."""
        return self if self.sites is None else self.model_copy(update={"sites": None, "site_links": None})

    @model_validator(mode="after")
    def _torus_holds_its_nodes(self) -> Cluster:
        """A torus has a place for each node, and nothing else joins nodes."""
        dimensions = self.fabric.dimensions
        if dimensions is None:
            return self
        if prod(dimensions.value) < self.max_nodes.value:
            expected = f"a product of {self.max_nodes.value} or more, the nodes of the machine"
            raise problem("the torus is too small", expected=expected, key="fabric.dimensions.value")
        domain = None if self.node.scale_up is None else self.node.scale_up.domain_gpus
        if domain is not None and domain.value > self.node.ranks:
            expected = "NVLink inside the nodes only (no node.scale_up.domain_gpus)"
            raise problem("NVLink joins nodes of a torus", expected=expected, key="fabric.kind")
        return self

    def to_dict(self) -> dict[str, Any]:
        """The whole resolved tree as plain JSON values; quantities are exact text, so that the tree can be read again.

        Clusters without sites have no keys of sites, so hashes of scenarios from before sites were introduced stay the
        same.
        """
        return self.model_dump(mode="json", exclude={"sites", "site_links"} if self.sites is None else None)


def _check_protocols(fabric: Fabric, known: Sequence[str], library: str) -> None:
    if fabric.protocols is not None and "simple" not in fabric.protocols.value:
        expected = "simple among them, which NCCL sends messages to single peers by"
        raise problem("a protocol is missing", expected=expected, key="fabric.protocols.value")
    rings = fabric.ring_protocols
    if rings is not None and not {*rings.value} & {*known}:
        expected = f"one or more of {', '.join(known)}, the protocols of {library}"
        raise problem("rings have no protocol", expected=expected, key="fabric.ring_protocols.value")
    run = known if fabric.protocols is None else fabric.protocols.value
    if rings is not None and not {*rings.value} <= {*run}:
        expected = f"one or more of {', '.join(run)}, the protocols between nodes"
        raise problem(
            "rings run a protocol that nothing else may", expected=expected, key="fabric.ring_protocols.value"
        )


def _check_points(key: str, points: Sequence[CollectivePoint], node: Node) -> None:
    shapes = [point.shape for point in points]
    for number, point in enumerate(points):
        if point.ranks_per_node > node.ranks:
            expected = f"at most {node.ranks}, the {node.rank_name} of a node"
            raise problem("impossible value", expected=expected, key=f"{key}[{number}].ranks_per_node")
        if point.shape in shapes[:number]:
            expected = "one point for each op, ranks and ranks_per_node"
            raise problem("the same collective again", expected=expected, key=f"{key}[{number}]")

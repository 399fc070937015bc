"""The network between nodes: NICs and fabric."""

from __future__ import annotations

from math import prod
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from hardware_specs.bounds import Amount, Bandwidth, ByName, Latency, Name, Number, PerNode, Share
from inputs.model import Strict, problem
from inputs.quantities import MAX_RANKS
from inputs.sourced import Sourced

NcclProtocol = Literal["ll", "ll128", "simple"]


class Rendezvous(Strict):
    """Announcing larger messages before they are sent."""

    above: Sourced[Amount]
    """Messages up to this size are sent at once."""
    hop_s: Sourced[Latency]
    """Time that an announced message takes more."""


class Nic(Strict):
    """One network adapter port."""

    name: Name
    description: str = ""
    bytes_per_s: Sourced[Bandwidth]
    """Port rate, per direction."""
    latency_s: Sourced[Latency]
    """One way through the adapter pair, small message, no switch."""
    post_s: Sourced[Latency] | None = None
    """Time between two messages that NCCL's proxy sends to different peers; default: NCCL's own constant of the CPU."""
    rendezvous: Rendezvous | None = None
    """Announcing of large messages of NCCL's Simple protocol; default: all are sent at once."""
    pcie_bytes_per_s: Sourced[Bandwidth] | None = None
    """Raw rate of its PCIe link, per direction, where that may be the slower one."""


class NodeNics(Strict):
    """The NICs of a node that serve one purpose; GPUs share them evenly."""

    nic: Annotated[Nic, ByName()]
    count: Sourced[PerNode]
    gpudirect: Sourced[bool] | None = None
    """Whether NICs read and write GPU memory; else what they carry passes through host memory. Default: true."""

    @property
    def is_gpudirect(self) -> bool:
        """Whether traffic between GPU and NIC leaves host memory alone."""
        return self.gpudirect is None or self.gpudirect.value


class Fabric(Strict):
    """The network between nodes."""

    kind: Literal["rail_optimised", "fat_tree", "dragonfly", "torus"]
    """rail_optimised: NIC k of every node hangs on the switches of rail k. fat_tree: a node's NICs share a leaf.
    dragonfly: groups of `leaf_nodes` that reach each other over their global links. torus: every node has links to
    its neighbours in each dimension."""
    network: Literal["roce", "infiniband", "ethernet", "efa", "omnipath", "aries", "slingshot"]
    leaf_nodes: Sourced[Number] | None = None
    """Nodes below a leaf switch (rail_optimised: below the leaves of one unit); default: one, or all of a rail."""
    spine_oversubscription: Sourced[Annotated[float, Field(ge=1, le=1000)]] | None = None
    """Down-link over up-link bandwidth of the leaf switches; 1 is non-blocking. Of every kind but a torus."""
    detour_share: Sourced[Share] | None = None
    """Fraction of a dragonfly's traffic between groups that goes over a third one (Valiant, adaptive routes);
    default: none."""
    dimensions: Sourced[Annotated[tuple[Number, ...], Field(min_length=1, max_length=8)]] | None = None
    """Nodes along each dimension of a torus; nodes are numbered along the first dimension first."""
    link_bytes_per_s: Sourced[tuple[Bandwidth, ...]] | None = None
    """Rate of a torus link in each dimension, per direction."""
    hop_latency_s: Sourced[Latency]
    """One way between NICs of two nodes, switches only; on a torus over one link."""
    protocols: Sourced[Annotated[tuple[NcclProtocol, ...], Field(min_length=1)]] | None = None
    """NCCL's protocols that run between nodes; default: all of the library."""
    ring_protocols: Sourced[Annotated[tuple[NcclProtocol, ...], Field(min_length=1)]] | None = None
    """Protocols of rings between nodes, where they are fewer; default: `protocols`."""
    in_network_reduction: bool = False
    """The switches add (SHARP): all_reduces may use NCCL's CollNet."""

    @property
    def oversubscription(self) -> float:
        """Down-link over up-link bandwidth; 1 on a torus."""
        return 1.0 if self.spine_oversubscription is None else self.spine_oversubscription.value

    @field_validator("protocols", "ring_protocols")
    @classmethod
    def _each_once(
        cls, protocols: Sourced[tuple[NcclProtocol, ...]] | None
    ) -> Sourced[tuple[NcclProtocol, ...]] | None:
        """No protocol stands twice."""
        if protocols is not None and len({*protocols.value}) < len(protocols.value):
            raise problem("a protocol stands twice", expected="each protocol once", key="value")
        return protocols

    @model_validator(mode="after")
    def _keys_are_of_this_kind(self) -> Fabric:
        """Each kind of fabric is described by its own keys."""
        torus = self.kind == "torus"
        for key in ("dimensions", "link_bytes_per_s") if torus else ("spine_oversubscription",):
            if getattr(self, key) is None:
                raise problem("the key is missing", expected=f"{key} of a {self.kind}", key=key)
        foreign = ("leaf_nodes", "spine_oversubscription") if torus else ("dimensions", "link_bytes_per_s")
        for key in (*foreign, *(() if self.kind == "dragonfly" else ("detour_share",))):
            if getattr(self, key) is not None:
                raise problem(f"a {self.kind} has no {key}", expected="a key of this kind of fabric", key=key)
        if self.dimensions is not None and prod(self.dimensions.value) > MAX_RANKS:
            expected = f"a product of at most {MAX_RANKS:,} nodes"
            raise problem("the torus is too large", expected=expected, key="dimensions.value")
        if self.dimensions is not None and self.link_bytes_per_s is not None:
            count = len(self.dimensions.value)
            if len(self.link_bytes_per_s.value) != count:
                expected = f"{count}, one for each dimension"
                raise problem("wrong number of link rates", expected=expected, key="link_bytes_per_s.value")
        return self

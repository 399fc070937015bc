"""Machines that network tests share, made from shipped ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardware_specs.catalogs import CATALOGS
from hardware_specs.types import Cluster
from inputs.yaml_lines import load_yaml
from simulator.collective_calls import CollectiveOp
from simulator.network import CollectiveModel
from simulator.network.collectives import Call


def sourced(value: object) -> dict[str, object]:
    """A value of a made-up machine."""
    return {"value": value, "source": "made up for a test", "grade": "assumed"}


def changed(cluster: Cluster, node: dict[str, Any] | None = None, fabric: dict[str, Any] | None = None) -> Cluster:
    """The cluster with some keys of its node and fabric replaced, as YAML would have them."""
    data = cluster.to_dict()
    data["node"] |= node or {}
    data["fabric"] |= fabric or {}
    if data["node"]["scale_up"] is None:
        data["calibration"] = []  # measured over NVLink
    return Cluster.model_validate(data)


def with_library(cluster: Cluster, name: str) -> Cluster:
    """The cluster with another shipped library of collectives; its points were measured with its own."""
    library = load_yaml(CATALOGS["library"].find(name)).data
    return Cluster.model_validate(cluster.to_dict() | {"collectives": library, "calibration": [], "fitted": None})


def tapered(cluster: Cluster, kind: str, leaf_nodes: int | None, oversubscription: float = 2.0) -> Cluster:
    """The cluster with fewer up-links than down-links on its leaf switches."""
    leaf = None if leaf_nodes is None else sourced(leaf_nodes)
    spine = sourced(oversubscription)
    return changed(cluster, fabric={"kind": kind, "spine_oversubscription": spine, "leaf_nodes": leaf})


def pcie_box(cluster: Cluster, nics_at: str = "root") -> Cluster:
    """The cluster with GPUs on PCIe switches instead of NVLink: 8 GPUs on 4 switches and 2 sockets.

    2 NICs on the sockets, or 4 on the switches.
    """
    tree = {
        "switches": sourced(4),
        "uplink_bytes_per_s": sourced("15.75 GB/s"),
        "socket_link_bytes_per_s": sourced("20.8 GB/s"),
        "nics_at": nics_at,
    }
    nics = cluster.to_dict()["node"]["nics"] | {"count": sourced(2 if nics_at == "root" else 4)}
    return changed(cluster, {"scale_up": None, "pcie_tree": tree, "sockets": sourced(2), "nics": nics})


def torus(cluster: Cluster, dimensions: list[int], rates: list[str] | None = None) -> Cluster:
    """The cluster with its nodes on a torus."""
    data = cluster.to_dict()
    nodes = {"max_nodes": sourced(int(np.prod(dimensions)))}
    fabric = {
        key: value for key, value in data["fabric"].items() if key not in ("leaf_nodes", "spine_oversubscription")
    }
    fabric |= {
        "kind": "torus",
        "dimensions": sourced(dimensions),
        "link_bytes_per_s": sourced(rates or ["10 GB/s"] * len(dimensions)),
    }
    return Cluster.model_validate(data | nodes | {"fabric": fabric, "calibration": [], "fitted": None})


def staged_box(cluster: Cluster) -> Cluster:
    """GPUs on PCIe switches that reach each other and the one NIC, on the first switch, through host memory only."""
    box = pcie_box(cluster, "root").to_dict()["node"]
    tree = box["pcie_tree"] | {"nics_at": "switch", "peer_to_peer": sourced(value=False)}
    nics = box["nics"] | {"count": sourced(1), "gpudirect": sourced(value=False)}
    return changed(cluster, {"scale_up": None, "sockets": sourced(2), "pcie_tree": tree, "nics": nics})


def through_host(cluster: Cluster) -> Cluster:
    """The cluster without GPUDirect."""
    return changed(cluster, {"nics": cluster.to_dict()["node"]["nics"] | {"gpudirect": sourced(False)}})


def idle_call(model: CollectiveModel, op: CollectiveOp, size_bytes: float) -> Call:
    """A call of ``op`` over all ranks; `CollectiveModel.time` gives its algorithm and duration."""
    block = model.blocks(np.zeros(model.topology.world_size, dtype=np.int64))[0]
    return Call(op, block, np.full((1, 1), float(size_bytes)))


def sites(
    cluster: Cluster,
    nodes: dict[str, int],
    rate: str,
    latency: str,
    pairs: dict[tuple[str, str], tuple[str, str]] | None = None,
) -> Cluster:
    """The cluster on sites of so many nodes, whose links have a rate and a latency, some of their own."""

    def link(rate: str, latency: str) -> dict[str, object]:
        return {"bytes_per_s": sourced(rate), "latency_s": sourced(latency)}

    known = [{"between": list(ends), **link(*values)} for ends, values in (pairs or {}).items()]
    parts = {
        "max_nodes": sourced(sum(nodes.values())),
        "sites": [{"name": name, "nodes": sourced(count)} for name, count in nodes.items()],
        "site_links": {"default": link(rate, latency), "pairs": known},
    }
    return Cluster.model_validate(cluster.to_dict() | parts)

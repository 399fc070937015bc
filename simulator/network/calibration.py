"""Achievable link fractions, derived in closed form from a cluster's calibration points.

A point says that an operation of S bytes took t = S / algbw. For each algorithm a and protocol p the library may
choose there, with latency ``alpha`` and ``x`` seconds of traffic at the full rate of the link class in question
(NVLink for a point inside one node, NIC for one over several):

    f(a, p) = x(a, p) / (efficiency(a, p) x (t - alpha(a, p)))

is the fraction at which (a, p) takes exactly t. The library takes the fastest, and time falls as f grows, so the
fraction is the smallest f(a, p): the chosen one takes t, all others as long or longer. Each point is reproduced.

The fraction is a *share* of the link rates of the measured machine. `with_shares` writes it into the points; the share
of a point is not derived again, so that an edited link keeps its share and changes its rate.

A call uses the point of its own operation nearest in nodes and members per node (on a log scale); an operation without
points uses those of the ring operations (all_reduce, all_gather, reduce_scatter), else of any. The *usable* fraction of
a class is the largest of its points, at most 1. A fraction above 1 says that fewer bytes move than a ring needs
(reduction in the switch): the port is then full.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

import numpy as np

from hardware_specs.collectives import CalibrationPoint
from hardware_specs.types import Cluster
from inputs.errors import InputError
from simulator.network.blocks import Block
from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Stage, algorithms_of
from simulator.network.library import transport_of
from simulator.network.load import LinkFractions, full_rate_seconds, links_per_hop, mesh_share, port_bytes
from simulator.network.membership import blocks_of
from simulator.network.topology import Topology
from simulator.operators import CollectiveOp

LinkClass = Literal["near", "nic"]
LARGEST_SHARE = 3.0
"""Largest share of the links' rate that a point may say: 2 where switches add, because half of the bytes move then
(an all_reduce of many ranks), 1.49 in the shipped points; beyond, rate of the link and measurement contradict."""
RING_OPS: tuple[CollectiveOp, ...] = ("all_reduce", "all_gather", "reduce_scatter")


@dataclass(frozen=True, slots=True)
class Fraction:
    """Information of one calibration point about one link class."""

    point: CalibrationPoint
    link: LinkClass
    value: float

    def distance(self, nodes: int, local_size: int) -> float:
        """Distance of a call on so many nodes and members per node, in octaves."""
        per_node = min(self.point.ranks, self.point.ranks_per_node)
        return abs(math.log2(nodes / self.point.nodes)) + abs(math.log2(local_size / per_node))


@dataclass(frozen=True, slots=True)
class Calibration:
    """The fractions of a cluster, see the module."""

    fractions: tuple[Fraction, ...] = field(default=())
    fitted: Mapping[LinkClass, Mapping[str, float]] | None = None

    def usable(self, link: LinkClass) -> float:
        """Share of the class's capacity that exists for all traffic together; 1 without points."""
        values = [f.value for f in self.fractions if f.link == link]
        if self.fitted is not None:
            values = list(self.fitted[link].values())
        return min(1.0, max(values, default=1.0))

    def nearest(self, op: CollectiveOp, link: LinkClass, nodes: int, local_size: int) -> Fraction | None:
        """The point that a call uses, or None when the class has none."""
        known = [f for f in self.fractions if f.link == link]
        for ops in ((op,), RING_OPS, tuple({f.point.op for f in known})):
            candidates = [f for f in known if f.point.op in ops]
            if candidates:
                return min(candidates, key=lambda f: f.distance(nodes, local_size))
        return None

    def link_fractions(self, op: CollectiveOp, link: LinkClass, nodes: int, local_size: int) -> LinkFractions:
        """Reached and usable fraction of a class for a call; 1 and 1 without points."""
        if self.fitted is not None:
            return LinkFractions(_of_operation(self.fitted[link], op), self.usable(link))
        found = self.nearest(op, link, nodes, local_size)
        return LinkFractions(found.value if found else 1.0, self.usable(link))

    def outside_range(self, op: CollectiveOp, nodes: int, local_size: int) -> list[str]:
        """Why a call is outside the calibration points its link class has; empty when it is inside."""
        link: LinkClass = "near" if nodes == 1 else "nic"
        if self.fitted is not None:
            return [] if op in self.fitted[link] else [f"{op}: no measurement of its own in the fit of this fabric"]
        found = self.nearest(op, link, nodes, local_size)
        where = "inside a node" if nodes == 1 else "between nodes"
        if found is None:
            return [f"{op} {where}: no calibration point, links count at their full rate"]
        if found.point.op != op:
            return [f"{op} {where}: no calibration point of its own, takes the link fraction of {found.point.op}"]
        if nodes > found.point.nodes:
            return [f"{op} over {nodes} nodes: link fraction derived at {found.point.nodes}"]
        return []


def _of_operation(fractions: Mapping[str, float], op: CollectiveOp) -> float:
    """The fraction of an operation; of the ring operations, or of any, where it has none; 1 without any."""
    for ops in ((op,), RING_OPS, tuple(fractions)):
        known = [fractions[name] for name in ops if name in fractions]
        if known:
            return min(known)
    return 1.0


def calibrate(cluster: Cluster) -> Calibration:
    """Take the fractions of ``cluster.fitted``, or derive them from ``cluster.calibration``, one node first.

    Raises:
        InputError: no algorithm can be as fast as a point says, or the links cannot.
    """
    if cluster.fitted is not None:
        near = {str(op): fraction.value for op, fraction in cluster.fitted.near_fraction.items()}
        far = {str(op): fraction.value for op, fraction in cluster.fitted.network_fraction.items()}
        return Calibration(fitted={"near": near, "nic": far})
    calibration = Calibration()
    for point in sorted(cluster.calibration, key=lambda p: p.nodes):
        link: LinkClass = "near" if point.nodes == 1 else "nic"
        value = _fraction(cluster, point, link, calibration) if point.share is None else point.share
        _require_possible(point, link, value)
        calibration = Calibration((*calibration.fractions, Fraction(point, link, value)))
    return calibration


def with_shares(cluster: Cluster) -> Cluster:
    """The cluster with the share of each calibration point written out, so that edits of its links scale.

    Raises:
        InputError: as `calibrate`.
    """
    if cluster.fitted is not None or all(point.share is not None for point in cluster.calibration):
        return cluster
    share = {fraction.point.shape: fraction.value for fraction in calibrate(cluster).fractions}
    points = tuple(point.model_copy(update={"share": share[point.shape]}) for point in cluster.calibration)
    return cluster.model_copy(update={"calibration": points})


def _fraction(cluster: Cluster, point: CalibrationPoint, link: LinkClass, known: Calibration) -> float:
    """The smallest f(a, p) of the module's formula."""
    time_s = cast(float, point.time_s)  # a point without a share has a rate
    topology, block = point_block(cluster, point)
    call = Call(point.op, block, np.full((1, 1), float(point.bytes)))
    transport = transport_of(cluster)
    near = known.link_fractions(point.op, "near", block.node_count, block.local_size)
    values = []
    for algorithm in transport.chosen_from(call, [a for a in possible(cluster, point.op) if a.applies(block)]):
        stages = algorithm.stages(call)
        if len(stages) != 1:
            continue
        full_s = _full_rate_s(stages[0], block, topology)
        full_s["near"] /= mesh_share(stages[0].pattern, block, topology) * stages[0].near_efficiency
        links = links_per_hop(stages[0].pattern, block, topology)
        for (way,) in transport.ways(algorithm, call, stages).values():
            latency_s = transport.seconds(stages[0].latency, way.protocol, links)
            left_s = time_s - latency_s - float(np.max(transport.copy_seconds(way.touched_bytes)))
            # The links inside a node work beside the NICs and must not decide the time.
            beside_s = full_s["near"] / (near.reached * way.efficiency) if link == "nic" else 0.0
            posts_s = transport.posting_seconds(stages[0].latency, way.protocol)
            if left_s > max(beside_s, posts_s, way.least_s) and full_s[link] > 0.0:
                values.append(full_s[link] / (way.efficiency * left_s))
    if not values:
        raise InputError(
            "no algorithm of the collectives library is as fast as this calibration point says",
            key=f"calibration ({point.op}, {point.ranks} ranks)",
            given=f"{point.bytes:.0f} B in {time_s * 1e6:.1f} us",
            expected="more than the latency and the NVLink time of the collective",
        )
    return min(values)


def _require_possible(point: CalibrationPoint, link: LinkClass, share: float) -> None:
    """Check that a measured rate is one that the links have.

    Raises:
        InputError: the point and the rate of the links contradict each other.
    """
    if share > LARGEST_SHARE:
        links = "inside a node" if link == "near" else "between nodes"
        raise InputError(
            f"the links {links} would carry {share:,.3g} times their own rate for this calibration point",
            key=f"calibration ({point.op}, {point.ranks} ranks)",
            given=f"algbw_bytes_per_s: {point.algbw_bytes_per_s or 0.0:,.3g} B/s",
            expected=f"at most {LARGEST_SHARE:g} times the rate of the links as the cluster describes them",
        )


def possible(cluster: Cluster, op: CollectiveOp) -> list[CollectiveAlgorithm]:
    """The algorithms that run on the cluster's switches and fabric."""
    return [algorithm for algorithm in algorithms_of(op) if algorithm.runs_on(cluster)]


def _full_rate_s(stage: Stage, block: Block, topology: Topology) -> dict[LinkClass, float]:
    """Seconds of the busiest link inside a node and of the busiest NIC or torus link at the full rate."""
    found = full_rate_seconds(port_bytes(stage, block, topology), topology.rates)
    seconds = {name: float(value.max()) for name, value in found.items()}
    near_s = max((seconds.get(name, 0.0) for name in topology.near_classes), default=0.0)
    return {"near": near_s, "nic": max(seconds.get("nic", 0.0), seconds.get("torus", 0.0))}


def point_block(cluster: Cluster, point: CalibrationPoint) -> tuple[Topology, Block]:
    """The ranks of a calibration point: ``ranks_per_node`` on each node."""
    gpus = cluster.node.ranks
    topology = Topology.build(cluster, point.nodes * gpus)
    rank = np.arange(topology.world_size)
    taking_part = (rank % gpus < point.ranks_per_node) & (rank // gpus < point.nodes)
    instance = np.where(taking_part, 0, -1)
    instance[np.flatnonzero(taking_part)[point.ranks :]] = -1
    return topology, blocks_of(instance, topology)[0]

"""Achievable link fractions, derived in closed form from a cluster's calibration points.

A point says that an operation of S bytes took t = S / algbw. For each algorithm a and protocol p the library may
choose there, with latency ``alpha`` and ``x`` seconds of traffic at the full rate of the link class in question
(NVLink for a point inside one node, NIC for one over several):

    f(a, p) = max over branches b of k(b) x(a, p) / (efficiency(a, p) x (t - alpha(b)))

is the fraction at which (a, p) takes exactly t: the branches are those of `simulator.network.pipeline`, k and alpha
what they take for each second of the link, and beside it. The library takes the fastest, and time falls as f grows, so
the fraction is the smallest f(a, p): the chosen one takes t, all others as long or longer. Each point is reproduced.

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
from dataclasses import dataclass, field, replace
from typing import Literal, cast

import numpy as np

from hardware_specs.collectives import CalibrationPoint, Shares
from hardware_specs.types import Cluster
from inputs.errors import InputError
from simulator.collective_calls import CollectiveOp
from simulator.network.blocks import Block
from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Stage, algorithms_of
from simulator.network.levels import ResourceClass
from simulator.network.library import transport_of
from simulator.network.load import LinkFractions, full_rate_seconds, links_per_hop, mesh_share, port_bytes
from simulator.network.membership import blocks_of
from simulator.network.peers import peer_shares
from simulator.network.topology import Topology
from simulator.network.transport import Transport, Way

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
    """The fractions of a cluster, see the module.

    Attributes:
        fractions: fractions of the calibration points.
        fitted: fractions by algorithm or operation of the link classes that were fitted.
        together: share of both classes that is left where both are busy.
        ll: share of the bandwidth of LL that is left between nodes.
        span: exponent of the number of nodes by which fractions of links between nodes fall, for all but rings.
        fitted_nodes: most nodes of a fitted row; None where that is not stated.
    """

    fractions: tuple[Fraction, ...] = field(default=())
    fitted: Mapping[LinkClass, Mapping[str, float]] = field(default_factory=dict)
    together: float = 1.0
    ll: float = 1.0
    span: float = 0.0
    fitted_nodes: int | None = None

    def usable(self, link: LinkClass) -> float:
        """Share of the class's capacity that exists for all traffic together; 1 without points."""
        values = [f.value for f in self.fractions if f.link == link]
        if link in self.fitted:
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

    def link_fractions(
        self, op: CollectiveOp, shares: Shares, link: LinkClass, nodes: int, local_size: int
    ) -> LinkFractions:
        """Reached and usable fraction of a class for a call by an algorithm; 1 and 1 without points."""
        if link in self.fitted:
            return LinkFractions(self._of_algorithm(op, shares, link, nodes, local_size), self.usable(link))
        found = self.nearest(op, link, nodes, local_size)
        return LinkFractions(found.value if found else 1.0, self.usable(link))

    def _of_algorithm(self, op: CollectiveOp, shares: Shares, link: LinkClass, nodes: int, local_size: int) -> float:
        """The fraction of an algorithm or operation; of rings, or the least of any, where it has none of its own."""
        fractions = self.fitted[link]
        names: tuple[tuple[str, ...], ...] = ((shares,), (op,), ("ring",), RING_OPS, tuple(fractions))
        own = next(min(fractions[n] for n in some if n in fractions) for some in names if set(some) & set(fractions))
        both = self.together if nodes > 1 and local_size > 1 else 1.0
        far = nodes**-self.span if link == "nic" and shares != "ring" else 1.0
        return own * both * far

    def outside_range(self, op: CollectiveOp, shares: Shares, nodes: int, local_size: int) -> list[str]:
        """Why a call is outside the calibration points its link class has; empty when it is inside."""
        link: LinkClass = "near" if nodes == 1 else "nic"
        where = "inside a node" if nodes == 1 else "between nodes"
        if link in self.fitted:
            known = shares in self.fitted[link] or op in self.fitted[link]
            far = self.fitted_nodes is not None and nodes > self.fitted_nodes
            more = [f"{op} over {nodes} nodes: fitted on {self.fitted_nodes}"] if far else []
            return more if known else [f"{op} {where}: no {shares} algorithm was measured in the fit of this fabric"]
        found = self.nearest(op, link, nodes, local_size)
        if found is None:
            return [f"{op} {where}: no calibration point, links count at their full rate"]
        if found.point.op != op:
            return [f"{op} {where}: no calibration point of its own, takes the link fraction of {found.point.op}"]
        if nodes > found.point.nodes:
            return [f"{op} over {nodes} nodes: link fraction derived at {found.point.nodes}"]
        return []


def calibrate(cluster: Cluster) -> Calibration:
    """Take the fractions of ``cluster.fitted``, or derive them from ``cluster.calibration``, one node first.

    Raises:
        InputError: no algorithm can be as fast as a point says, or the links cannot.
    """
    calibration = _fitted(cluster)
    for point in sorted(cluster.calibration, key=lambda p: p.nodes):
        link: LinkClass = "near" if point.nodes == 1 else "nic"
        if link not in calibration.fitted:
            value = _fraction(cluster, point, link, calibration) if point.share is None else point.share
            _require_possible(point, link, value)
            calibration = replace(calibration, fractions=(*calibration.fractions, Fraction(point, link, value)))
    return calibration


def _fitted(cluster: Cluster) -> Calibration:
    """Calibration by the cluster's fit, without its points."""
    fit = cluster.fitted
    if fit is None:
        return Calibration()
    near = {str(name): share.value for name, share in fit.near_fraction.items()}
    far = {str(name): share.value for name, share in fit.network_fraction.items()}
    both: dict[LinkClass, Mapping[str, float]] = {"near": near, "nic": far}
    return Calibration(
        fitted={link: shares for link, shares in both.items() if shares},
        together=1.0 if fit.together_fraction is None else fit.together_fraction.value,
        ll=1.0 if fit.ll_fraction is None else fit.ll_fraction.value,
        span=0.0 if fit.span_exponent is None else fit.span_exponent.value,
        fitted_nodes=None if fit.rows is None else int(fit.rows.nodes),
    )


def with_shares(cluster: Cluster) -> Cluster:
    """The cluster with the share of each calibration point written out, so that edits of its links scale.

    Raises:
        InputError: as `calibrate`.
    """
    if all(point.share is not None for point in cluster.calibration):
        return cluster
    unfitted = cluster.model_copy(update={"fitted": None})
    share = {fraction.point.shape: fraction.value for fraction in calibrate(unfitted).fractions}
    points = tuple(point.model_copy(update={"share": share[point.shape]}) for point in cluster.calibration)
    return cluster.model_copy(update={"calibration": points})


def _fraction(cluster: Cluster, point: CalibrationPoint, link: LinkClass, known: Calibration) -> float:
    """The smallest f(a, p) of the module's formula."""
    time_s = cast(float, point.time_s)  # a point without a share has a rate
    topology, block = point_block(cluster, point)
    call = Call(point.op, block, np.full((1, 1), float(point.bytes)))
    transport = transport_of(cluster)
    values = []
    for algorithm in transport.chosen_from(call, [a for a in possible(cluster, point.op) if a.applies(block)]):
        stages = algorithm.stages(call)
        if len(stages) != 1:
            continue
        near = known.link_fractions(point.op, algorithm.shares, "near", block.node_count, block.local_size)
        peers = peer_shares(cluster.node, algorithm.shares, block.local_size, block.node_count)
        full_s = _full_rate_s(stages[0], block, topology, peers)
        full_s["near"] /= mesh_share(stages[0].pattern, block, topology) * stages[0].near_efficiency
        links = links_per_hop(stages[0].pattern, block, topology)
        for (way,) in transport.ways(algorithm, call, stages).values():
            # The links inside a node work beside the NICs and must not decide the time.
            beside_s = full_s["near"] / (near.reached * way.efficiency) if link == "nic" else 0.0
            value = _share(transport, stages[0], way, links, full_s[link] / way.efficiency, beside_s, time_s)
            if value is not None:
                values.append(value)
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


def _share(
    transport: Transport, stage: Stage, way: Way, links: int, full_s: float, beside_s: float, time_s: float
) -> float | None:
    """Share of the link at which the stage takes ``time_s``; None where it cannot.

    Args:
        full_s: seconds of the link in question at its full rate.
        beside_s: seconds of the links inside a node, where those between nodes are in question.
    """
    latency, pipeline = stage.latency, way.pipeline
    start_s = transport.start_seconds(latency, way.protocol)
    hops_s = transport.hop_seconds(latency, way.protocol, links, pipeline.piece_bytes)
    copy_s = float(np.max(transport.copy_seconds(way.touched_bytes) + way.kernels_s))
    least_s = max(
        transport.posting_seconds(latency, way.protocol),
        way.least_s,
        pipeline.waits * transport.wait_seconds(latency, way.protocol, links),
        beside_s,
    )
    left_s = time_s - start_s - copy_s
    own = pipeline.network if beside_s else pipeline.near
    hidden_s = left_s - (transport.own_seconds(latency, way.protocol) if pipeline.hides else hops_s)
    path_s = left_s - pipeline.rounds * hops_s - (pipeline.near * beside_s)
    each = own + pipeline.transfer
    if hidden_s <= least_s or path_s <= each * beside_s or full_s <= 0.0:
        return None
    return max(full_s / hidden_s, each * full_s / path_s)


def possible(cluster: Cluster, op: CollectiveOp) -> list[CollectiveAlgorithm]:
    """The algorithms that run on the cluster's switches and fabric."""
    return [algorithm for algorithm in algorithms_of(op) if algorithm.runs_on(cluster)]


def _full_rate_s(
    stage: Stage, block: Block, topology: Topology, peers: Mapping[ResourceClass, float]
) -> dict[LinkClass, float]:
    """Seconds of the busiest link inside a node and of the busiest NIC or torus link at the full rate."""
    found = full_rate_seconds(port_bytes(stage, block, topology), topology.rates)
    seconds = {name: float(value.max()) / peers.get(name, 1.0) for name, value in found.items()}
    near_s = max((seconds.get(name, 0.0) for name in topology.near_classes), default=0.0)
    return {"near": near_s, "nic": max(seconds.get("nic", 0.0), seconds.get("torus", 0.0))}


def point_block(cluster: Cluster, point: CalibrationPoint) -> tuple[Topology, Block]:
    """The ranks of a calibration point: ``ranks_per_node`` on each node, all nodes in one site."""
    gpus = cluster.node.ranks
    topology = Topology.build(cluster.of_one_site(), point.nodes * gpus)
    rank = np.arange(topology.world_size)
    taking_part = (rank % gpus < point.ranks_per_node) & (rank // gpus < point.nodes)
    instance = np.where(taking_part, 0, -1)
    instance[np.flatnonzero(taking_part)[point.ranks :]] = -1
    return topology, blocks_of(instance, topology)[0]

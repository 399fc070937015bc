"""Uncertainty of the share of a link's rate that a collective reaches: all that is taken from a calibration.

A share is derived from a measured point, or fitted. It is the less certain the further the call is from what was
measured: more nodes, another operation, no measurement at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hardware_specs.types import Cluster
from inputs.sourced import Sourced
from scenarios.uncertainty.constant import SIGMA, Constant
from scenarios.uncertainty.usage import CallUse
from simulator.network.calibration import Calibration, LinkClass
from simulator.network.collectives import ALGORITHMS

NORMAL_MEDIAN = 0.6745
"""Median of the absolute value of a standard normal variable: a median error over this is a standard deviation."""

PER_DOUBLING = 0.08
"""Standard deviation of a share for each doubling of nodes beyond the measured ones (Polaris, 1 GiB: all_reduce loses
14 % of its rate from 8 to 256 nodes, all_to_all over a half to 540: 2 to 12 % a doubling)."""

PER_DOUBLING_INSIDE = 0.25
"""Standard deviation of a fitted share for each doubling of members of a node beyond the fitted ones: fits of 2 and 4
B200 are off by a median of 17 % on 8 from 1 MiB on."""

OTHER_OPERATION = 0.15
"""Standard deviation where the share of another operation is taken (fitted shares of one fabric, inside a node: 0.59 to
0.74 on B200, 0.65 to 0.86 on H100; judged)."""

UNMEASURED = 0.30
"""Standard deviation where no share was measured and links count at their full rate (judged: most fitted shares are 0.5
to 1, single ones down to 0.2)."""

UNSTATED_FIT = 0.10
"""Standard deviation of a fitted share whose rows are not stated: the median over the shipped fits."""


def share_of(cluster: Cluster, calibration: Calibration, call: CallUse, link: LinkClass) -> Constant:
    """The share of a call on links inside nodes (``near``) or between them (``nic``), with its uncertainty."""
    measure = _measure(cluster, call, link)
    if link in calibration.fitted:
        return _fitted(cluster, calibration.fitted[link], call, link, measure)
    found = calibration.nearest(call.op, link, call.nodes, call.local_size)
    if found is None:
        where = "inside a node" if link == "near" else "between nodes"
        reason = f"nothing was measured {where}: links count at their full rate"
        return Constant(f"cluster.calibration ({where})", "assumed", UNMEASURED, reason, measure)
    point = found.point
    key = f"cluster.calibration ({point.op}, {point.ranks} ranks on {point.nodes} nodes)"
    words = "measured" if point.grade in ("read", "secondary") else f"{point.grade}: {point.note or point.source}"
    constant = Constant(key, point.grade, SIGMA[point.grade], words, measure)
    if point.op != call.op:
        constant = constant.widened(OTHER_OPERATION, f"taken for {call.op}, which has no point of its own")
    if link == "nic":
        constant = _further(constant, call.nodes, point.nodes)
    return constant


def _fitted(cluster: Cluster, shares: Mapping[str, float], call: CallUse, link: LinkClass, measure: str) -> Constant:
    """The share of a fit, by algorithm or operation; the errors of its rows are its error at one size."""
    fit = cluster.fitted
    name = "near_fraction" if link == "near" else "network_fraction"
    key = f"{call.op}/{call.algorithm}"
    by_algorithm = ALGORITHMS.get(key).shares if key in ALGORITHMS else "ring"
    own = by_algorithm if by_algorithm in shares or call.op not in shares else call.op
    values = {} if fit is None else getattr(fit, name)
    known = next((values[key] for key in (own, "ring") if key in values), next(iter(values.values()), None))
    constant = fitted_constant(f"cluster.fitted.{name}.{own}", cluster, known, measure)
    if own not in shares:
        constant = constant.widened(OTHER_OPERATION, f"no {own} algorithm was among the fitted collectives")
    if link == "nic":
        return _further(constant, call.nodes, measured_nodes(cluster))
    fitted = call.local_size if fit is None or fit.rows is None else int(fit.rows.node_ranks)
    if call.local_size <= fitted:
        return constant
    sigma = PER_DOUBLING_INSIDE * math.log2(call.local_size / fitted)
    return constant.widened(sigma, f"fitted on {fitted} members of a node, here {call.local_size}")


def _further(constant: Constant, nodes: int, measured: int) -> Constant:
    """The constant on more nodes than were measured."""
    if nodes <= measured:
        return constant
    return constant.widened(PER_DOUBLING * math.log2(nodes / measured), f"measured on {measured} nodes, here {nodes}")


def fitted_constant(key: str, cluster: Cluster, value: Sourced[float] | None, measure: str) -> Constant:
    """A value of a cluster's fit: as sure as the fit's rows are near; assumed where it was carried over."""
    rows = None if cluster.fitted is None else cluster.fitted.rows
    sigma = UNSTATED_FIT if rows is None else rows.median_error_pct / 100.0 / NORMAL_MEDIAN
    constant = Constant(key, "derived", sigma, "fitted" if rows is None else f"fitted, {rows}", measure)
    if value is None or value.grade != "assumed":
        return constant
    carried = replace(constant, grade="assumed", reason=f"assumed: {value.source}")
    return carried.widened(SIGMA["secondary"], "carried over")


def measured_nodes(cluster: Cluster) -> int:
    """Most nodes on which a collective of this machine was measured; 1 without any."""
    if cluster.fitted is not None and cluster.fitted.rows is not None:
        return int(cluster.fitted.rows.nodes)
    return max((point.nodes for point in cluster.calibration if point.grade != "assumed"), default=1)


def measured_ops(cluster: Cluster, *, nodes: int) -> Sequence[str]:
    """Operations with a small message measured inside a node (``nodes`` 1) or between nodes."""
    return [point.op for point in cluster.latency_points if (point.nodes == 1) is (nodes == 1)]


MPI = ("cray_mpich", "intel_mpi", "mpich", "mvapich2", "open_mpi")
"""Libraries that run programs of MPI."""

NCCL_TESTS = {"all_to_all": "alltoall", "barrier": "all_reduce", "send": "sendrecv"}
"""Names of nccl-tests that differ from the operation's; a barrier and a message, which have none, have others."""

OSU = {
    "all_reduce": "allreduce", "all_gather": "allgather", "all_to_all": "alltoall", "broadcast": "bcast",
    "sendrecv": "latency", "send": "latency",
}  # fmt: skip
"""Names of OSU micro-benchmarks that differ from the operation's."""


def measured_by(cluster: Cluster, call: CallUse, ranks: int, nodes: int, sizes: tuple[str, str]) -> str:
    """The run that measures a call, by the benchmark of the library that carries it.

    Args:
        sizes: smallest and largest message, with binary prefixes of one letter.
    """
    library, (low, high) = cluster.collectives, sizes
    where = f"{nodes} node{'s' if nodes > 1 else ''}"
    calibrated = f"dlrmsim calibrate collectives FILE.csv --cluster {cluster.name}"
    if library.nccl is not None and not call.straight:
        test = f"{NCCL_TESTS.get(call.op, call.op)}_perf -b {low} -e {high} -f 2"
        start = f"{test} -g {ranks}" if nodes == 1 else f"mpirun -np {ranks} {test} -g 1"
        return f"{start} > LOG; dlrmsim calibrate collectives LOG --cluster {cluster.name}"
    if library.nccl is not None:
        return f"{call.op} by messages between the hosts of {where}, {low} to {high}; {calibrated}"
    if library.name in MPI:
        return f"mpirun -np {ranks} osu_{OSU.get(call.op, call.op)} on {where}, {low} to {high}; {calibrated}"
    return f"{call.op} by {library.name} on {where}, {low} to {high}; {calibrated}"


def _measure(cluster: Cluster, call: CallUse, link: LinkClass) -> str:
    """The run and the calibration that measure a share."""
    nodes = 1 if link == "near" else call.nodes
    ranks = min(call.ranks, cluster.node.ranks) if link == "near" else call.ranks
    return f"{measured_by(cluster, call, ranks, nodes, ('1K', '4G'))} --out FILE"

"""Fitting a fabric's few physical parameters to measured collectives.

What is fitted (`validation.fits.parameters`): the share of their links that each kind of algorithm reaches, inside a
node and between nodes; what is left of both where both are busy, and the exponent by which links between nodes lose
with their number; a factor on the library's latency constants (base, hop inside a node, hop between nodes, cost of
posting a message); the rate at which a kernel copies a member's own part; and for each source the overhead of its
method on everything it timed. All sizes and numbers of ranks share them. Minimised are the logarithms of predicted over
measured, with a loss that grows linearly beyond 10 %, so that a few odd rows do not bend the whole. A factor is drawn
to 1, the library's own constant, with the weight of one row that is off by a factor of e: where the rows say nothing,
it stays there. Every parameter has a physical range, beyond which no fit goes.

NCCL's protocols between nodes are a discrete choice: those of the spec, or fewer where these fit clearly better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardware_specs.collectives import FittedCollectives, FittedRows
from hardware_specs.fabric import NcclProtocol
from hardware_specs.types import Cluster
from inputs.errors import InputError
from inputs.sourced import Sourced
from scenarios.progress import Progress, Silent
from simulator.network.call_table import CallTable
from simulator.operators import FloatArray
from validation.fits.least_squares import fitted_logs
from validation.fits.parameters import Group, Parameters
from validation.suites.collectives import MeasuredCollective, Predictor

Choice = tuple[tuple[NcclProtocol, ...], tuple[NcclProtocol, ...]]
PROTOCOLS: tuple[Choice, ...] = (
    (("ll", "simple"), ("ll", "simple")),
    (("ll", "simple"), ("simple",)),
    (("simple",), ("simple",)),
)
"""Protocols that libfabric's plugins leave of LL, LL128 and Simple; of rings second."""
CLEARLY = 0.9
"""Fewer protocols are taken where they leave less than this share of the error."""


@dataclass(frozen=True, slots=True)
class FabricFit:
    """A fabric with its fit.

    Attributes:
        cluster: the machine with the fit, and its protocols where these were chosen.
        cost: remaining error, as the optimiser counts it.
    """

    cluster: Cluster
    fitted: FittedCollectives
    cost: float

    @property
    def protocols(self) -> str:
        """Protocols between nodes in words; empty where all of the library's run."""
        fabric = self.cluster.fabric
        if fabric.protocols is None:
            return ""
        rings = fabric.ring_protocols or fabric.protocols
        return f"{', '.join(fabric.protocols.value)}; rings {', '.join(rings.value)}"


def fit_collectives(
    cluster: Cluster,
    rows: Sequence[MeasuredCollective],
    note: str,
    progress: Progress | None = None,
    *,
    launches: bool = True,
) -> FittedCollectives:
    """The parameters that fit ``rows`` best, with the protocols of the spec; see `fit_fabric`."""
    return _fit(cluster, rows, note, progress or Silent(), launches=launches).fitted


def fit_fabric(
    cluster: Cluster, rows: Sequence[MeasuredCollective], note: str, progress: Progress | None = None
) -> FabricFit:
    """The parameters and protocols that fit ``rows`` best.

    Args:
        cluster: the machine; its own points and fit are not used.
        rows: measurements on it.
        note: origin of the rows, for the ``source`` of every value.
        progress: shows the number of predictions of all rows.

    Raises:
        InputError: there are no rows, or a row does not fit on the machine.
    """
    shown = progress or Silent()
    found = _fit(cluster, rows, note, shown, launches=True)
    if cluster.collectives.nccl is None or cluster.fabric.protocols or all(row.nodes == 1 for row in rows):
        return found
    for choice in PROTOCOLS:
        if set(choice[0]) < set(cluster.collectives.nccl.protocols):
            other = _fit(_with_protocols(cluster, choice, note), rows, note, shown, launches=True)
            if other.cost < CLEARLY * found.cost:
                found = other
    return found


def _with_protocols(cluster: Cluster, choice: Choice, note: str) -> Cluster:
    """The cluster with so many protocols between nodes."""
    chosen = {
        key: Sourced[tuple[NcclProtocol, ...]](value=protocols, source=note, grade="derived", note="the best fit")
        for key, protocols in zip(("protocols", "ring_protocols"), choice, strict=True)
    }
    return cluster.model_copy(update={"fabric": cluster.fabric.model_copy(update=chosen)})


def _fit(
    cluster: Cluster, rows: Sequence[MeasuredCollective], note: str, shown: Progress, *, launches: bool
) -> FabricFit:
    """The parameters that fit the rows best."""
    if not rows:
        raise InputError("nothing to fit", expected="at least one measured collective")
    free = cluster.model_copy(update={"fitted": None})
    table = Predictor(free).table(rows)
    parameters = Parameters.of(cluster, rows, table.kinds, note, launches=launches)
    measured = np.log([row.time_s for row in rows])

    def errors(vector: FloatArray) -> FloatArray:
        predicted_s = table.seconds(free.model_copy(update={"fitted": parameters.fit_of(vector)}))
        off: FloatArray = np.log(predicted_s + parameters.launches_s(vector, rows)) - measured
        return off

    start, low, high = parameters.bounds
    found = fitted_logs(
        errors,
        start,
        drawn=parameters.drawn,
        lowest=low,
        highest=high,
        on_evaluation=lambda number: shown.stage(f"fitting {len(rows)} rows, evaluation {number}"),
    )
    off = np.abs(100.0 * np.expm1(errors(found.logs)))
    used = FittedRows(
        number=len(rows),
        nodes=max(row.nodes for row in rows),
        node_ranks=max(row.ranks_per_node for row in rows),
        median_error_pct=round(float(np.median(off)), 1),
        worst_error_pct=round(float(off.max())),
    )
    whole = free.model_copy(update={"fitted": parameters.fit_of(found.logs)})
    fitted = parameters.fit_of(found.logs, _used(table, whole)).model_copy(update={"rows": used})
    return FabricFit(cluster.model_copy(update={"fitted": fitted}), fitted, found.cost)


def _used(table: CallTable, cluster: Cluster) -> set[tuple[Group, str]]:
    """Shares of the algorithms that the fitted rows run; the rows say nothing of others."""
    used: set[tuple[Group, str]] = set()
    for number in np.unique(table.chosen(cluster)).tolist():
        op, shares, nodes, local = table.kinds[number]
        name = op if cluster.collectives.nccl is None else shares
        used |= {("near", name)} if local > 1 else set()
        used |= {("far", name)} if nodes > 1 else set()
    return used

"""Fitting a fabric's few physical parameters to measured collectives.

What is fitted: the share of their links that each operation reaches, inside a node and between nodes; a factor on the
library's latency constants (base, hop inside a node, hop between nodes, cost of posting a message); the rate at which
a kernel copies a member's own part; and for each source the overhead of its method on everything it timed. All sizes
and numbers of ranks share them. Minimised are the logarithms of predicted over measured, with a loss that grows
linearly beyond 10 %, so that a few odd rows do not bend the whole. A factor is drawn to 1, the library's own constant,
with the weight of one row that is off by a factor of e: where the rows say nothing, it stays there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hardware_specs.collectives import FittedCollectives
from hardware_specs.library import Operation
from hardware_specs.types import Cluster
from inputs.errors import InputError
from scenarios.progress import Progress, Silent
from simulator.operators import FloatArray
from validation.fits.least_squares import fitted_logs
from validation.suites.collectives import MeasuredCollective, Predictor

FACTORS = ("base_factor", "near_hop_factor", "network_hop_factor", "post_factor")
LAUNCH_START_S = 1e-6
HOW = "least squares of logarithms over all rows together"


@dataclass(frozen=True, slots=True)
class _Parameters:
    """Names of the fitted quantities, in the order of the vector of their logarithms."""

    near: tuple[Operation, ...]
    far: tuple[Operation, ...]
    sources: tuple[str, ...]
    copy_bytes_per_s: float

    @staticmethod
    def of(cluster: Cluster, rows: Sequence[MeasuredCollective]) -> _Parameters:
        """Parameters that the rows depend on."""
        near = sorted({row.op for row in rows if row.nodes == 1})
        far = sorted({row.op for row in rows if row.nodes > 1})
        return _Parameters(tuple(near), tuple(far), tuple(sorted({row.source for row in rows})), _copy_rate(cluster))

    @property
    def start(self) -> FloatArray:
        """Fractions of 0.8, the library's own latencies, copies at the memory's rate, a microsecond of launch."""
        fractions = np.full(len(self.near) + len(self.far), np.log(0.8))
        launch = np.full(len(self.sources), np.log(LAUNCH_START_S))
        return np.concatenate([fractions, np.zeros(len(FACTORS)), [np.log(self.copy_bytes_per_s)], launch])

    def fit_of(self, logs: FloatArray, note: str) -> FittedCollectives:
        """The spec's block for a vector of logarithms."""
        values = np.exp(logs)
        cuts = np.cumsum([len(self.near), len(self.far), len(FACTORS), 1])
        near, far, factors, copy, launch = np.split(values, cuts)

        def entry(value: float, unit: str = "") -> dict[str, object]:
            text = f"{float(value)!r} {unit}" if unit else float(value)
            return {"value": text, "source": note, "grade": "derived", "note": HOW}

        return FittedCollectives.model_validate(
            {
                "near_fraction": dict(zip(self.near, map(entry, near), strict=True)),
                "network_fraction": dict(zip(self.far, map(entry, far), strict=True)),
                **dict(zip(FACTORS, map(entry, factors), strict=True)),
                "copy_bytes_per_s": entry(copy[0], "B/s"),
                "launch_s": {source: entry(value, "s") for source, value in zip(self.sources, launch, strict=True)},
            }
        )


def _copy_rate(cluster: Cluster) -> float:
    """Rate at which a member's own part is copied, B/s: by a kernel, or by a thread of the host."""
    if cluster.collectives.messages is not None:
        return cluster.collectives.messages.copy_bytes_per_s.value
    gpu = cluster.node.accelerator
    return gpu.memory_bytes_per_s.value * gpu.achieved.stream_fraction.value / 2  # read and written


def fit_collectives(
    cluster: Cluster,
    rows: Sequence[MeasuredCollective],
    note: str,
    progress: Progress | None = None,
    *,
    launches: bool = True,
) -> FittedCollectives:
    """The parameters that fit ``rows`` best.

    Args:
        cluster: the machine; its own points and fit are not used.
        rows: measurements on it.
        note: origin of the rows, for the ``source`` of every value.
        progress: shows the number of predictions of all rows.
        launches: whether the method of each source adds something to everything it timed.

    Raises:
        InputError: there are no rows, or a row does not fit on the machine.
    """
    if not rows:
        raise InputError("nothing to fit", expected="at least one measured collective")
    parameters = _Parameters.of(cluster, rows)
    if not launches:
        parameters = replace(parameters, sources=())
    measured = np.log([row.time_s for row in rows])
    table = Predictor(cluster.model_copy(update={"fitted": parameters.fit_of(parameters.start, note)})).table(rows)
    source_of = np.array([parameters.sources.index(row.source) for row in rows if parameters.sources], dtype=np.int64)

    def errors(logs: FloatArray) -> FloatArray:
        predicted_s = table.seconds(cluster.model_copy(update={"fitted": parameters.fit_of(logs, note)}))
        launch_s = np.exp(logs[len(logs) - len(parameters.sources) :])
        added_s = launch_s[source_of] if parameters.sources else 0.0
        off: FloatArray = np.log(predicted_s + added_s) - measured
        return off

    shown = progress or Silent()
    first = len(parameters.near) + len(parameters.far)
    drawn = np.zeros(len(parameters.start), dtype=bool)
    drawn[first : first + len(FACTORS) + 1] = True
    found = fitted_logs(
        errors,
        parameters.start,
        drawn=drawn,
        on_evaluation=lambda number: shown.stage(f"fitting {len(rows)} rows, evaluation {number}"),
    )
    off = np.abs(100.0 * np.expm1(errors(found.logs)))
    nodes = max(row.nodes for row in rows)
    where = "1 node" if nodes == 1 else f"up to {nodes} nodes"
    spread = f"median error {np.median(off):.1f} %, worst {off.max():.0f} %, of {len(rows)} rows on {where}"
    return parameters.fit_of(found.logs, note).model_copy(update={"residuals": spread})

"""``python -m benchmarks choosers [--refit]``: errors with the fastest option, and with what NCCL's tuner takes."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from benchmarks.rows import Row
from hardware_specs import load_cluster
from hardware_specs.types import Cluster
from validation.fits.fitting import fit_collectives
from validation.suites.collective_cases import LARGE_BYTES, measured_points
from validation.suites.collectives import Predictor
from validation.suites.suite import load_suite

SUITES = ("v100_nccl", "nccl_a100", "nccl_h100")
CHOOSERS = ("fastest", "nccl_tuner")


def rows(*, refit: bool) -> Iterator[Row]:
    """Median errors by suite, chooser, role and size; ``refit``: with a fit of the same rows for each chooser."""
    for name in SUITES:
        for chooser in CHOOSERS:
            yield from _medians(name, chooser, refit=refit)


def _medians(name: str, chooser: str, *, refit: bool) -> Iterator[Row]:
    file, suite = load_suite(name)
    (asked,) = suite.collectives
    measured = measured_points(file, asked)
    roles = [suite.role(row.inputs) for row in measured]
    cluster = with_chooser(load_cluster(asked.cluster), chooser)
    if refit:
        fitted_on = [row for row, role in zip(measured, roles, strict=True) if role == "calibration"]
        cluster = cluster.model_copy(update={"fitted": fit_collectives(cluster, fitted_on, "benchmark")})
    predictor = Predictor(cluster)
    errors: dict[str, list[float]] = {}
    for row, role, seconds in zip(measured, roles, predictor.seconds(measured).tolist(), strict=True):
        size = "from_1_MiB" if row.bytes >= LARGE_BYTES else "below_1_MiB"
        off = abs(100.0 * ((seconds + predictor.launch_s(row.source)) / row.time_s - 1.0))
        errors.setdefault(f"{role[:5]}_{size}", []).append(off)
    for group, values in sorted(errors.items()):
        yield Row(f"{name}_{chooser}_{group}", median(values), "% median")


def with_chooser(cluster: Cluster, chooser: str) -> Cluster:
    """The cluster with another way to choose in its library."""
    data = cluster.to_dict()
    data["collectives"]["nccl"]["chooser"] = chooser
    return Cluster.model_validate(data)

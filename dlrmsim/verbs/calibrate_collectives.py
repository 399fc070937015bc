"""``calibrate_collectives``: fit a cluster's fabric to measured collectives and write a cluster spec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlrmsim.output.folders import file_written_whole
from dlrmsim.verbs.what import Name, Names, paths_of
from hardware_specs.collectives import FittedCollectives
from hardware_specs.loader import CATALOGS, load_cluster
from inputs.quantities import format_quantity
from inputs.yaml_lines import load_yaml
from scenarios.progress import Progress, Silent
from traces.nccl_tests import read_timed_collectives
from validation.fits.fitting import FACTORS, fit_collectives
from validation.fits.rules import rows_to_fit
from validation.suites.collective_cases import groups_of
from validation.suites.collectives import MeasuredCollective, Predictor
from validation.suites.errors import error_pct
from validation.suites.thinning import thinned


@dataclass(frozen=True, slots=True)
class CalibrateCollectivesResult:
    """A fit and its errors.

    Attributes:
        file: the spec that was written.
        fitted: the block of the spec.
        groups: statistics of the errors, by role (calibration: fitted on; validation: left out by the rule) and size.
    """

    file: Path
    fitted: FittedCollectives
    groups: Sequence[Mapping[str, object]]


def calibrate_collectives(
    what: Names,
    *,
    cluster: Name,
    rule: str | None = None,
    op: str | None = None,
    out: Name,
    progress: Progress | None = None,
) -> CalibrateCollectivesResult:
    """Fit a cluster's fabric to measured collectives and write the spec.

    Args:
        what: logs of nccl-tests, or CSV (`traces.nccl_tests`).
        cluster: the cluster whose topology and library the fit starts from.
        rule: rows to fit on, such as ``nodes == 1 or ranks_per_node == 1``; all by default.
        op: the operation of logs that do not name it.
        out: YAML file to write; the cluster is named after it.

    Raises:
        InputError: a log, the rule or the cluster is wrong, a row does not fit on it, or ``out`` cannot be written.
    """
    shown, file = progress or Silent(), Path(out)
    shown.stage("reading the measurements")
    machine = load_cluster(cluster)
    timed = [row for log in paths_of(what) for row in read_timed_collectives(log, op)]
    rows = thinned(MeasuredCollective(r.op, r.nodes, r.ranks_per_node, r.bytes, r.time_s, r.source) for r in timed)
    used = rows_to_fit(rows, rule)
    note = f"dlrmsim calibrate collectives: {', '.join(sorted({row.source for row in used}))}"
    fitted = fit_collectives(machine, used, note, shown)
    shown.stage("predicting all rows")
    predictor = Predictor(machine.model_copy(update={"fitted": fitted}))
    cases = [
        {
            "role": "calibration" if row in used else "validation",
            "inputs": row.inputs,
            "error_pct": error_pct(seconds + predictor.launch_s(row.source), row.time_s),
        }
        for row, seconds in zip(rows, predictor.seconds(rows).tolist(), strict=True)
    ]
    file_written_whole(file, _spec(cluster, file.stem, fitted))
    return CalibrateCollectivesResult(file, fitted, groups_of(cases))


def _spec(cluster: Name, name: str, fitted: FittedCollectives) -> str:
    """The cluster's own YAML with another name and the fit in place of its points.

    Shipped parts keep their names; a cluster of the user's is written with all its parts, which may be anywhere.
    """
    import yaml

    shipped = str(cluster) in CATALOGS["cluster"].names()
    data = load_yaml(CATALOGS["cluster"].find(cluster)).data if shipped else load_cluster(cluster).to_dict()
    data = {**data, "name": name, "calibration": [], "fitted": _plain(fitted)}
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120)


def _plain(fitted: FittedCollectives) -> dict[str, Any]:
    """The block as it is written: four significant digits."""

    def entry(value: Any, text: object) -> dict[str, object]:
        return {"value": text, "source": value.source, "grade": value.grade, "note": value.note}

    def ratio(value: Any) -> dict[str, object]:
        return entry(value, float(f"{value.value:.4g}"))

    return {
        "near_fraction": {op: ratio(value) for op, value in fitted.near_fraction.items()},
        "network_fraction": {op: ratio(value) for op, value in fitted.network_fraction.items()},
        **{factor: ratio(getattr(fitted, factor)) for factor in FACTORS},
        "copy_bytes_per_s": entry(fitted.copy_bytes_per_s, f"{fitted.copy_bytes_per_s.value / 1e9:.4g} GB/s"),
        "launch_s": {source: entry(v, f"{round(v.value * 1e6, 2):g} us") for source, v in fitted.launch_s.items()},
        "residuals": fitted.residuals,
    }


def fit_in_words(fitted: FittedCollectives) -> list[tuple[str, str]]:
    """(what, value) of everything fitted, for people."""
    rows = [(f"share of the links inside a node, {op}", f"{v.value:.3f}") for op, v in fitted.near_fraction.items()]
    rows += [(f"share of the network links, {op}", f"{v.value:.3f}") for op, v in fitted.network_fraction.items()]
    rows += [
        (f"{factor.replace('_', ' ')} on the library's latency", f"{getattr(fitted, factor).value:.2f}")
        for factor in FACTORS
    ]
    rows.append(("copy of the own part", format_quantity(fitted.copy_bytes_per_s.value, "bytes_per_s")))
    return rows + [
        (f"launch overhead of {source}", f"{value.value * 1e6:.1f} us") for source, value in fitted.launch_s.items()
    ]

"""``calibrate_collectives``: fit a cluster's fabric to measured collectives and write a cluster spec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlrmsim.output.folders import file_written_whole
from dlrmsim.verbs.what import Name, Names, paths_of
from hardware_specs.collectives import FittedCollectives
from hardware_specs.loader import load_cluster
from scenarios.located import of_file
from scenarios.progress import Progress, Silent
from traces.nccl_tests import read_timed_collectives
from validation.fits.fitting import fit_collectives
from validation.fits.rules import rows_to_fit
from validation.fits.spec_text import cluster_text
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
    with of_file(cluster):
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
    file_written_whole(file, cluster_text(cluster, file.stem, fitted))
    return CalibrateCollectivesResult(file, fitted, groups_of(cases))

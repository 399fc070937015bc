"""``calibrate_collectives``: fit a cluster's fabric to measured collectives and write a cluster spec."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dlrmsim.output.folders import file_written_whole
from dlrmsim.verbs.what import Name, Names, paths_of
from hardware_specs.collectives import FittedCollectives
from hardware_specs.loader import load_cluster
from scenarios.located import of_file
from scenarios.progress import Progress, Silent
from traces.nccl_tests import read_timed_collectives
from validation.fits.fit_report import (
    UnseenWorld,
    cases_of,
    check_shares,
    error_groups,
    left_out,
    remarks_on,
    unseen_world,
)
from validation.fits.fitting import fit_fabric
from validation.fits.rules import rows_to_fit
from validation.fits.spec_text import cluster_text
from validation.suites.collectives import MeasuredCollective
from validation.suites.errors import CollectiveErrors
from validation.suites.thinning import thinned


@dataclass(frozen=True, slots=True)
class CalibrateCollectivesResult:
    """A fit and its errors.

    Attributes:
        file: the spec that was written.
        fitted: the block of the spec.
        groups: statistics of the errors, by role (calibration: fitted on; validation: left out by the rule) and size;
            the launch overhead of a source is taken off its times.
        protocols: NCCL's protocols between nodes, where they are fewer than those of its library.
        remarks: doubtful shares, logs that the fit is far from, and sizes that were left out.
        unseen: errors of the largest world by a fit of the others; None where there is no other.
    """

    file: Path
    fitted: FittedCollectives
    groups: Sequence[CollectiveErrors]
    protocols: str = ""
    remarks: Sequence[str] = ()
    unseen: UnseenWorld | None = None


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
        InputError: a log, the rule or the cluster is wrong, a row does not fit on it, messages were faster than its
            links, or ``out`` cannot be written.
    """
    shown, file = progress or Silent(), Path(out)
    shown.stage("reading the measurements")
    machine = load_cluster(cluster)
    timed = [row for log in paths_of(what) for row in read_timed_collectives(log, op)]
    measured = [MeasuredCollective(r.op, r.nodes, r.ranks_per_node, r.bytes, r.time_s, r.source) for r in timed]
    rows = thinned(measured)
    used = rows_to_fit(rows, rule)
    note = f"dlrmsim calibrate collectives: {', '.join(sorted({row.source for row in used}))}"
    with of_file(cluster):
        fit = fit_fabric(machine, used, note, shown)
    check_shares(fit, used, machine.name)
    shown.stage("predicting all rows")
    cases = cases_of(fit.cluster, rows, used)
    unseen = unseen_world(machine, used, note, shown)
    file_written_whole(file, cluster_text(cluster, file.stem, fit))
    remarks = (*remarks_on(fit.fitted, cases), *left_out(len(timed), rows, measured))
    return CalibrateCollectivesResult(file, fit.fitted, error_groups(cases), fit.protocols, remarks, unseen)

"""Report of a fit of a fabric: errors as a job will see them, doubtful constants, worlds it did not see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from hardware_specs.collectives import FittedCollectives
from hardware_specs.types import Cluster
from inputs.errors import InputError
from scenarios.progress import Progress
from validation.fits.fitting import FabricFit, fit_fabric
from validation.suites.collective_cases import LARGE_BYTES, groups_of
from validation.suites.collectives import MeasuredCollective, Predictor
from validation.suites.errors import CollectiveErrors, error_pct

OFF_PCT = 25.0
"""A log whose median error is larger deserves a warning."""
FULL_SHARE = 0.999
TOO_SLOW_PCT = 15.0
"""Large messages that are predicted so much too slow on full links were faster than the links."""
HALF = 0.5
LEAST_LEFT = 0.1
"""Part of a measured time that is left at least when the launch overhead is taken off."""


@dataclass(frozen=True, slots=True)
class UnseenWorld:
    """The largest world, predicted by a fit of all others.

    Attributes:
        nodes: number of nodes of the world.
        ranks_per_node: ranks on each of them.
        groups: statistics of its errors by size.
    """

    nodes: int
    ranks_per_node: int
    groups: Sequence[CollectiveErrors]


def cases_of(
    cluster: Cluster, rows: Sequence[MeasuredCollective], used: Sequence[MeasuredCollective]
) -> list[dict[str, Any]]:
    """Role, inputs and error of each row as a job sees it: without the launch overhead of the method that timed it."""
    predictor, fitted = Predictor(cluster), set(used)
    return [
        {
            "role": "calibration" if row in fitted else "validation",
            "inputs": row.inputs,
            "metric": "time_s",
            "error_pct": error_pct(seconds, max(row.time_s - predictor.launch_s(row.source), LEAST_LEFT * row.time_s)),
        }
        for row, seconds in zip(rows, predictor.seconds(rows).tolist(), strict=True)
    ]


def error_groups(cases: Sequence[dict[str, Any]]) -> tuple[CollectiveErrors, ...]:
    """Errors of `cases_of` by role and size."""
    return tuple(CollectiveErrors(**group) for group in groups_of(cases))


def check_shares(fit: FabricFit, used: Sequence[MeasuredCollective], cluster_name: str) -> None:
    """Refuse a fit whose links are full and still too slow.

    Raises:
        InputError: measured messages were faster than the links of the cluster.
    """
    cases = cases_of(fit.cluster, used, used)
    for inside, shares in ((True, fit.fitted.near_fraction), (False, fit.fitted.network_fraction)):
        full = [str(name) for name, share in shares.items() if share.value >= FULL_SHARE]
        errors = [case["error_pct"] for case in cases if _is_large(case, inside=inside)]
        if full and errors and median(errors) > TOO_SLOW_PCT:
            where = "inside a node" if inside else "between nodes"
            raise InputError(
                f"messages {where} were faster than the links of {cluster_name}",
                key="fitted.near_fraction" if inside else "fitted.network_fraction",
                given=f"a share above 1 for {', '.join(full)}, large messages {median(errors):.0f} % too slow at 1",
                expected="the machine's own links: its NICs in number and rate, NVLink rate, ranks on each node",
            )


def _is_large(case: Mapping[str, Any], *, inside: bool) -> bool:
    return case["inputs"]["bytes"] >= LARGE_BYTES and (case["inputs"]["nodes"] == 1) is inside


def remarks_on(fitted: FittedCollectives, cases: Sequence[Mapping[str, Any]]) -> list[str]:
    """Doubtful constants, and logs that the fit is far from."""
    return [*_low_shares(fitted), *_logs_far_off(cases)]


def _low_shares(fitted: FittedCollectives) -> Iterator[str]:
    """Shares below half of a port."""
    likely = "are these the ports, do NICs reach GPU memory (GPUDirect), was another algorithm or protocol run?"
    for where, shares in (("inside a node", fitted.near_fraction), ("between nodes", fitted.network_fraction)):
        for name, share in shares.items():
            if share.value < HALF:
                yield f"{name} {where} reaches {share.value:.2f} of its links: {likely}"


def _logs_far_off(cases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Sources whose fitted rows are off by more than `OFF_PCT`."""
    errors: dict[str, list[float]] = {}
    for case in cases:
        if case["role"] == "calibration":
            errors.setdefault(case["inputs"]["source"], []).append(abs(case["error_pct"]))
    for source, found in errors.items():
        if median(found) > OFF_PCT:
            yield f"{source} is off by a median of {median(found):.0f} %: the fit does not describe it"


def left_out(timed: int, rows: Sequence[MeasuredCollective], all_rows: Sequence[MeasuredCollective]) -> list[str]:
    """Sizes of a log that are not used, by source and operation."""
    kept = {(row.source, row.op, row.bytes) for row in rows}
    sizes: dict[tuple[str, str], set[float]] = {}
    for row in all_rows:
        if (row.source, row.op, row.bytes) not in kept:
            sizes.setdefault((row.source, row.op), set()).add(row.bytes)
    found = [
        f"{source} {op}: {len(those)} sizes left out, between powers of two ({min(those):.0f} to {max(those):.0f} B)"
        for (source, op), those in sizes.items()
    ]
    repeats = timed - len(rows) - sum(1 for row in all_rows if (row.source, row.op, row.bytes) not in kept)
    return [*found, *([f"{repeats} repeats of the same size: their median counts"] if repeats > 0 else [])]


def unseen_world(
    cluster: Cluster, used: Sequence[MeasuredCollective], note: str, progress: Progress
) -> UnseenWorld | None:
    """The largest world of the fitted rows, predicted by a fit of the others; None where there is one world only."""
    worlds = sorted({(row.nodes * row.ranks_per_node, row.nodes, row.ranks_per_node) for row in used})
    if len(worlds) < 2:
        return None
    _, nodes, per_node = worlds[-1]
    others = [row for row in used if row.shape != (nodes, per_node)]
    largest = [row for row in used if row.shape == (nodes, per_node)]
    fit = fit_fabric(cluster, others, note, progress)
    return UnseenWorld(nodes, per_node, error_groups(cases_of(fit.cluster, largest, others)))

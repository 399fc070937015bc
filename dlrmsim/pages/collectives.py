"""Study of a collective from its size tables, with measured points of the suites about the same cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlrmsim import __version__
from hardware_specs.types import Cluster
from reports.collective_report import CollectiveStudy, MeasuredPoint
from scenarios.uncertainty.interval import Interval
from simulator.network.size_table import SizeTable, busbw_bytes_per_s
from validation.catalogs import SUITES
from validation.suites.collective_cases import measured_points
from validation.suites.suite import load_suite


def collective_study(
    cluster: Cluster,
    tables: Sequence[SizeTable],
    intervals: Sequence[Sequence[Interval]],
    facts: Mapping[str, str],
    *,
    with_measured: bool,
) -> CollectiveStudy:
    """Findings on the page of a collective."""
    measured = _measured(cluster) if with_measured else []
    points = {
        number: [p for p, op, ranks, nodes in measured if (op, ranks, nodes) == (found.op, found.ranks, found.nodes)]
        for number, found in enumerate(tables)
    }
    return CollectiveStudy(cluster.name, tables[0].op, tables, intervals, points, facts, __version__)


def _measured(cluster: Cluster) -> list[tuple[MeasuredPoint, str, int, int]]:
    """Points of the shipped suites on this cluster, with operation, ranks and nodes."""
    found: list[tuple[MeasuredPoint, str, int, int]] = []
    for name in SUITES.names():
        file, suite = load_suite(name)
        for asked in (block for block in suite.collectives if block.cluster == cluster.name):
            for row in measured_points(file, asked):
                ranks = row.nodes * row.ranks_per_node
                busbw = busbw_bytes_per_s(row.op, ranks, row.bytes, row.time_s)
                point = MeasuredPoint(row.bytes, row.time_s, busbw, asked.sources[row.source])
                found.append((point, row.op, ranks, row.nodes))
    return found

"""One collective at many sizes: rows, the JSON of nccl-tests, the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from dlrmsim import __version__
from dlrmsim.output.folders import file_written_whole
from hardware_specs.loader import load_cluster
from hardware_specs.types import Cluster
from inputs.errors import InputError, nearest_name
from inputs.quantities import parse_quantity, parse_range
from reports.collective_report import CollectiveStudy, MeasuredPoint, render_collective
from reports.collective_table import FLOAT_BYTES, redop, root
from simulator.network.collectives.algorithm import check_algorithm
from simulator.network.size_table import SizeTable, busbw_bytes_per_s, size_tables
from simulator.network.topology import Placement
from simulator.operators import CollectiveOp
from validation.suites.collective_cases import measured_points
from validation.suites.suite import SUITES, load_suite

MAX_SIZES = 200
MAX_DIGITS = 20
"""Of a number of ranks; what is longer is no number to name in a message."""
MAX_BYTES = 2.0**50
"""1 PiB: far beyond any buffer, and still an exact whole number."""


@dataclass(frozen=True, slots=True)
class CollectiveRequest:
    """What is asked for.

    Attributes:
        cluster: name or path.
        op: the operation.
        ranks: numbers of ranks, ``8`` or ``8,16,64``.
        sizes: ``1KiB..1GiB`` (the low end, doubled until the high end, which is there too), or a list, ``1MiB,4MiB``.
        ranks_per_node: GPUs in use on each node; default: all.
        placement: which ranks share a node.
        seed: of a random placement.
        algorithm: force one.
    """

    cluster: str
    op: str
    ranks: str
    sizes: str
    ranks_per_node: int | None = None
    placement: Placement = "block"
    seed: int = 0
    algorithm: str | None = None


def compute(request: CollectiveRequest) -> tuple[Cluster, list[SizeTable]]:
    """A table for each number of ranks.

    Raises:
        InputError: the cluster, operation, algorithm, sizes or ranks are wrong.
    """
    cluster = load_cluster(request.cluster)
    op = _operation(request.op)
    if request.algorithm is not None:
        check_algorithm(op, request.algorithm, "--algorithm")
    tables = size_tables(
        cluster,
        op,
        _rank_counts(request.ranks),
        _sizes(request.sizes),
        ranks_per_node=request.ranks_per_node,
        placement=request.placement,
        seed=request.seed,
        algorithm=request.algorithm,
    )
    return cluster, tables


def as_json(cluster: Cluster, request: CollectiveRequest, tables: Sequence[SizeTable]) -> dict[str, Any]:
    """The keys of nccl-tests' JSON: times in us, bandwidths in GB/s; several numbers of ranks are ``runs``."""
    runs = [_run(cluster, request, found) for found in tables]
    return runs[0] if len(runs) == 1 else {"version": __version__, "runs": runs}


def _run(cluster: Cluster, request: CollectiveRequest, found: SizeTable) -> dict[str, Any]:
    config = {
        "cluster": cluster.name,
        "op": found.op,
        "ranks": found.ranks,
        "nodes": found.nodes,
        "ranks_per_node": found.ranks_per_node,
        "placement": request.placement,
        "seed": request.seed,
        "algorithm": request.algorithm,
    }
    results = []
    for row in found.rows:
        place = {
            "time": row.time_s * 1e6,
            "alg_bw": row.algbw_bytes_per_s / 1e9,
            "bus_bw": row.busbw_bytes_per_s / 1e9,
            "nwrong": 0,
        }
        results.append(
            {
                "size": int(row.bytes),
                "count": int(row.bytes) // FLOAT_BYTES,
                "type": "float",
                "redop": redop(found.op),
                "root": root(found.op),
                "out_of_place": place,
                "in_place": place,
                "algorithm": row.algorithm,
                "protocol": row.protocol,
                "limit": row.limit,
            }
        )
    return {
        "version": __version__,
        "config": config,
        "results": results,
        "average_bus_bandwidth": found.average_busbw_bytes_per_s / 1e9,
        "warnings": list(found.notes),
    }


def write_page(cluster: Cluster, request: CollectiveRequest, tables: Sequence[SizeTable], file: Path) -> None:
    """Write the page, whole or not at all; measured points come from the suites about this cluster.

    Raises:
        InputError: ``file`` cannot be written.
    """
    as_measured = request.algorithm is None and request.placement == "block"
    measured = _measured(cluster) if as_measured else []
    points = {
        number: [p for p, op, ranks, nodes in measured if (op, ranks, nodes) == (found.op, found.ranks, found.nodes)]
        for number, found in enumerate(tables)
    }
    facts = {"Placement": request.placement} | ({"Algorithm": request.algorithm} if request.algorithm else {})
    study = CollectiveStudy(cluster.name, tables[0].op, tables, points, facts, __version__)
    file_written_whole(file, render_collective(study))


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


def _operation(text: str) -> CollectiveOp:
    known: tuple[CollectiveOp, ...] = get_args(CollectiveOp)
    for op in known:
        if op == text:
            return op
    raise InputError(
        "no such operation",
        file="--op",
        given=text,
        expected=f"one of {', '.join(known)}",
        nearest=nearest_name(text, known),
    )


def _rank_counts(text: str) -> list[int]:
    """Numbers of ranks in the order given, each once."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.removeprefix("-").isdecimal() and len(part) <= MAX_DIGITS for part in parts):
        raise InputError("not a number of ranks", file="--ranks", given=text, expected="such as 64, or 8,16,64")
    return list(dict.fromkeys(int(part) for part in parts))


def _sizes(text: str) -> list[float]:
    """Sizes in bytes, ascending, each a whole number, once."""
    try:
        if ".." in text:
            low, high = parse_range(text)
            sizes = _powers(low, high) if low > 0 else [low]
        else:
            sizes = sorted({parse_quantity(part.strip(), "bytes") for part in text.split(",")})
    except InputError as error:
        raise InputError(
            error.message, file="--bytes", given=error.given, expected=error.expected, nearest=error.nearest
        ) from None
    if sizes[0] < 1 or sizes[-1] > MAX_BYTES or len(sizes) > MAX_SIZES or not all(s.is_integer() for s in sizes):
        expected = f"whole bytes, 1 B to 1 PiB, at most {MAX_SIZES} sizes"
        raise InputError("impossible value", file="--bytes", given=text, expected=expected)
    return sizes


def _powers(low: float, high: float) -> list[float]:
    """``low``, doubled until ``high``, which is there too."""
    sizes = [low]
    while sizes[-1] * 2 < high:
        sizes.append(sizes[-1] * 2)
    return sizes if sizes[-1] == high else [*sizes, high]

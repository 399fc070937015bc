"""``collective``: times of one collective at many sizes, in nccl-tests' terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from dlrmsim import __version__
from dlrmsim.output.folders import file_written_whole
from dlrmsim.verbs.what import Name
from hardware_specs.library import Operation
from hardware_specs.loader import load_cluster
from hardware_specs.types import Cluster
from inputs.errors import InputError, nearest_name
from inputs.quantities import parse_quantity, parse_range
from reports.collective_report import notes_of, render_collective
from reports.collective_table import table_json
from scenarios.located import of_file
from scenarios.progress import Progress, Silent
from scenarios.uncertainty.collectives import table_intervals
from scenarios.uncertainty.interval import Interval
from simulator.network.collectives.algorithm import check_algorithm
from simulator.network.size_table import SizeTable, size_tables
from simulator.network.topology import Placement

MAX_SIZES = 200
MAX_DIGITS = 20
"""Digits of a number of ranks; a longer one is no number to repeat in a message."""
MAX_BYTES = 2.0**50
"""1 PiB: far beyond any buffer, and still an exact whole number."""
SIZES = f"whole bytes, 1 B to 1 PiB, at most {MAX_SIZES} sizes"


@dataclass(frozen=True, slots=True)
class CollectiveResult:
    """A collective at many sizes.

    Attributes:
        tables: one per number of ranks.
        intervals: p10 and p90 of each row of each table.
        placement: placement of ranks on nodes.
        seed: seed of a random placement.
        algorithm: the only one allowed; None: the fastest.
        file: the page; None: none is written.
    """

    cluster: Cluster
    tables: tuple[SizeTable, ...]
    intervals: tuple[tuple[Interval, ...], ...]
    placement: Placement
    seed: int
    algorithm: str | None
    file: Path | None

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings on the tables, without repeats."""
        return notes_of(self.tables)

    def to_dict(self) -> Mapping[str, object]:
        """The keys of nccl-tests' JSON: times in us, bandwidths in GB/s; several numbers of ranks are ``runs``."""
        config = {"placement": self.placement, "seed": self.seed, "algorithm": self.algorithm}
        runs = [
            {"version": __version__, **table_json(self.cluster.name, found, of, config)}
            for found, of in zip(self.tables, self.intervals, strict=True)
        ]
        return runs[0] if len(runs) == 1 else {"version": __version__, "runs": runs}


def collective(
    what: Name,
    *,
    op: str,
    ranks: str | int | Sequence[int],
    sizes: str | Sequence[float] = "1KiB..1GiB",
    ranks_per_node: int | None = None,
    placement: Placement = "block",
    seed: int = 0,
    algorithm: str | None = None,
    out: Name | None = None,
    progress: Progress | None = None,
) -> CollectiveResult:
    """A table for each number of ranks.

    Args:
        op: ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``all_to_all``, ``broadcast``...
        ranks: numbers of ranks; in words ``8`` or ``8,16,64``.
        sizes: bytes; in words ``1KiB..1GiB`` (the low end, doubled until the high end, which is there too) or
            ``1MiB,4MiB``.
        ranks_per_node: GPUs in use on each node; default: all.
        placement: placement of ranks on nodes.
        seed: seed of a random placement.
        algorithm: force one.
        out: page of bus bandwidth and time over size; None: none is written.

    Raises:
        InputError: the cluster, operation, algorithm, sizes or ranks are wrong, or ``out`` cannot be written.
    """
    (progress or Silent()).stage("timing the collective")
    cluster, kind = load_cluster(what), _operation(op)
    if algorithm is not None:
        check_algorithm(kind, algorithm, "--algorithm")
    counts, each = _rank_counts(ranks), _sizes(sizes)
    with of_file(what):
        tables = tuple(
            size_tables(
                cluster,
                kind,
                counts,
                each,
                ranks_per_node=ranks_per_node,
                placement=placement,
                seed=seed,
                algorithm=algorithm,
            )
        )
        intervals = tuple(
            table_intervals(cluster, found, placement=placement, seed=seed, algorithm=algorithm) for found in tables
        )
    file = Path(out) if out is not None else None
    if file is not None:
        from dlrmsim.pages.collectives import collective_study

        facts = {"Placement": str(placement)} | ({"Algorithm": algorithm} if algorithm else {})
        as_measured = algorithm is None and placement == "block"
        file_written_whole(
            file, render_collective(collective_study(cluster, tables, intervals, facts, with_measured=as_measured))
        )
    return CollectiveResult(cluster, tables, intervals, placement, seed, algorithm, file)


def _operation(text: str) -> Operation:
    known: tuple[Operation, ...] = get_args(Operation)
    for op in known:
        if op == text:
            return op
    expected, near = f"one of {', '.join(known)}", nearest_name(text, known)
    raise InputError("no such operation", file="--op", given=text, expected=expected, nearest=near)


def _rank_counts(ranks: str | int | Sequence[int]) -> list[int]:
    """Numbers of ranks in the order given, each once."""
    if not isinstance(ranks, str):
        return list(dict.fromkeys([ranks] if isinstance(ranks, int) else ranks))
    parts = [part.strip() for part in ranks.split(",")]
    if not all(part.isascii() and part.removeprefix("-").isdecimal() and len(part) <= MAX_DIGITS for part in parts):
        raise InputError("not a number of ranks", file="--ranks", given=ranks, expected="such as 64, or 8,16,64")
    return list(dict.fromkeys(int(part) for part in parts))


def _sizes(given: str | Sequence[float]) -> list[float]:
    """Sizes in bytes, ascending, each a whole number, once."""
    sizes = _parsed(given) if isinstance(given, str) else sorted({float(size) for size in given})
    allowed = bool(sizes) and sizes[0] >= 1 and sizes[-1] <= MAX_BYTES and len(sizes) <= MAX_SIZES
    if not allowed or not all(size.is_integer() for size in sizes):
        raise InputError("impossible value", file="--bytes", given=given, expected=SIZES)
    return sizes


def _parsed(text: str) -> list[float]:
    try:
        if ".." in text:
            low, high = parse_range(text)
            return _powers(low, high) if low > 0 else [low]
        return sorted({parse_quantity(part.strip(), "bytes") for part in text.split(",")})
    except InputError as error:
        expected = SIZES if error.message == "impossible value" else error.expected
        raise InputError(
            error.message, file="--bytes", given=error.given, expected=expected, nearest=error.nearest
        ) from None


def _powers(low: float, high: float) -> list[float]:
    """``low``, doubled until ``high``, which is there too."""
    sizes = [low]
    while sizes[-1] * 2 < high:
        sizes.append(sizes[-1] * 2)
    return sizes if sizes[-1] == high else [*sizes, high]

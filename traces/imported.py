"""Results of an import: programs, measured times where the format has any, and gaps of the traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from simulator.program import TaskGraph
from traces.measured import MeasuredRun
from traces.nccl_tests import TimedCollective


@dataclass(frozen=True, slots=True)
class RankStep:
    """One iteration of one rank, as the profiler marked it, in ps of the measured run."""

    rank: int
    number: int
    name: str
    start_ps: int
    end_ps: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Something the traces do not say: what, how often (0: not counted), on which ranks."""

    what: str
    count: int
    ranks: tuple[int, ...]

    @property
    def words(self) -> str:
        """The gap as a line of text, with its count."""
        return f"{self.count:,} {self.what}" if self.count else self.what


@dataclass(frozen=True, slots=True)
class TracedLookup:
    """A table-batched embedding lookup, from the shapes of its operator."""

    rank: int
    tables: int
    bags_per_table: int


@dataclass(frozen=True, slots=True)
class Imported:
    """An import.

    Attributes:
        format: name of the format.
        files: files that were read.
        graph: programs of the ranks that have a trace, and their communicators.
        world_size: ranks of the job, with or without a trace.
        measured: times; None for formats without.
        steps: iterations of every rank, by rank and number.
        device: name of the GPUs, empty where the traces do not say.
        found: contents in words and numbers, for the printed summary.
        gaps: facts that the traces lack.
        collectives: timed collectives of a benchmark's log, which has no ranks' programs.
        lookups: embedding lookups of the first step of each rank.
    """

    format: str
    files: tuple[Path, ...]
    graph: TaskGraph
    world_size: int
    measured: MeasuredRun | None = None
    steps: tuple[RankStep, ...] = ()
    device: str = ""
    found: Mapping[str, int] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    collectives: tuple[TimedCollective, ...] = ()
    lookups: tuple[TracedLookup, ...] = ()

    @property
    def ranks(self) -> tuple[int, ...]:
        """Ranks that have a trace, ascending."""
        return tuple(sorted(int(rank) for program in self.graph.programs for rank in program.ranks))


ABSENT = "ranks without a trace: waiting for them cannot be separated from transfer"
"""A gap."""


def absent_ranks(present: Collection[int], world_size: int) -> list[Gap]:
    """The gap of ranks that have no trace, if there are any."""
    absent = tuple(sorted(set(range(world_size)) - set(present)))
    return [Gap(ABSENT, len(absent), absent)] if absent else []


def gaps_of(counts: Mapping[int, Counter[str]]) -> list[Gap]:
    """Gaps over ranks, from each rank's counts."""
    what = dict.fromkeys(text for counter in counts.values() for text, count in counter.items() if count)
    return [
        Gap(text, sum(c[text] for c in counts.values()), tuple(rank for rank, c in sorted(counts.items()) if c[text]))
        for text in what
    ]

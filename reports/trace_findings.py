"""Data of the page of a trace, or of its replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from reports.findings import RunTimes
from simulator.analysis.steps import StepRow
from simulator.analysis.stragglers import Straggler
from traces.replay.record import ReplayRecord


class NamedWork(Protocol):
    """Device work of one name over all ranks."""

    @property
    def name(self) -> str:
        """Name in the trace."""
        ...

    @property
    def category(self) -> str:
        """compute, comm or copy."""
        ...

    @property
    def count(self) -> int:
        """Number of runs."""
        ...

    @property
    def total_s(self) -> float:
        """Seconds in all."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFindings(RunTimes):
    """All that a trace shows; ``warnings`` are its gaps.

    Attributes:
        name: name of the trace.
        format: name of its format.
        device: name of the GPUs that the traces name, may be empty.
        world_size: ranks of the job, with or without a trace.
        iteration_time_s: mean length of a step.
        steps: rank by rank.
        stragglers: ranks that the others wait for.
        operators: device work by name, longest first.
        found: counts of the contents.
        version: version of this tool.
        replay: record of a replay; None: the times are those of the trace.
    """

    name: str
    format: str
    device: str
    world_size: int
    iteration_time_s: float
    steps: Sequence[StepRow]
    stragglers: Sequence[Straggler]
    operators: Sequence[NamedWork]
    found: Mapping[str, int]
    version: str
    replay: ReplayRecord | None = None

"""``run``: simulate a scenario and write its results."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlrmsim.output.folders import RUNS_FOLDER, folder_written_whole, replaceable
from dlrmsim.output.results import write_results
from dlrmsim.verbs.what import Job, Name, scenario_of
from inputs.errors import InputError
from scenarios.progress import Progress, Silent
from scenarios.runner import Outcome, simulate
from scenarios.summary_keys import DEFAULT_UNIT, cost_of, price_key
from scenarios.uncertainty.interval import Interval
from workloads.family import Headline


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run whose files are written.

    Attributes:
        folder: its output folder.
        outcome: plan, times and analysis.
    """

    folder: Path
    outcome: Outcome

    @property
    def iteration_time_s(self) -> float:
        """Mean time of a settled iteration, seconds."""
        return self.outcome.analysis.iteration.seconds

    @property
    def interval(self) -> Interval:
        """p10 and p90 of the iteration time, and the constants that widen them."""
        return self.outcome.interval

    @property
    def headline(self) -> Headline:
        """Unit of throughput, and the amount of an iteration."""
        return self.outcome.prepared.workload.headline

    @property
    def throughput_per_s(self) -> float:
        """Throughput, in the headline's unit per second."""
        return self.outcome.analysis.iteration.throughput_per_s(self.headline.per_iteration)

    @property
    def throughput_samples_per_s(self) -> float:
        """`throughput_per_s` of a workload that counts samples.

        Raises:
            AttributeError: it counts something else.
        """
        if self.headline.unit != DEFAULT_UNIT:
            raise AttributeError(f"this workload counts {self.headline.unit}: throughput_per_s")
        return self.throughput_per_s

    @property
    def million_usd(self) -> float | None:
        """Price of a million of the headline's unit, USD; None without ``cost.gpu_hour_usd``."""
        unit = self.headline.unit
        price = cost_of(self.outcome.resolved, self.throughput_per_s, unit)
        return None if price is None else price[price_key(unit)]

    @property
    def million_samples_usd(self) -> float | None:
        """`million_usd` of a workload that counts samples; raises as `throughput_samples_per_s`."""
        _ = self.throughput_samples_per_s
        return self.million_usd

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings on the results."""
        return self.outcome.warnings

    @property
    def finding(self) -> str:
        """The bound of the iteration as a sentence."""
        return self.outcome.bound.finding

    @property
    def advice(self) -> str | None:
        """The settings that save most, as a sentence; None if no setting was tried."""
        return None if self.outcome.levers is None else self.outcome.levers.advice

    @property
    def summary(self) -> Mapping[str, object]:
        """The content of ``summary.json``."""
        return self.outcome.summary


def run(
    what: Job,
    *,
    settings: Sequence[str] = (),
    ranks: Sequence[int] | None = None,
    report: bool = True,
    levers: bool = True,
    out: Name | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """Simulate a scenario and write its output folder, whole or not at all.

    Args:
        settings: ``KEY=VALUE`` each.
        ranks: ranks whose timelines are traced and shown first; default: the slowest, fastest, median and first are
            traced, the slowest, the fastest and the one with most of the critical path are shown.
        report: whether to write ``report.html``.
        levers: whether to try settings that might make the job faster.
        out: output folder; default ``runs/NAME-HASH8``.

    Raises:
        InputError: the scenario is wrong, a rank does not exist, the output folder holds something else, or the models
            refuse the scenario.
        InfeasibleError: the job does not fit into the memory of the GPUs, or the run into this machine.
    """
    resolved, progress = scenario_of(what, settings), progress or Silent()
    missing = [rank for rank in ranks or () if rank >= resolved.world_size]
    if missing:
        raise InputError("no such rank", file="--ranks", given=missing[0], expected=f"0 to {resolved.world_size - 1}")
    folder = replaceable(RUNS_FOLDER / f"{resolved.name}-{resolved.hash[:8]}" if out is None else out, report=report)
    begin = time.perf_counter()
    outcome = simulate(resolved, progress, levers=levers)
    wall_s = {"simulate": time.perf_counter() - begin}
    with folder_written_whole(folder) as partial:
        write_results(partial, outcome, asked_ranks=ranks or (), report=report, wall_s=wall_s, progress=progress)
    return RunResult(folder, outcome)

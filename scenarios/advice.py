"""Advice on a scenario: settings that may make its job faster or, where it does not fit, make it fit."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from inputs.errors import InfeasibleError
from scenarios.levers import Levers
from scenarios.progress import Progress, Silent
from scenarios.resolve import asked_again
from scenarios.resolved import ResolvedScenario
from scenarios.runner import simulate, simulation_of
from scenarios.summary_keys import job_of
from simulator.analysis import Bound


@dataclass(frozen=True, slots=True)
class RemedyTried:
    """Settings with which a job fits, simulated.

    Attributes:
        settings: ``KEY=VALUE`` each.
        throughput_per_rank: amount of the headline's unit per second and rank.
    """

    settings: tuple[str, ...]
    iteration_time_s: float
    throughput_per_rank: float


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice on a scenario.

    Attributes:
        unit: unit of throughput, a plural noun; empty where the job does not fit and has no remedy.
        bound: bound of the run, whose levers are `levers`; both None where the job does not fit.
        refusal: why it does not fit; empty where it does.
        remedies: settings with which the job fits, by throughput of a rank, largest first.
    """

    resolved: ResolvedScenario
    unit: str
    bound: Bound | None = None
    levers: Levers | None = None
    refusal: str = ""
    remedies: tuple[RemedyTried, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            **job_of(self.resolved),
            "scenario_hash": self.resolved.hash,
            "fits": not self.refusal,
            "iteration_time_s": None if self.bound is None else self.bound.iteration_time_s,
            "finding": None if self.bound is None else self.bound.finding,
            "levers": None if self.levers is None else self.levers.to_dict(),
            "refusal": self.refusal or None,
            "remedies": [asdict(remedy) for remedy in self.remedies],
        }


def advise(resolved: ResolvedScenario, progress: Progress) -> Advice:
    """Try settings that may make a job faster or, where it does not fit, make it fit.

    Raises:
        InputError: a model, generator or planner refuses the scenario.
        InfeasibleError: the job does not fit and no remedy was found, or the run does not fit into this machine.
    """
    try:
        outcome = simulate(resolved, progress, levers=True)
    except InfeasibleError as error:
        if not error.remedies:
            raise
        refusal, remedies = str(error), error.remedies
    else:
        return Advice(resolved, outcome.prepared.workload.headline.unit, outcome.bound, outcome.levers)
    tried, unit = [], ""
    for number, settings in enumerate(remedies, start=1):
        progress.stage("simulating remedies", number, len(remedies))
        done = simulation_of(asked_again(resolved, settings), Silent())
        headline, time = done.prepared.workload.headline, done.analysis.iteration
        unit = headline.unit
        rate = time.throughput_per_s(headline.per_iteration) / done.resolved.world_size
        tried.append(RemedyTried(settings, time.seconds, rate))
    best_first = sorted(tried, key=lambda remedy: -remedy.throughput_per_rank)
    return Advice(resolved, unit, refusal=refusal, remedies=tuple(best_first))

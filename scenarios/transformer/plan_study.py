"""The fastest division of a transformer among its ranks, and the divisions it was compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from scenarios.located import located
from scenarios.mapping import Keep, keep_nothing
from scenarios.progress import Progress
from scenarios.search import BestFirst, most_simulated
from scenarios.summary import job_of
from scenarios.transformer.filling import settings_of_resolved
from scenarios.transformer.remedies import refusal
from scenarios.transformer.search import (
    Division,
    DivisionFound,
    division_search,
    memory_of,
    simulated,
    with_other_orders,
)
from scenarios.transformer.typed import TransformerResolved, with_changes


@dataclass(frozen=True, slots=True)
class TransformerPlanStudy:
    """The fastest of the divisions that fit.

    Attributes:
        resolved: the scenario with that division.
        simulated: divisions that were run, fastest first.
        refused: divisions that do not fit, the nearest to fitting first.
        capacity_bytes: usable device memory of a rank.
        count: number of divisions that model, batch and ranks allow.
        slower: number of divisions that are not simulated because none of them can be faster.
        left: number of divisions that are not simulated because `most` were.
        most: limit of simulations.
    """

    resolved: TransformerResolved
    simulated: tuple[DivisionFound, ...]
    refused: tuple[DivisionFound, ...]
    capacity_bytes: float
    count: int
    slower: int
    left: int
    most: int

    @property
    def best(self) -> DivisionFound:
        """The fastest division."""
        return self.simulated[0]

    @property
    def own(self) -> DivisionFound | None:
        """The scenario's own division, if it fits."""
        return next((found for found in self.simulated if found.own), None)

    def rate(self, found: DivisionFound) -> float:
        """Tokens per second and GPU of a division that was simulated."""
        return self.resolved.global_batch_size / (found.iteration_time_s or float("inf")) / self.resolved.world_size

    def plan_file(self) -> Mapping[str, Any]:
        """The scenario with the fastest division, which `dlrmsim run` takes as it is."""
        return self.resolved.to_dict()

    def to_dict(self) -> dict[str, Any]:
        """Everything but the scenario itself as JSON."""
        return {
            **job_of(self.resolved),
            "scenario_hash": self.resolved.hash,
            "iteration_time_s": self.best.iteration_time_s,
            "settings": list(self.best.settings),
            "capacity_bytes": {"hbm": self.capacity_bytes},
            "search": {
                "divisions": self.count,
                "simulated": len(self.simulated),
                "most_simulated": self.most,
                "do_not_fit": len(self.refused),
                "cannot_be_faster": self.slower,
                "left": self.left,
            },
            "compared": [self._row(found) for found in self.simulated],
            "refused": [self._row(found) for found in self.refused],
        }

    def _row(self, found: DivisionFound) -> dict[str, Any]:
        rate = None if found.iteration_time_s is None else self.rate(found)
        return {**asdict(found), "settings": list(found.settings), "throughput_tokens_per_s_per_gpu": rate}


def study_divisions(
    resolved: TransformerResolved, progress: Progress, *, compare: bool = False, keep: Keep = keep_nothing
) -> TransformerPlanStudy:
    """Find the fastest division of a job that fits.

    Args:
        compare: whether to go on with divisions that cannot be the fastest, up to the limit.
        keep: keeps the results of each simulation.

    Raises:
        InputError: the scenario is wrong.
        InfeasibleError: no division fits; with the numbers of the one that lacks least, and remedies.
    """
    progress.stage("ordering the divisions")
    most = most_simulated(resolved.world_size)
    with located(resolved.document):
        search = division_search(resolved)

        def simulate(found: DivisionFound) -> DivisionFound:
            progress.stage("simulating divisions", len(search.simulated) + 1, most)
            question = "\n".join(("simulating a division", resolved.hash, *found.settings))
            result = keep(question, partial(simulated, resolved, found)) if compare else simulated(resolved, found)
            return replace(found, **result)

        search.run(simulate, most=most, further=compare)
        if not search.simulated:
            raise _nothing_fits(resolved, search)
        with_other_orders(search, simulate)
    fastest = sorted(search.simulated, key=lambda found: found.iteration_time_s or 0.0)
    return TransformerPlanStudy(
        with_changes(resolved, fastest[0].settings),
        tuple(fastest),
        tuple(sorted(search.refused, key=lambda found: found.excess_bytes)),
        float(memory_of(resolved, search.own.settings).capacity_bytes["hbm"]),
        search.count,
        search.slower,
        search.left,
        most,
    )


def _nothing_fits(resolved: TransformerResolved, search: BestFirst[Division, DivisionFound]) -> Exception:
    """The error of a job that fits under no division."""
    nearest = min(search.refused, key=lambda found: found.excess_bytes)
    there = with_changes(resolved, nearest.settings)
    memory = memory_of(there, settings_of_resolved(there))
    words = " ".join(f"--set {setting}" for setting in nearest.settings) or "the scenario's own"
    return refusal(resolved, memory, f"none of its {search.count:,} divisions does; the nearest: {words}")

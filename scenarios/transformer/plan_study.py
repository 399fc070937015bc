"""The fastest division of a transformer among its ranks, and the divisions of the comparison."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from scenarios.located import located
from scenarios.mapping import Keep, keep_nothing
from scenarios.progress import Progress
from scenarios.search import BestFirst, most_simulated
from scenarios.search_study import SearchStudy
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
class TransformerPlanStudy(SearchStudy[DivisionFound]):
    """The fastest of the divisions that model, batch and ranks allow."""

    def to_dict(self) -> dict[str, Any]:
        """Everything but the scenario itself as JSON."""
        return {
            **self.head("divisions", "do_not_fit"),
            "compared": [self.row(found) for found in self.simulated],
            "refused": [self.row(found) for found in self.refused],
        }


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
        "tokens",
        tuple(fastest),
        tuple(sorted(search.refused, key=lambda found: found.excess_bytes)),
        float(memory_of(resolved, search.own.settings).capacity_bytes["hbm"]),
        search.count,
        search.slower,
        search.left,
        most,
    )


def _nothing_fits(resolved: TransformerResolved, search: BestFirst[Division, DivisionFound]) -> Exception:
    """The error for a job that fits under no division."""
    nearest = min(search.refused, key=lambda found: found.excess_bytes)
    there = with_changes(resolved, nearest.settings)
    memory = memory_of(there, settings_of_resolved(there))
    words = " ".join(f"--set {setting}" for setting in nearest.settings) or "the scenario's own"
    return refusal(resolved, memory, f"none of its {search.count:,} divisions fits; the nearest: {words}")

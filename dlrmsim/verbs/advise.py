"""``advise``: settings that may make a job faster or, where it does not fit, settings with which it fits."""

from __future__ import annotations

from collections.abc import Sequence

from dlrmsim.verbs.what import Job, scenario_of
from scenarios import advice
from scenarios.advice import Advice as AdviseResult
from scenarios.progress import Progress, Silent

__all__ = ["AdviseResult", "advise"]


def advise(what: Job, *, settings: Sequence[str] = (), progress: Progress | None = None) -> AdviseResult:
    """Try settings of a scenario, each simulated; nothing is written.

    Args:
        settings: ``KEY=VALUE`` each.

    Raises:
        InputError: the scenario is wrong.
        InfeasibleError: the job does not fit and no remedy was found.
    """
    return advice.advise(scenario_of(what, settings), progress or Silent())

"""``what-if``: a scenario with some keys changed, simulated with its plan or with a plan of its own."""

from __future__ import annotations

from collections.abc import Sequence

from dlrmsim.verbs.what import Job, scenario_of
from inputs.errors import InputError
from scenarios.progress import Progress, Silent
from scenarios.what_if import PlanOf
from scenarios.what_if import WhatIf as WhatIfResult

__all__ = ["WhatIfResult", "what_if"]

TOGETHER = " and "
"""Separator of keys that change together."""


def what_if(
    what: Job,
    *,
    changes: Sequence[str] = (),
    plan: PlanOf = "kept",
    settings: Sequence[str] = (),
    progress: Progress | None = None,
) -> WhatIfResult:
    """Run a scenario, and then each change of it by itself; its method ``ask`` tries more, in a fraction of the time.

    Args:
        changes: ``KEY=VALUE`` each; keys that change together are joined by ``and``.
        plan: ``kept``: the plan of the unchanged scenario, where both have as many ranks and the same model; ``own``:
            a plan for the changed scenario.
        settings: ``KEY=VALUE`` each, of the unchanged scenario.

    Raises:
        InputError: the unchanged scenario is wrong, a change is none, or every change is refused.
        InfeasibleError: the unchanged job does not fit, or no changed job does.
    """
    asked = [tuple(each.strip() for each in change.split(TOGETHER)) for change in changes]
    for change in asked:
        for setting in change:
            if "=" not in setting:
                raise InputError("is no change", file="--change", given=setting, expected="KEY=VALUE")
    progress = progress or Silent()
    found = WhatIfResult.of(scenario_of(what, settings), progress)
    for number, change in enumerate(asked, 1):
        progress.stage("trying changes", number, len(asked))
        found.ask(*change, plan=plan)
    errors = [answer.error for answer in found.answers]
    if errors and errors[0] is not None and all(errors):
        raise errors[0]
    return found

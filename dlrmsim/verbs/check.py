"""``check``: validate a scenario and estimate its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlrmsim.verbs.what import Job, scenario_of
from scenarios import runner
from scenarios.progress import Progress
from scenarios.resolved import ResolvedScenario


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A scenario that can run.

    Attributes:
        estimate: memory per rank and tier, sharding, and the size of the run, as ``run --check --json`` prints them.
    """

    resolved: ResolvedScenario
    estimate: Mapping[str, object]


def check(what: Job, *, settings: Sequence[str] = (), progress: Progress | None = None) -> CheckResult:
    """Everything but the run; no file is written.

    Args:
        settings: ``KEY=VALUE`` each.

    Raises:
        InputError: the scenario is wrong, or a model, generator or planner refuses it.
        InfeasibleError: the job does not fit into the memory of the GPUs, or the run into this machine's.
    """
    resolved = scenario_of(what, settings)
    return CheckResult(resolved, runner.check(resolved, progress))

"""``check``: validate a scenario and estimate its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlrmsim.verbs.what import Job, scenario_of
from scenarios import checking
from scenarios.capacity import MemoryReport
from scenarios.checking import Checked
from scenarios.estimate import RunSize
from scenarios.progress import Progress
from scenarios.resolved import ResolvedScenario


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A scenario that can run."""

    resolved: ResolvedScenario
    checked: Checked

    @property
    def size(self) -> RunSize:
        """Size of the run."""
        return self.checked.size

    @property
    def memory(self) -> MemoryReport:
        """Memory of every rank against its capacity."""
        return self.checked.prepared.memory

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings on the scenario."""
        return self.resolved.notes

    def to_dict(self) -> Mapping[str, object]:
        """Memory, placement and size, as ``run --check --json`` prints them."""
        return self.checked.to_dict()


def check(what: Job, *, settings: Sequence[str] = (), progress: Progress | None = None) -> CheckResult:
    """Everything but the run; no file is written.

    Args:
        settings: ``KEY=VALUE`` each.

    Raises:
        InputError: the scenario is wrong, or a model, generator or planner refuses it.
        InfeasibleError: the job does not fit into the memory of the GPUs, or the run into this machine's.
    """
    resolved = scenario_of(what, settings)
    return CheckResult(resolved, checking.check(resolved, progress))

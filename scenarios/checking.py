"""Everything but the run: a job is placed, and the size of its run estimated."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

from scenarios.estimate import RunSize, require_memory
from scenarios.prepare import Prepared, prepare, size_of
from scenarios.progress import Progress, Silent
from scenarios.resolved import ResolvedScenario
from scenarios.summary_keys import job_of


@dataclass(frozen=True, slots=True)
class Checked:
    """A job that can run."""

    prepared: Prepared
    size: RunSize

    def to_dict(self) -> dict[str, Any]:
        """Memory per rank and tier, placement, and size of the run, as ``run --check --json`` prints them."""
        resolved = self.prepared.resolved
        return {
            **job_of(resolved),
            "scenario_hash": resolved.hash,
            "memory": self.prepared.memory.to_dict(),
            **self.prepared.job.estimate_sections(),
            "size": asdict(self.size),
            "warnings": list(resolved.notes),
        }


def check(resolved: ResolvedScenario, progress: Progress | None = None) -> Checked:
    """Everything but the run.

    Raises:
        InputError: the scenario is wrong, or a model, generator or planner refuses it.
        InfeasibleError: the job does not fit into the memory of the GPUs, or the run into this machine's.
    """
    begin = time.process_time()
    prepared = prepare(resolved, progress or Silent())
    size = size_of(prepared, time.process_time() - begin)
    require_memory(size)
    return Checked(prepared, size)

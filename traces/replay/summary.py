"""Summary of a replay: makespan and mean step beside the measured ones, and changes of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from simulator.analysis.steps import StepRow
from simulator.lowered import PS_PER_S
from traces.analysis import TraceAnalysis, analyse_trace
from traces.imported import Imported
from traces.replay.changes import Changes
from traces.replay.gpu import MethodShare


def replay_summary(
    before: Imported,
    after: Imported,
    analysis: TraceAnalysis | None,
    changes: Changes,
    methods: Sequence[MethodShare],
) -> dict[str, Any]:
    """The content of `--json`; documented in docs/reference/replays.md."""
    makespan = {"makespan_s": _makespan_s(after)}
    steps = {} if analysis is None or not analysis.steps else {"step": mean_step(analysis.steps)}
    measured: dict[str, Any] = {}
    if before.measured is not None:
        measured = {"measured_makespan_s": _makespan_s(before)}
        rows = analyse_trace(before, before.measured).steps
        measured |= {"measured_step": mean_step(rows)} if rows else {}
    if not changes.any and before.measured is not None:
        measured["largest_error_s"] = error_ps(before, after) / PS_PER_S
    return {
        "format": before.format,
        "cluster": None if changes.cluster is None else str(changes.cluster),
        "ranks": len(before.ranks),
        "world_size": after.world_size,
        **makespan,
        **steps,
        **measured,
        "kernels": [
            {"method": str(m.method), "tasks": m.tasks, "before_s": m.before_s, "after_s": m.after_s} for m in methods
        ],
        "gaps": [{"what": gap.what, "count": gap.count} for gap in after.gaps],
    }


def _makespan_s(imported: Imported) -> float:
    return int(imported.measured.result.iteration_end_ps[0]) / PS_PER_S if imported.measured else 0.0


STEP_PARTS = (
    "step_s", "compute_s", "exposed_comm_s", "exposed_waiting_s", "exposed_copy_s", "idle_s", "idle_host_s", "comm_s",
)  # fmt: skip
"""Parts of a step that a replay compares, means over ranks and steps."""


def mean_step(rows: Sequence[StepRow]) -> dict[str, float]:
    """Means over ranks and steps."""
    return {part: float(np.mean([getattr(row, part) for row in rows])) for part in STEP_PARTS}


def error_ps(before: Imported, after: Imported) -> int:
    """Largest difference between a task's measured and replayed end over all tasks and ranks."""
    if before.measured is None or after.measured is None:
        return 0
    pairs = zip(before.measured.result.records[0].groups, after.measured.result.records[0].groups, strict=True)
    return max(int(np.abs(measured.end_ps - own.end_ps).max(initial=0)) for measured, own in pairs)

"""Summary of a replay: measured and replayed times, machines, changes, kernels, gaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from simulator.lowered import PS_PER_S
from traces.imported import Imported
from traces.replay.changes import Changes
from traces.replay.record import Compared, ReplayRecord


def replay_summary(before: Imported, after: Imported, changes: Changes, record: ReplayRecord) -> dict[str, Any]:
    """The content of `--json`; documented in docs/reference/replays.md."""
    measured: dict[str, Any] = {}
    if before.measured is not None:
        measured = {"measured_makespan_s": _makespan_s(before)}
        was = {f"{part.name}_s": part.measured_s for part in record.parts if part.measured_s is not None}
        measured |= {"measured_step": was} if was else {}
        measured |= {} if changes.any else {"largest_error_s": error_ps(before, after) / PS_PER_S}
    now = {f"{part.name}_s": part.replayed_s for part in record.parts}
    return {
        "format": before.format,
        "replayed": True,
        "measured_on": record.measured_on,
        "replayed_on": record.replayed_on or record.measured_on,
        "device": record.device,
        "cluster": None if changes.cluster is None else str(changes.cluster),
        "changed": list(record.changed),
        "ranks": len(before.ranks),
        "world_size": after.world_size,
        "makespan_s": _makespan_s(after),
        **({"step": now} if now else {}),
        **measured,
        "bound": None if record.bound is None else _bound(record),
        "collectives_compared": [
            {"name": c.name, "bytes": c.bytes, "duration": _times(c.duration), "transfer": _times(c.transfer)}
            for c in record.collectives
        ],
        "kernels": [
            {"method": str(m.method), "tasks": m.tasks, "before_s": m.before_s, "after_s": m.after_s}
            for m in record.methods
        ],
        "slower": list(record.slower),
        "assumed": list(record.assumed),
        "gaps": [{"what": gap.what, "count": gap.count} for gap in after.gaps],
    }


def _bound(record: ReplayRecord) -> Mapping[str, Any]:
    bound = record.bound
    return {} if bound is None else {"class": bound.winner, "finding": bound.finding, "gains": dict(bound.gains)}


def _times(compared: Compared) -> Mapping[str, Any]:
    return {key: value for key, value in asdict(compared).items() if key != "name"}


def _makespan_s(imported: Imported) -> float:
    return int(imported.measured.result.iteration_end_ps[0]) / PS_PER_S if imported.measured else 0.0


def error_ps(before: Imported, after: Imported) -> int:
    """Largest difference between a task's measured and replayed end over all tasks and ranks."""
    if before.measured is None or after.measured is None:
        return 0
    pairs = zip(before.measured.result.records[0].groups, after.measured.result.records[0].groups, strict=True)
    return max(int(np.abs(measured.end_ps - own.end_ps).max(initial=0)) for measured, own in pairs)

"""Faster activities: all latencies and works are divided by a factor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simulator.lowered import Activity, Phase


def faster(activities: Sequence[Activity], speed: float) -> list[Activity]:
    """Activities with latencies and works divided by ``speed``; their use of resources stays."""
    if speed == 1.0:
        return list(activities)
    return [replace(a, phases=tuple(_faster_phase(phase, speed) for phase in a.phases)) for a in activities]


def _faster_phase(phase: Phase, speed: float) -> Phase:
    """A phase in integer picoseconds, rounded half up; work above 0 stays above 0."""
    latency_ps, work_ps = (int(time_ps / speed + 0.5) for time_ps in (phase.latency_ps, phase.work_ps))
    return replace(phase, latency_ps=latency_ps, work_ps=max(work_ps, min(phase.work_ps, 1)))

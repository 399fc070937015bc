"""Memory of every rank of a captured job: tensors at the peak of the step by category, and the framework's reserve."""

from __future__ import annotations

import numpy as np

from simulator.operators import FloatArray
from workloads.captured.settings import CapturedSettings
from workloads.graph.memory import MemoryUse, Tier


def memory_per_rank(settings: CapturedSettings) -> MemoryUse:
    """Bytes that every rank keeps; tensors outside the device are not recorded."""
    job = settings.job
    items: dict[str, FloatArray] = {}
    for program in job.programs:
        for name, size in program.memory.peak.items():
            items.setdefault(name, np.zeros(job.world_size))[list(program.ranks)] = size
    items["framework reserve"] = np.full(job.world_size, settings.framework.reserve_bytes.value)
    tiers: dict[Tier, dict[str, FloatArray]] = {"hbm": items, "ddr": {}, "ssd": {}}
    return MemoryUse(tiers)

"""Time of a batch by its size: the engine runs a few sizes, and times between them are interpolated linearly.

All servers run a batch at the same time, so times include the waits for host memory, PCIe switches and SSDs of a busy
node. Two more runs of each size measure the effect of the number of missing rows on the time: one run with one standard
deviation more rows from host memory, and one run with one standard deviation more rows from SSDs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot
from typing import Any

import numpy as np

from scenarios.engine_run import iteration_s
from scenarios.resolved import ResolvedScenario
from simulator.lowering import Machine
from simulator.operators import FloatArray
from simulator.program import IntArray
from simulator.queueing.batching import ServiceTimes
from workloads.inference.family import InferenceWorkload
from workloads.inference.tiers import BatchRows

STEP = 2
"""Factor from one simulated size of a batch to the next."""


@dataclass(frozen=True, slots=True)
class SizeTime:
    """A simulated size of a batch.

    Attributes:
        samples: samples of each server.
        time_s: time of the batch, seconds.
        deviation_s: standard deviation from batch to batch, seconds.
        rows: rows by tier; None if servers have all rows in memory.
    """

    samples: int
    time_s: float
    deviation_s: float
    rows: BatchRows | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        shares = {} if self.rows is None else {"lookups_found": self.rows.shares()}
        return {"samples": self.samples, "time_s": self.time_s, "deviation_s": self.deviation_s, **shares}


@dataclass(frozen=True, slots=True)
class ServiceCurve:
    """Times of batches.

    Attributes:
        sizes: simulated sizes, ascending from 1 to the largest batch.
    """

    sizes: Sequence[SizeTime]

    def of_requests(self, samples_per_request: int) -> ServiceTimes:
        """Times of batches of 1 to B requests, interpolated linearly between simulated sizes, seconds."""
        known = np.array([size.samples for size in self.sizes])
        asked = samples_per_request * np.arange(1, known[-1] // samples_per_request + 1)
        return ServiceTimes(self._at(asked, known, "time_s"), self._at(asked, known, "deviation_s"))

    def _at(self, asked: IntArray, known: IntArray, name: str) -> FloatArray:
        return np.asarray(np.interp(asked, known, [getattr(size, name) for size in self.sizes]))


def service_curve(
    resolved: ResolvedScenario[Any, Any], workload: InferenceWorkload, machine: Machine, most: int
) -> ServiceCurve:
    """Simulate batches of 1, 2, 4... samples, and of the largest size.

    Args:
        most: samples of the largest size: all whole requests that fit into a batch.
    """
    sizes = [1]
    while STEP * sizes[-1] < most:
        sizes.append(STEP * sizes[-1])
    return ServiceCurve([_timed(resolved, workload, machine, size) for size in dict.fromkeys([*sizes, most])])


def _timed(
    resolved: ResolvedScenario[Any, Any], workload: InferenceWorkload, machine: Machine, samples: int
) -> SizeTime:
    of_size = workload.of_batch(samples)
    time_s = iteration_s(resolved, of_size, machine)
    cache = workload.settings.gpu_cache
    if cache is None or cache >= 1.0:
        return SizeTime(samples, time_s, 0.0, None)
    rows, deviations = of_size.rows(), list[float]()
    for more, variance in (((1.0, 0.0), rows.host_variance), ((0.0, 1.0), rows.ssd_variance)):
        if float(variance.sum()) > 0.0:
            deviations.append(iteration_s(resolved, workload.of_batch(samples, more), machine) - time_s)
    return SizeTime(samples, time_s, hypot(*deviations), rows)

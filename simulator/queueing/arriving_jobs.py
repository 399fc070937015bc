"""Jobs that arrive at a set of devices, wait until enough devices are free, hold them for a while, and leave.

The order is first come, first served: a job waits behind all earlier jobs, even if enough devices are free for it. A
job with a patience of 0 does not wait, which makes the set a loss system.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np
import simpy
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ArrivingJobs:
    """Jobs in the order of their arrival.

    Attributes:
        arrival_s: `[J]` ascending.
        devices: `[J]` number of devices that a job holds, 1 or more.
        run_s: `[J]` time for which a job holds its devices, seconds.
        patience_s: `[J]` longest wait, seconds; below 0: the job is turned away even if devices are free.
    """

    arrival_s: NDArray[np.float64]
    devices: NDArray[np.int64]
    run_s: NDArray[np.float64]
    patience_s: NDArray[np.float64]


def served(jobs: ArrivingJobs, devices: int) -> NDArray[np.float64]:
    """Start of each job on a set of devices.

    Returns:
        `[J]` seconds; NaN if the job is turned away or leaves after its longest wait.
    """
    env = simpy.Environment()
    queue = _Queue(env, jobs, devices)
    env.process(queue.arrivals())
    env.run()
    return np.array(queue.starts)


def sustained_per_s(jobs: ArrivingJobs, devices: int) -> float:
    """Jobs per second that a never empty queue serves: the largest rate of arrivals without growth.

    The saturation rule (Baccelli and Foss, Queueing Systems 19, 1995): all jobs arrive at the start.
    """
    none, patient = np.zeros_like(jobs.arrival_s), np.full_like(jobs.arrival_s, math.inf)
    starts = served(replace(jobs, arrival_s=none, patience_s=patient), devices)
    last = float(starts.max())
    return len(starts) / last if last > 0 else math.inf


class _Queue:
    """Devices and their waiting jobs."""

    def __init__(self, env: simpy.Environment, jobs: ArrivingJobs, devices: int) -> None:
        self.env, self.free = env, devices
        self.waiting: deque[int] = deque()
        self.arrival_s, self.devices = jobs.arrival_s.tolist(), jobs.devices.tolist()
        self.run_s, self.patience_s = jobs.run_s.tolist(), jobs.patience_s.tolist()
        self.starts = [math.nan] * len(self.run_s)

    def arrivals(self) -> Generator[simpy.Event, object, None]:
        """Let every job arrive."""
        for job, when in enumerate(self.arrival_s):
            if when > self.env.now:
                yield self.env.timeout(when - self.env.now)
            self._arrive(job)

    def _arrive(self, job: int) -> None:
        patience = self.patience_s[job]
        if patience < 0:
            return
        if not self.waiting and self.devices[job] <= self.free:
            self._start(job)
        elif patience > 0:
            self.waiting.append(job)
            if patience < math.inf:
                self._later(patience).append(lambda _: self._leave(job))

    def _later(self, delay_s: float) -> list[object]:
        """List of callbacks of an event after a delay."""
        callbacks: list[object] | None = self.env.timeout(delay_s).callbacks  # type: ignore[assignment]
        return [] if callbacks is None else callbacks

    def _start(self, job: int) -> None:
        self.free -= self.devices[job]
        self.starts[job] = self.env.now
        self._later(self.run_s[job]).append(lambda _: self._end(job))

    def _end(self, job: int) -> None:
        self.free += self.devices[job]
        self._start_waiting()

    def _leave(self, job: int) -> None:
        """Remove a job that still waits from the queue; jobs behind it may then start."""
        if math.isnan(self.starts[job]):
            self.waiting.remove(job)
            self._start_waiting()

    def _start_waiting(self) -> None:
        while self.waiting and self.devices[self.waiting[0]] <= self.free:
            self._start(self.waiting.popleft())

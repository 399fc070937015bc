"""Traffic of other jobs on the links: a share of every link of a class, all the time or in bursts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simulator.lowered import PS_PER_S, Background
from simulator.network.levels import LEVEL_PORTS, ResourceClass
from simulator.network.topology import Topology


@dataclass(frozen=True, slots=True)
class OtherJob:
    """Traffic of another job on one class of links.

    Attributes:
        share: fraction of every link, in (0, 1).
        on_s: length of a burst; 0 for traffic all the time.
        off_s: pause between two bursts; 0 for traffic all the time.
        phase_s: when a burst begins, counted from the start of the run.
    """

    share: float
    on_s: float = 0.0
    off_s: float = 0.0
    phase_s: float = 0.0

    @property
    def period_s(self) -> float:
        """Period of the bursts; 0 for traffic all the time."""
        return self.on_s + self.off_s if self.off_s > 0.0 else 0.0


def background_of(jobs: Mapping[ResourceClass, OtherJob], topology: Topology) -> tuple[Background, ...]:
    """The traffic as the engine takes it; classes that the machine lacks, and shares of 0, are left out."""
    found = []
    for level in (*topology.levels, *topology.host_levels):
        job = jobs.get(level.name)
        if job is None or job.share == 0.0:
            continue
        firsts = [topology.first(port) for port in LEVEL_PORTS[level.name]]
        resources = np.concatenate([first + np.arange(level.count) for first in firsts])
        steady = job.period_s == 0.0
        on_ps, off_ps, phase_ps = (0 if steady else round(s * PS_PER_S) for s in (job.on_s, job.off_s, job.phase_s))
        found.append(Background(resources, job.share, on_ps, off_ps, phase_ps))
    return tuple(found)

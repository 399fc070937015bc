"""The queue in front of the servers: latency at the scenario's rate, and over all rates up to saturation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from inputs.quantities import format_quantity
from scenarios.inference.section import InferenceSection
from scenarios.inference.service import ServiceCurve
from simulator.queueing.arrivals import poisson_arrivals
from simulator.queueing.batching import BatchRule, Served, ServiceTimes, serve
from simulator.queueing.latency import RequestLatency, latency_of, load_of, queue_over_time

LOADS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
"""Points of the curve of latency over load: fractions of the servers' capacity."""

CURVE_REQUESTS, CURVE_BATCHES, MOST_CURVE_REQUESTS = 40_000, 50, 1_000_000
"""Requests of a point of the curve: 36 of the counted ones are beyond the largest percentile; full batches of each
server, if these are more; and requests at most."""

GOOD_LOAD = 0.8
"""Fraction of the capacity that a refusal of a larger rate proposes; waiting times grow without bound towards 1."""


@dataclass(frozen=True, slots=True)
class Servers:
    """Servers with their requests.

    Attributes:
        section: the scenario's keys.
        count: number of servers.
        service: times of batches by number of requests.
        seed: seed of arrivals, of differences between batches, and of random routes.
    """

    section: InferenceSection
    count: int
    service: ServiceTimes
    seed: int

    @property
    def capacity_per_s(self) -> float:
        """Requests per second that the servers answer when batches are always full."""
        return self.service.capacity_per_s(self.count)

    @property
    def utilisation(self) -> float:
        """Requests that arrive over those that the servers could answer."""
        return self.section.requests_per_s / self.capacity_per_s

    def served(self, rate_per_s: float, horizon_s: float, slower: float = 1.0) -> Served:
        """Answer the requests of a time, with batches that take ``slower`` times as long."""
        arrivals, others = (np.random.Generator(np.random.PCG64([self.seed, number])) for number in (0, 1))
        rule = BatchRule(len(self.service.mean_s), self.section.max_wait)
        arrival_s = poisson_arrivals(rate_per_s, horizon_s, arrivals)
        return serve(arrival_s, self.count, rule, self.service.times(slower), others, self.section.routing)

    def latency(self, slower: float) -> RequestLatency | None:
        """Latency with batches that take ``slower`` times as long; None where they cannot answer all requests."""
        if slower * self.utilisation >= 1.0:
            return None
        horizon_s = self.section.simulated_time
        return latency_of(self.served(self.section.requests_per_s, horizon_s, slower), horizon_s)

    def curve(self) -> Iterator[dict[str, float]]:
        """Latency and work at some fractions of the capacity."""
        batches = CURVE_BATCHES * self.count * len(self.service.mean_s)
        requests = min(max(CURVE_REQUESTS, batches), MOST_CURVE_REQUESTS)
        for load in LOADS:
            rate = load * self.capacity_per_s
            horizon_s = requests / rate
            served = self.served(rate, horizon_s)
            work = load_of(served, self.count, horizon_s)
            of = {"busy": work.busy, "mean_batch": work.mean_batch, "waiting": work.waiting}
            yield {"load": load, "requests_per_s": rate, **latency_of(served, horizon_s).to_dict(), **of}


def serving_of(servers: Servers, curve: ServiceCurve, low: float, high: float) -> dict[str, Any]:
    """The section of the summary.

    Args:
        low: p10 of a batch's time over its prediction.
        high: p90 of it.
    """
    section, horizon_s = servers.section, servers.section.simulated_time
    served = servers.served(section.requests_per_s, horizon_s)
    times, waiting = queue_over_time(served, horizon_s)
    ends = {name: None if (of := servers.latency(slower)) is None else of.to_dict()
            for name, slower in (("latency_p10", low), ("latency_p90", high))}  # fmt: skip
    return {
        "requests_per_s": section.requests_per_s,
        "samples_per_request": section.samples_per_request,
        "servers": servers.count,
        "routing": section.routing,
        "max_batch": curve.sizes[-1].samples,
        "max_wait_s": section.max_wait,
        "capacity_requests_per_s": servers.capacity_per_s,
        "utilisation": servers.utilisation,
        "simulated_s": horizon_s,
        "latency": latency_of(served, horizon_s).to_dict(),
        **ends,
        "work": asdict(load_of(served, servers.count, horizon_s)),
        "sizes": [size.to_dict() for size in curve.sizes],
        "load": list(servers.curve()),
        "queue": {"time_s": times.tolist(), "waiting": waiting.tolist()},
    }


def overload(servers: Servers, ranks_per_node: int, nodes: int) -> tuple[str, int]:
    """Message of a rate that the servers cannot answer, and the number of nodes that would at `GOOD_LOAD`."""
    section, capacity = servers.section, servers.capacity_per_s
    needed = -(-section.requests_per_s // (GOOD_LOAD * capacity / servers.count))
    enough = max(nodes + 1, int(-(-needed // ranks_per_node)))
    time = format_quantity(float(servers.service.mean_s[-1]), "s")
    message = (
        f"workload.requests_per_s: {section.requests_per_s:,.10g} requests a second are "
        f"{100 * servers.utilisation:.0f} % of what {servers.count} server{'s' * (servers.count > 1)} can answer, and "
        f"their queue would grow without end; expected below {_rounded(capacity)} "
        f"({len(servers.service.mean_s):,} requests a batch in {time}), e.g. {_rounded(GOOD_LOAD * capacity)} for "
        f"{100 * GOOD_LOAD:.0f} %, or nodes={enough}"
    )
    return message, enough


def _rounded(rate: float) -> str:
    """A rate with four significant digits: ``2,361,000``."""
    return f"{float(f'{rate:.4g}'):,.10g}"

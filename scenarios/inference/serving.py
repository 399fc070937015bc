"""The queue in front of the servers: latency at the scenario's rate, and at rates up to saturation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

import numpy as np

from inputs.quantities import format_quantity
from scenarios.inference.section import InferenceSection
from scenarios.inference.service import ServiceCurve
from simulator.queueing.arrivals import poisson_arrivals
from simulator.queueing.batching import BatchRule, Served, ServiceTimes, serve
from simulator.queueing.latency import WARM_UP, RequestLatency, latency_of, load_of, queue_over_time

LOADS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
"""Points of the curve of latency over load: fractions of the servers' capacity."""

CURVE_REQUESTS, CURVE_BATCHES, MOST_CURVE_REQUESTS = 40_000, 50, 10_000_000
"""Smallest number of requests of a point of the curve: 36 counted requests are above the largest percentile. Smallest
number of batches of each server after the warm-up (half of them gives values 5 % below the median of many runs at a
load of 95 %). Largest number of requests, which take a second and 500 MB: a point that needs more is left out."""

GOOD_LOAD = 0.8
"""Fraction of the capacity that the message on a larger rate proposes; waiting times grow without bound towards 1."""


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
        """Requests per second that the servers answer with full batches."""
        return self.service.capacity_per_s(self.count)

    @property
    def utilisation(self) -> float:
        """Rate of arriving requests over the capacity."""
        return self.section.requests_per_s / self.capacity_per_s

    def served(self, rate_per_s: float, horizon_s: float, slower: float = 1.0) -> Served:
        """Answer the requests of a time span, with batches that take ``slower`` times as long."""
        arrivals, others = (np.random.Generator(np.random.PCG64([self.seed, number])) for number in (0, 1))
        rule = BatchRule(len(self.service.mean_s), self.section.max_wait)
        arrival_s = poisson_arrivals(rate_per_s, horizon_s, arrivals)
        return serve(arrival_s, self.count, rule, self.service.times(slower), others, self.section.routing)

    def latency(self, slower: float) -> RequestLatency | None:
        """Latency with batches that take ``slower`` times as long; None if the servers cannot answer all requests."""
        if slower * self.utilisation >= 1.0:
            return None
        horizon_s = self.section.simulated_time
        return latency_of(self.served(self.section.requests_per_s, horizon_s, slower), horizon_s)

    def usual_batch(self, rate_per_s: float) -> int:
        """Requests of a batch in equilibrium: arrivals at a server while it waits for such a batch and answers it."""
        arriving = rate_per_s / self.count * (self.service.mean_s + self.section.max_wait)
        enough = np.flatnonzero(np.arange(1, len(arriving) + 1) >= arriving)
        return int(enough[0]) + 1 if len(enough) else len(arriving)

    def curve_requests(self, load: float) -> int:
        """Number of requests that a point of the curve needs."""
        batches = ceil(CURVE_BATCHES / (1.0 - WARM_UP)) * self.count
        return max(CURVE_REQUESTS, batches * self.usual_batch(load * self.capacity_per_s))

    def curve(self) -> Iterator[dict[str, float]]:
        """Latency and work at the fractions of the capacity that can be simulated."""
        for load in LOADS:
            requests, rate = self.curve_requests(load), load * self.capacity_per_s
            if requests > MOST_CURVE_REQUESTS:
                continue
            horizon_s = requests / rate
            served = self.served(rate, horizon_s)
            work = load_of(served, self.count, horizon_s)
            of = {"busy": work.busy, "mean_batch": work.mean_batch, "waiting": work.waiting, "simulated_s": horizon_s}
            yield {"load": load, "requests_per_s": rate, **latency_of(served, horizon_s).to_dict(), **of}


def serving_of(servers: Servers, curve: ServiceCurve, low: float, high: float) -> dict[str, Any]:
    """The section of the summary.

    Args:
        low: p10 of a batch's time over its prediction.
        high: p90 of a batch's time over its prediction.
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
        "load_left_out": [load for load in LOADS if servers.curve_requests(load) > MOST_CURVE_REQUESTS],
        "queue": {"time_s": times.tolist(), "waiting": waiting.tolist()},
    }


def enough_nodes(servers: Servers, ranks_per_node: int, nodes: int) -> int:
    """Number of nodes, more than ``nodes``, whose servers answer the rate at `GOOD_LOAD`."""
    needed = -(-servers.section.requests_per_s // (GOOD_LOAD * servers.capacity_per_s / servers.count))
    return max(nodes + 1, int(-(-needed // ranks_per_node)))


def overload(servers: Servers, more: Sequence[str]) -> str:
    """Error message for a rate above the capacity of the servers.

    Args:
        more: settings of a sufficient number of nodes; empty: the cluster has no more nodes.
    """
    section, capacity = servers.section, servers.capacity_per_s
    time = format_quantity(float(servers.service.mean_s[-1]), "s")
    requests = len(servers.service.mean_s)
    return (
        f"workload.requests_per_s: {section.requests_per_s:,.10g} requests a second are "
        f"{100 * servers.utilisation:.0f} % of what {servers.count} server{'s' * (servers.count > 1)} can answer, and "
        f"their queue would grow without end; expected below {_rounded(capacity)} "
        f"({requests:,} request{'s' * (requests > 1)} a batch in {time}), e.g. {_rounded(GOOD_LOAD * capacity)} for "
        f"{100 * GOOD_LOAD:.0f} %{', or ' * bool(more)}{' with '.join(more)}"
    )


def _rounded(rate: float) -> str:
    """A rate with four significant digits: ``2,361,000``."""
    return f"{float(f'{rate:.4g}'):,.10g}"

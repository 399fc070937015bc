"""Closed forms of queues with Poisson arrivals: waiting times of M/D/1, and blocking of loss systems.

Blocking has Erlang's formula for equal jobs, and the recursion of Kaufman and Roberts for jobs of several sizes. Both
hold for any law of the service time; only the mean service time counts (insensitivity).
"""

from __future__ import annotations

from collections.abc import Sequence


def md1_wait_s(arrivals_per_s: float, service_s: float) -> float:
    """Mean waiting time before service of Poisson arrivals at one server with a fixed service time, seconds.

    ``rho s / (2 (1 - rho))`` with ``rho = rate x s`` (M/D/1; Pollaczek 1930, Khinchine 1932); infinite from rho = 1 on.
    """
    rho = arrivals_per_s * service_s
    return rho * service_s / (2.0 * (1.0 - rho)) if rho < 1.0 else float("inf")


def erlang_b(servers: int, load: float) -> float:
    """Fraction of jobs that find all servers busy: Erlang's loss formula, by its recursion (Erlang 1917).

    Args:
        load: offered load, arrivals per second times mean service time.
    """
    blocked = 1.0
    for busy in range(1, servers + 1):
        blocked = load * blocked / (busy + load * blocked)
    return blocked


def kaufman_roberts(servers: int, streams: Sequence[tuple[int, float]]) -> list[float]:
    """Fraction of each stream's jobs that find too few servers free (Kaufman, IEEE Trans. Commun. 29, 1981; Roberts).

    Args:
        streams: servers that a job of the stream holds, and the stream's offered load in jobs.
    """
    weights = [1.0]
    for busy in range(1, servers + 1):
        held = sum(size * load * weights[busy - size] for size, load in streams if size <= busy)
        weights.append(held / busy)
        if weights[-1] > _LARGEST:
            weights = [weight / _LARGEST for weight in weights]
    total = sum(weights)
    return [sum(weights[max(0, servers - size + 1) :]) / total for size, _ in streams]


_LARGEST = 1e100
"""Weight of a state, without unit, above which all weights are scaled down: only their ratios count."""

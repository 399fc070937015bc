"""Waiting times that are known in closed form."""

from __future__ import annotations


def md1_wait_s(arrivals_per_s: float, service_s: float) -> float:
    """Mean waiting time before service of Poisson arrivals at one server with a fixed service time, seconds.

    ``rho s / (2 (1 - rho))`` with ``rho = rate x s`` (M/D/1; Pollaczek 1930, Khinchine 1932); infinite from rho = 1 on.
    """
    rho = arrivals_per_s * service_s
    return rho * service_s / (2.0 * (1.0 - rho)) if rho < 1.0 else float("inf")

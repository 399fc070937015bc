"""Consequences of other jobs' bursts for a run: its shortest length, and warnings."""

from __future__ import annotations

from scenarios.resolved import ResolvedScenario
from simulator.analysis import IterationTime, SteadyRule
from simulator.lowered import PS_PER_S
from simulator.lowering import Machine
from simulator.program import TaskGraph

DIVIDES = 1e-3
"""Relative difference below which periods fill the measured time wholly: that of two settled windows."""


def longest_period_s(machine: Machine) -> float:
    """The longest period of bursts on links that the machine has; 0 without any."""
    jobs = machine.background.items()
    return max((job.period_s for name, job in jobs if name in machine.topology.rates), default=0.0)


EXACT = 1e-6
"""Largest relative difference of repeating iterations, from rounding to picoseconds."""

REPEATING = SteadyRule(window=1, tolerance=EXACT)
"""Rule of iterations that are all alike once two are."""


def steady_rule(resolved: ResolvedScenario, machine: Machine, graph: TaskGraph) -> SteadyRule:
    """Rule of a settled run: windows last at least a period of the bursts."""
    bursts_s = longest_period_s(machine)
    if graph.repeats and not bursts_s and not resolved.scenario.variation.varies:
        return REPEATING
    return SteadyRule(span_ps=round(bursts_s * PS_PER_S))


def background_warnings(machine: Machine, measured: IterationTime) -> list[str]:
    """Links that the job does not have, and bursts that do not fit into the measured time a whole number of times."""
    found = []
    for name, job in sorted(machine.background.items()):
        if name not in machine.topology.rates:
            found.append(f"network.background.{name}: this job uses no such links, the traffic changes nothing")
        elif job.period_s > 0.0:
            periods = measured.seconds * measured.measured_iterations / job.period_s
            if abs(periods - max(round(periods), 1)) > DIVIDES * periods:
                found.append(
                    f"network.background.{name}: the measured {measured.measured_iterations} iterations are "
                    f"{periods:.2f} periods of the bursts; the mean depends on which part of one they hold"
                )
    return found

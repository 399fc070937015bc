"""The machine that the ranks of a resolved scenario are placed on."""

from __future__ import annotations

from scenarios.estimate import expected_size, require_memory
from scenarios.resolved import ResolvedScenario
from scenarios.types import Bursts
from simulator.lowering import Machine, build_machine
from simulator.network.background import OtherJob


def same_machine(one: ResolvedScenario, other: ResolvedScenario) -> bool:
    """Whether `machine_of` two scenarios is the same machine."""
    return _inputs(one) == _inputs(other)


def machine_like(machine: Machine, before: ResolvedScenario, resolved: ResolvedScenario) -> Machine:
    """Machine of a scenario, the given one if an earlier scenario has the same; raises as `machine_of`."""
    if not same_machine(before, resolved):
        return machine_of(resolved)
    require_memory(expected_size(resolved))
    return machine


def _inputs(resolved: ResolvedScenario) -> tuple[object, ...]:
    """Everything that a machine depends on."""
    scenario = resolved.scenario
    seed = scenario.variation.seed if scenario.placement == "random" else None
    return (
        resolved.world_size, scenario.placement, seed, resolved.site_order,
        resolved.framework.launch_s.value, scenario.network, resolved.cluster,
    )  # fmt: skip


def machine_of(resolved: ResolvedScenario) -> Machine:
    """The models of the placed cluster.

    Raises:
        InputError: an unknown algorithm, or an impossible size.
        InfeasibleError: a run on so many ranks needs more memory than this machine has.
    """
    require_memory(expected_size(resolved))
    return build_machine(
        resolved.cluster,
        resolved.world_size,
        launch_s=resolved.framework.launch_s.value,
        placement=resolved.scenario.placement,
        seed=resolved.scenario.variation.seed,
        site_order=resolved.site_order,
        algorithms={str(op): name for op, name in resolved.scenario.network.algorithms.items()},
        background={name: _other_job(load) for name, load in resolved.scenario.network.background.items()},
    )


def _other_job(load: float | Bursts) -> OtherJob:
    if isinstance(load, Bursts):
        return OtherJob(load.share, load.on, load.off, load.phase)
    return OtherJob(load)

"""Traffic between GPUs and their hosts: copies, kernels that read host memory, caches filled from it or from SSDs.

A GPU has its PCIe link for itself unless another of its streams or a collective uses it. The up-link of its PCIe
switch, the memory channels of its socket and the SSDs of its node it shares with other ranks; they count where the
ranks on one could ask for more than it has. What may meet others becomes an activity per rank: as its latency the time
that the kernel spends in device memory, then work on PCIe and what lies behind it, then work on the SSDs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from simulator.lowered import Activity, Phase, picoseconds_of
from simulator.lowering.machine import Machine
from simulator.lowering.private import toward_mean
from simulator.network.levels import Level, Port
from simulator.operators import Amount, Copy, FloatArray, HostTraffic
from simulator.program import IntArray, Program
from simulator.work import host_traffic

PORTS: dict[Port, tuple[Port, ...]] = {
    "pcie_h2d": ("pcie_h2d", "switch_down", "ddr"),
    "pcie_d2h": ("pcie_d2h", "switch_up", "ddr"),
}
"""Links that traffic of a direction takes, as far as the machine has them."""


def directions_used(activities: Sequence[Activity], machine: Machine) -> set[Port]:
    """Directions of PCIe links on which a task may meet collectives or other jobs."""
    if machine.background.keys() & {"pcie", "switch", "ddr", "ssd"}:
        return set(PORTS)
    topology, found = machine.topology, set[Port]()
    for port in PORTS:
        first = topology.first(port) if port in topology.ports else 0
        past = first + topology.port_count(port)
        phases = (phase for activity in activities for phase in activity.phases)
        if any(np.any((phase.resources >= first) & (phase.resources < past)) for phase in phases):
            found.add(port)
    return found


def shared_tasks(program: Program, machine: Machine, used: Collection[Port]) -> list[int]:
    """Tasks whose traffic may meet that of another stream of the rank, of other ranks, or ``used`` directions.

    Args:
        used: directions in which others use the PCIe links.
    """
    streams: dict[Port, set[int]] = {port: set() for port in PORTS}
    traffic = {task: found for task, work in enumerate(program.work) if (found := host_traffic(work)) is not None}
    for task, found in traffic.items():
        for port in _sizes(found):
            streams[port].add(int(program.stream_of[task]))
    return [
        task
        for task, found in traffic.items()
        if any(
            len(streams[port]) > 1 or port in used or any(_crowded(machine, far, program) for far in PORTS[port][1:])
            for port in _sizes(found)
        )
        or _on_ssds(found)
    ]


def host_activities(
    program: Program, task: int, machine: Machine, seconds: Amount, evened: float
) -> Iterator[Activity]:
    """The activities of a task's ranks ``[P]``.

    Args:
        seconds: duration of the task when it is alone: a scalar, or ``[P]``.
        evened: fraction by which differences between ranks move to their mean, 0 to 1.
    """
    traffic, count = host_traffic(program.work[task]) or HostTraffic(), program.rank_count
    whole_s, pcie_s, ssd_s = (
        np.broadcast_to(np.asarray(value, dtype=np.float64), count)
        for value in (
            seconds,
            toward_mean(machine.compute.pcie_s(traffic), evened),
            toward_mean(machine.compute.ssd_s(traffic), evened),
        )
    )
    if isinstance(program.work[task], Copy):  # a short copy lasts as long as the shortest kernel, all of it on the link
        pcie_s = whole_s
    latency_ps = picoseconds_of(np.maximum(whole_s - pcie_s - ssd_s, 0.0))
    numbers, link_s = _links(program, traffic, machine)
    alone_s = np.maximum(pcie_s, link_s.max(axis=1, initial=0.0))
    usage = np.divide(link_s, alone_s[:, None], out=np.zeros_like(link_s), where=link_s > 0.0)
    pcie_ps, ssd_ps = picoseconds_of(alone_s), picoseconds_of(ssd_s)
    disks = machine.topology.first("ssd") + machine.topology.ports["ssd"].link[program.ranks] if ssd_ps.any() else None
    for i, rank in enumerate(program.ranks):
        phases = [_phase(int(latency_ps[i]), int(pcie_ps[i]), numbers[i], usage[i])]
        if disks is not None:
            phases.append(_phase(0, int(ssd_ps[i]), disks[i : i + 1], np.ones(1)))
        yield Activity(f"{program.names[task]} [rank {rank}]", tuple(phases))


def _links(program: Program, traffic: HostTraffic, machine: Machine) -> tuple[IntArray, FloatArray]:
    """Links that the traffic of each rank takes ``[P, U]``, and seconds it would take on each alone ``[P, U]``."""
    topology, rates, ranks = machine.topology, machine.collectives.rates, program.ranks
    taken: dict[Port, Amount] = {}
    for direction, size in _sizes(traffic).items():
        for port in (direction, *(far for far in PORTS[direction][1:] if _counts(machine, far, program))):
            taken[port] = taken.get(port, 0.0) + size
    known = [(port, topology.ports[port], size) for port, size in taken.items()]
    if not known:
        return np.zeros((len(ranks), 0), dtype=np.int64), np.zeros((len(ranks), 0))
    numbers = np.stack([topology.first(port) + level.link[ranks] for port, level, _ in known], axis=1)
    link_s = [np.broadcast_to(size / rates[level.name], len(ranks)) for _, level, size in known]
    return numbers, np.stack(link_s, axis=1)


def _phase(latency_ps: int, work_ps: int, resources: IntArray, usage: FloatArray) -> Phase:
    used = usage > 0.0 if work_ps else np.zeros(len(usage), dtype=np.bool_)
    return Phase(latency_ps, work_ps, resources[used], usage[used])


def _sizes(traffic: HostTraffic) -> dict[Port, Amount]:
    """Bytes by direction, without those in which nothing moves."""
    sizes: dict[Port, Amount] = {"pcie_h2d": traffic.read_bytes, "pcie_d2h": traffic.write_bytes}
    return {port: size for port, size in sizes.items() if np.any(np.asarray(size) > 0.0)}


def _on_ssds(traffic: HostTraffic) -> bool:
    return bool(np.any(np.asarray(traffic.ssd_read_bytes) > 0.0) or np.any(np.asarray(traffic.ssd_write_bytes) > 0.0))


def _counts(machine: Machine, port: Port, program: Program) -> bool:
    """Whether a link behind the PCIe links can slow a transfer: collectives or other jobs use it, or it is crowded."""
    level = machine.topology.ports.get(port)
    if level is None:
        return False
    return level in machine.topology.levels or level.name in machine.background or _crowded(machine, port, program)


def _crowded(machine: Machine, port: Port, program: Program) -> bool:
    """Whether the ranks on a link behind the PCIe links could ask for more than it has.

    Kernels read and write host memory at once; copies of input are one way, but for a few bytes.
    """
    level = machine.topology.ports.get(port)
    if level is None:
        return False
    rates = machine.collectives.rates
    asked, room = _ranks_on_one(level) * rates["pcie"], rates[level.name] * _ENOUGH
    if port != "ddr" or asked > room or len(PORTS) * asked <= room:
        return asked > room
    return any(host_traffic(work) is not None and not isinstance(work, Copy) for work in program.work)


def _ranks_on_one(level: Level) -> int:
    return int(np.bincount(level.link).max(initial=0))


_ENOUGH = 1.0 + 1e-9
"""A link with room for all its ranks is never crowded by rounding."""

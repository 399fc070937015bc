"""Batches that come in over the NICs of collectives, where a node has no front-end NICs: an activity per rank each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from simulator.lowered import Activity, Phase
from simulator.lowering.machine import Machine
from simulator.network.model import picoseconds_of
from simulator.operators import Amount, Ingest
from simulator.program import Program


def shares_nics(activities: Sequence[Activity], machine: Machine) -> bool:
    """Whether batches come in over links that collectives or other jobs use."""
    topology = machine.topology
    if machine.collectives.cluster.node.frontend is not None or "nic_rx" not in topology.ports:
        return False
    first, past = topology.first("nic_rx"), topology.first("nic_rx") + topology.port_count("nic_rx")
    phases = (phase for activity in activities for phase in activity.phases)
    return "nic" in machine.background or any(
        np.any((phase.resources >= first) & (phase.resources < past)) for phase in phases
    )


def ingest_activities(program: Program, task: int, machine: Machine, seconds: Amount) -> Iterator[Activity]:
    """The receiving task of each rank ``[P]``, which takes ``seconds`` alone, as work on the NIC that it uses."""
    work, ranks, level = program.work[task], program.ranks, machine.topology.ports["nic_rx"]
    if not isinstance(work, Ingest):
        raise TypeError(f"task {program.names[task]} receives nothing")
    alone_s = np.broadcast_to(np.asarray(seconds, dtype=np.float64), len(ranks))
    size = np.broadcast_to(np.asarray(work.bytes, dtype=np.float64), len(ranks))
    busy = alone_s > 0.0
    usage = np.divide(size / machine.collectives.rates["nic"], alone_s, out=np.zeros_like(alone_s), where=busy)
    work_ps, links = picoseconds_of(alone_s), machine.topology.first("nic_rx") + level.link[ranks]
    for i, rank in enumerate(ranks):
        used = slice(i, i + 1) if work_ps[i] and usage[i] > 0.0 else slice(0)
        phase = Phase(0, int(work_ps[i]), links[used], np.minimum(usage[used], 1.0))
        yield Activity(f"{program.names[task]} [rank {rank}]", (phase,))

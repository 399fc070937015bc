"""From a stage's traffic per member to bytes per port, and on to seconds and usage.

A port is slow for one of two reasons, and they differ for whoever shares it:

* its *usable* fraction: no traffic gets more of this link class; the rest of the capacity exists for nobody;
* the *reached* fraction of this operation, protocol and algorithm, which is at most that: a cap. It limits the
  activity and adds no bytes, so what it leaves is there for others.

An activity alone takes ``work = max over ports of bytes / (capacity x reached)`` and uses
``bytes / (capacity x usable) / work`` of each port, at most 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simulator.network.collectives.algorithm import Stage, Traffic
from simulator.network.membership import Block, slot_sums
from simulator.network.topology import CLASS_OF, Port, ResourceClass, Topology
from simulator.operators import FloatArray

PortBytes = dict[Port, FloatArray]
"""Bytes per port ``[a, w]``: a is 1 or I, w is 1 where all ports of an instance carry the same."""


@dataclass(frozen=True, slots=True)
class LinkFractions:
    """Shares of a link class's capacity: ``reached`` by one operation, ``usable`` by all together."""

    reached: float
    usable: float


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """The work of a stage: seconds ``[a, 1]`` alone, and the usage of each port ``[a, w]``."""

    seconds: FloatArray
    usage: PortBytes


def port_bytes(stage: Stage, block: Block, topology: Topology) -> PortBytes:
    """Bytes over each port; ports that carry nothing anywhere are left out."""
    crossing = stage.off_rail if topology.rail_optimised else 1.0
    loads: PortBytes = {
        "nvlink_tx": stage.nvlink.out_bytes,
        "nvlink_rx": stage.nvlink.in_bytes,
        **_nic_bytes(stage.nic, block),
        **(_spine_bytes(stage.nic, block, crossing) if topology.spine else {}),
    }
    return {port: load for port, load in loads.items() if np.any(load > 0.0)}


def _nic_bytes(traffic: Traffic, block: Block) -> PortBytes:
    def per_port(amount: FloatArray) -> FloatArray:
        if amount.shape[1] == 1 and block.sharers:
            return amount * block.sharers
        return slot_sums(amount, block.port_slot, block.ports.shape[1])

    return {"nic_tx": per_port(traffic.out_bytes), "nic_rx": per_port(traffic.in_bytes)}


def _spine_bytes(traffic: Traffic, block: Block, crossing: float) -> PortBytes:
    def per_node(amount: FloatArray) -> FloatArray:
        if amount.shape[1] == 1 and block.uniform:
            return amount * (crossing * block.local_size)
        return slot_sums(amount * crossing, block.node_slot, block.node_count)

    return {"spine_up": per_node(traffic.out_bytes), "spine_down": per_node(traffic.in_bytes)}


def full_rate_seconds(loads: PortBytes, rates: Mapping[ResourceClass, float]) -> dict[ResourceClass, FloatArray]:
    """Seconds ``[a, 1]`` of each class's busiest port at its full capacity."""
    seconds: dict[ResourceClass, FloatArray] = {}
    for port, load in loads.items():
        busiest = load.max(axis=1, keepdims=True) / rates[CLASS_OF[port]]
        seconds[CLASS_OF[port]] = np.maximum(busiest, seconds.get(CLASS_OF[port], 0.0))
    return seconds


def work_of(
    loads: PortBytes,
    rates: Mapping[ResourceClass, float],
    fractions: Mapping[ResourceClass, LinkFractions],
    efficiency: float,
) -> Work:
    """Time and usage of a stage's traffic.

    Args:
        loads: bytes per port.
        rates: capacity of each class, B/s.
        fractions: what the operation reaches of each class, and what is usable.
        efficiency: of the protocol and algorithm, multiplies `LinkFractions.reached`.
    """
    seconds = np.zeros((1, 1))
    for name, full in full_rate_seconds(loads, rates).items():
        seconds = np.maximum(seconds, full / (fractions[name].reached * efficiency))
    usage = {}
    for port, load in loads.items():
        name = CLASS_OF[port]
        alone = load / (rates[name] * fractions[name].usable)
        usage[port] = np.minimum(np.divide(alone, seconds, out=np.zeros_like(alone + seconds), where=seconds > 0), 1.0)
    return Work(seconds, usage)

"""Bytes per link of a stage's traffic, and their seconds and usage.

A link is slow for one of two reasons, and they differ for the other traffic on it:

* its *usable* fraction: no traffic gets more of this link class; the rest of the capacity is lost;
* the *reached* fraction of this operation, protocol and algorithm, which is at most that: a cap. It limits the
  activity and adds no bytes, so the remaining capacity is there for others.

An activity alone takes ``work = max over links of bytes / (capacity x reached)`` and uses
``bytes / (capacity x usable) / work`` of each link, at most 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from simulator.network.blocks import Block
from simulator.network.collectives.algorithm import Stage
from simulator.network.levels import CLASS_OF, LEVEL_PORTS, Level, Port, ResourceClass
from simulator.network.patterns import Pattern
from simulator.network.topology import Topology
from simulator.network.traffic import Traffic, both_ways
from simulator.operators import FloatArray
from simulator.program import IntArray

PortBytes = dict[Port, FloatArray]
"""Bytes over each of the links of one kind that an instance uses ``[a, w]``, in the order of their numbers."""


@dataclass(frozen=True, slots=True)
class LinkFractions:
    """Shares of a link class's capacity: ``reached`` by one operation, ``usable`` by all together."""

    reached: float
    usable: float


@dataclass(frozen=True, slots=True, eq=False)
class LinkWork:
    """The work of a stage: seconds ``[a, 1]`` alone, and the usage of each link ``[a, w]``."""

    seconds: FloatArray
    usage: PortBytes


OF_GPUS: tuple[ResourceClass, ...] = ("nvlink", "pcie", "switch", "ddr")
"""Links between GPUs, and between them and their host's memory."""


def port_bytes(stage: Stage, block: Block, topology: Topology) -> PortBytes:
    """Bytes over each link; links that carry nothing anywhere are left out."""
    return _port_bytes({level: _link_bytes(stage.pattern, block, level) for level in topology.levels})


def host_port_bytes(stage: Stage, block: Block, topology: Topology) -> PortBytes:
    """Bytes over each link (`port_bytes`) between buffers in the memory of hosts.

    Links of GPUs carry nothing, but for the traffic of NICs that pass them. A byte to another rank of the node is read
    and written in memory, one to another node is read, or written, at each end.
    """
    pattern, loads = stage.pattern, {}
    for level in topology.levels:
        if level.name not in OF_GPUS:
            loads[level] = _link_bytes(pattern, block, level)
        elif level.name == "switch" and level.beside is not None:
            loads[level] = _link_bytes(pattern, block, level, own=both_ways(np.zeros((1, 1))))
    memory = topology.ports.get("ddr")
    if memory is not None:
        everything = pattern.crossing(block, np.arange(topology.world_size))
        own = everything if memory.beside is None else everything - pattern.crossing(block, topology.node_of)
        loads[memory] = _link_bytes(pattern, block, memory, own=own)
    return _port_bytes(loads)


def near_bytes(stage: Stage, block: Block, topology: Topology) -> float:
    """Most bytes that a member receives from others of its node."""
    everything = stage.pattern.crossing(block, np.arange(topology.world_size))
    near = everything - stage.pattern.crossing(block, topology.node_of)
    return float(np.max(near.in_bytes, initial=0.0))


def _port_bytes(loads: Mapping[Level, tuple[FloatArray | None, ...]]) -> PortBytes:
    return {
        port: load
        for level, of_ports in loads.items()
        for port, load in zip(LEVEL_PORTS[level.name], of_ports, strict=True)
        if load is not None and np.any(load > 0.0)
    }


def _link_bytes(
    pattern: Pattern, block: Block, level: Level, own: Traffic | None = None
) -> tuple[FloatArray | None, ...]:
    """Bytes over the links of a level ``[a, w]`` for each of its ports; None where there are none.

    Args:
        own: traffic of the members without the traffic of their NICs; None: the pattern's traffic over the level.
    """
    if level.routed is not None:
        return level.routed.loads(pattern.messages(block), block)
    traffic = over_level(pattern, block, level) if own is None else own
    links = block.grouping(level.link)
    both = (traffic.out_bytes, traffic.in_bytes)
    if level.beside is not None:
        links, passing = block.joint(level.link, level.beside.link), pattern.crossing(block, level.beside.inside)
        both = (_side_by_side(block, both[0], passing.in_bytes), _side_by_side(block, both[1], passing.out_bytes))
    amounts = both if len(LEVEL_PORTS[level.name]) == len(both) else (both[0] + both[1],)
    return tuple(links.sums(level.crossings * amount) if np.any(amount > 0.0) else None for amount in amounts)


def _side_by_side(block: Block, one: FloatArray, other: FloatArray) -> FloatArray:
    """Amounts of each member in two roles ``[I, 2 n]``, as `Block.joint` numbers them."""
    return np.hstack([np.broadcast_to(amount, block.ranks.shape) for amount in (one, other)])


def links_used(port: Port, block: Block, topology: Topology) -> IntArray:
    """Numbers of the links of one kind, those of `port_bytes` ``[I, w]``, counted from 0."""
    level = topology.ports[port]
    if level.routed is not None:
        return level.routed.used(block)[LEVEL_PORTS[level.name].index(port)]
    if level.beside is not None:
        return block.joint(level.link, level.beside.link).numbers
    return block.grouping(level.link).numbers


def links_per_hop(pattern: Pattern, block: Block, topology: Topology) -> int:
    """Links between switches on the longest way of a pattern on a torus; 1 on other fabrics."""
    routed = (level.routed for level in topology.levels if level.routed is not None)
    return max((links.farthest(pattern.messages(block), block) for links in routed), default=1) or 1


def delay_s(stage: Stage, block: Block, topology: Topology) -> FloatArray | float:
    """Latency of the links between sites on the route of a stage, seconds ``[I, 1]`` or a number."""
    routed = (level.routed for level in topology.levels if level.routed is not None)
    found: FloatArray | float = 0.0
    for links in routed:
        found = found + links.delay_s(stage.pattern.messages(block), block, stage.rounds)
    return found


def over_level(pattern: Pattern, block: Block, level: Level) -> Traffic:
    """Bytes that each member sends and receives over its link of a level.

    Where rails save the link too, traffic that leaves on one rail and arrives on another needs it, so pairs that share
    neither node nor rail count: by inclusion and exclusion, those outside the node, plus those outside the rail, minus
    those that are outside one or the other.
    """
    if level.rails is not None:
        if pattern.on_rails:
            return pattern.crossing(block, level.rails.unit)
        both = pattern.crossing(block, level.inside) + pattern.crossing(block, level.rails.leaf)
        return both - pattern.crossing(block, level.rails.leaf_in_domain)
    traffic = pattern.crossing(block, level.inside)
    return traffic if level.within is None else traffic - pattern.crossing(block, level.within)


def mesh_share(pattern: Pattern, block: Block, topology: Topology) -> float:
    """Share of the ports (NVLink, sockets) that a pattern can use inside the node where that is least; 1 of no mesh.

    All instances of a block have the same GPUs of their nodes where these have links to some others only.
    """
    mesh = next((level.mesh for level in topology.levels if level.mesh is not None), None)
    if mesh is None:
        return 1.0
    shares = [1.0]
    for domain in range(block.node_count):
        together = np.flatnonzero(block.domains.slot[0] == domain)
        if len(together) > 1:
            local = mesh.local_rank_of[block.ranks[0][together]]
            if mesh.routes is not None:
                shares.append(mesh.routes.share(pattern, local, together))
            else:
                shares.append(pattern.mesh_share(mesh.share[np.ix_(local, local)], together))
    return min(shares)


def full_rate_seconds(loads: PortBytes, rates: Mapping[ResourceClass, float]) -> dict[ResourceClass, FloatArray]:
    """Seconds ``[a, 1]`` of each class's busiest link at its full capacity."""
    seconds: dict[ResourceClass, FloatArray] = {}
    for port, load in loads.items():
        busiest = load.max(axis=1, keepdims=True) / rates[CLASS_OF[port]]
        seconds[CLASS_OF[port]] = np.maximum(busiest, seconds.get(CLASS_OF[port], 0.0))
    return seconds


def link_seconds(
    loads: PortBytes,
    rates: Mapping[ResourceClass, float],
    fractions: Mapping[ResourceClass, LinkFractions],
    efficiency: float,
) -> dict[ResourceClass, FloatArray]:
    """Seconds ``[a, 1]`` of each class's busiest link.

    Args:
        loads: bytes per link.
        rates: capacity of each class, B/s.
        fractions: fraction of each class that the operation reaches.
        efficiency: efficiency of the protocol and algorithm, multiplies `LinkFractions.reached`.
    """
    return {
        name: full / (fractions[name].reached * efficiency) for name, full in full_rate_seconds(loads, rates).items()
    }


def busiest(seconds: Iterable[FloatArray]) -> FloatArray:
    """Largest of the seconds ``[a, 1]`` of several classes; 0 for none."""
    most = np.zeros((1, 1))
    for value in seconds:
        most = np.maximum(most, value)
    return most


def work_of(
    loads: PortBytes,
    rates: Mapping[ResourceClass, float],
    fractions: Mapping[ResourceClass, LinkFractions],
    busy_s: Mapping[ResourceClass, FloatArray],
    beside_s: FloatArray | float = 0.0,
    pace_s: float = 0.0,
) -> LinkWork:
    """Time and usage of a stage's traffic.

    Args:
        loads: bytes per link.
        rates: capacity of each class, B/s.
        fractions: the usable fraction of each class.
        busy_s: seconds of each class's busiest link, `link_seconds`.
        beside_s: time of the same kernel's other work beside the transfers, seconds ``[a, 1]`` or a number.
        pace_s: the transfers take at least this long, however fast the links.
    """
    seconds = np.maximum(busiest(busy_s.values()), pace_s) + beside_s
    usage = {}
    for port, load in loads.items():
        name = CLASS_OF[port]
        alone = load / (rates[name] * fractions[name].usable)
        usage[port] = np.minimum(np.divide(alone, seconds, out=np.zeros_like(alone + seconds), where=seconds > 0), 1.0)
    return LinkWork(seconds, usage)

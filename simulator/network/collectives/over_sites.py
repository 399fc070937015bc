"""Collectives over sites: inside each site, then once over the links between the sites, then inside again.

With S bytes, s sites of k members each, and phases in sequence:

    inside     reduce_scatter (all_reduce, reduce_scatter): (k - 1) / k x S on a ring of the site's members
    between    a ring over the sites in the order of the cluster: r rounds, each site sends B to the next, 1 / k of
               B from each member: base + r x network_hop + latency of r links in sequence, then B over the rate
    inside     all_gather (all_reduce, all_gather, broadcast): (k - 1) / k x S on a ring of the site's members

all_reduce has r = 2 (s - 1) and B = 2 (s - 1) / s x S; all_gather and reduce_scatter have half of both; broadcast and
reduce pass S along a chain of the sites, r = s - 1. No modelled library has this algorithm: systems for distant sites
combine two process groups, one inside a site and one between sites.
"""

from __future__ import annotations

import numpy as np

from simulator.network.blocks import Block
from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Latency, Stage, register
from simulator.network.site_patterns import BetweenSites, RingsInSites, site_members

BEFORE = ("all_reduce", "reduce_scatter", "reduce", "barrier")
"""Operations that first combine inside each site."""
AFTER = ("all_reduce", "all_gather", "broadcast", "barrier")
"""Operations that finally spread their result inside each site."""


def stages(call: Call) -> tuple[Stage, ...]:
    """Two or three phases in sequence; see the module's formula."""
    inside = _inside(call)
    before = (inside,) if inside is not None and call.op in BEFORE else ()
    after = (inside,) if inside is not None and call.op in AFTER else ()
    return (*before, _between(call), *after)


def _inside(call: Call) -> Stage | None:
    """A ring over the members of each site; None if each site has one member."""
    block, members = call.block, site_members(call.block)
    most = int(members.max())
    if most == 1:
        return None
    far = _nodes_of_a_site(block) - 1
    latency = Latency(near_hops=most - 1 - far, network_hops=far)
    return Stage(latency, RingsInSites(call.bytes * ((members - 1.0) / members)), own_bytes=call.bytes / most)


def _between(call: Call) -> Stage:
    """A ring over the sites, or a chain."""
    sites, chain = call.block.site_count, call.op in ("broadcast", "reduce")
    rounds = (2 if call.op in ("all_reduce", "barrier") else 1) * (sites - 1)
    amount = call.bytes * (1.0 if chain else rounds / sites)
    return Stage(Latency(network_hops=rounds), BetweenSites(amount, closed=not chain), rounds=rounds)


def _nodes_of_a_site(block: Block) -> int:
    """Largest number of nodes of an instance in one site."""
    if block.sites is None:
        return block.node_count
    width, rows = block.domains.width, np.arange(block.instance_count, dtype=np.int64)[:, None]
    nodes = block.domains.slot + width * (block.sites.slot + block.sites.width * rows)
    site_of = np.unique(nodes) // width
    return int(np.unique(site_of, return_counts=True)[1].max())


def applies(block: Block) -> bool:
    """Whether the members are on two or more sites."""
    return block.site_count > 1


OVER_SITES = register(
    CollectiveAlgorithm(
        name="over_sites",
        ops=("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "barrier"),
        description="inside each site, once over the links between the sites, and inside each site again",
        stages=stages,
        applies=applies,
        network_protocols=("simple",),
        over_sites=True,
    )
)

"""Links between sites: one resource for each direction of each pair, shared by all messages in this direction.

A message between two sites takes the latency of their link and then, alone, its bytes over the link's rate; messages in
one direction share the link, as messages share a NIC. All links are one resource class with the rate of the fastest
link; bytes on slower links have larger weights, as on a torus. Links are numbered ``a S + b`` for messages from site a
to b of S.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hardware_specs.types import Cluster
from simulator.network.blocks import Block, slot_sums
from simulator.network.destinations import Direct, Messages, Spread
from simulator.network.torus import widest
from simulator.operators import FloatArray
from simulator.program import IntArray


@dataclass(frozen=True, eq=False)
class SiteMesh:
    """The links between all pairs of sites.

    Attributes:
        names: names of the sites.
        site_of: site of each rank ``[world_size]``.
        rate_bytes_per_s: rate from each site to each other site ``[S, S]``; inf on the diagonal.
        latency_s: latency from each site to each other site, seconds ``[S, S]``; 0 on the diagonal.
    """

    names: tuple[str, ...]
    site_of: IntArray
    rate_bytes_per_s: FloatArray
    latency_s: FloatArray
    _used: dict[Block, tuple[IntArray]] = field(default_factory=dict)

    @staticmethod
    def of(cluster: Cluster, site_of: IntArray) -> SiteMesh:
        """The links of a cluster with sites."""
        names, links = cluster.site_names, cluster.site_links
        rate, latency = np.full((len(names), len(names)), np.inf), np.zeros((len(names), len(names)))
        for one, name in enumerate(names):
            for two, other in enumerate(names):
                link = None if links is None or one == two else links.between(name, other)
                if link is not None:
                    rate[one, two], latency[one, two] = link.bytes_per_s.value, link.latency_s.value
        return SiteMesh(names, site_of, rate, latency)

    @property
    def bytes_per_s(self) -> float:
        """Rate of the fastest link, bytes/s."""
        return float(self.rate_bytes_per_s[np.isfinite(self.rate_bytes_per_s)].max())

    @property
    def link_count(self) -> int:
        """Number of links, S^2; the links from a site to itself carry nothing."""
        return len(self.names) ** 2

    @property
    def link_names(self) -> tuple[str, ...]:
        """Names such as ``paris>tokyo``, by number."""
        return tuple(f"{one}>{other}" for one in self.names for other in self.names)

    def loads(self, messages: Messages, block: Block) -> tuple[FloatArray]:
        """Weighted bytes over the links `used` of each instance ``[I, w]``."""
        slowness = self.bytes_per_s / self.rate_bytes_per_s.ravel()
        weighted = self.bytes_over_links(messages, block) * slowness
        return (np.take_along_axis(weighted, self.used(block)[0], axis=1),)

    def bytes_over_links(self, messages: Messages, block: Block) -> FloatArray:
        """Bytes over every link of each instance ``[I, S^2]``."""
        count, sites = len(self.names), self.site_of[block.ranks]
        total = np.zeros((block.instance_count, self.link_count))
        for part in messages:
            if isinstance(part, Spread):
                sent, share = (slot_sums(end, sites, count) for end in (part.sent, part.share))
                total += (sent[:, :, None] * share[:, None, :]).reshape(total.shape)
            else:
                link = self._links(part, sites)
                total += slot_sums(np.broadcast_to(part.bytes, link.shape), link, self.link_count)
        total[:, :: count + 1] = 0.0
        return total

    def _links(self, part: Direct, sites: IntArray) -> IntArray:
        """Number of the link of each message ``[I, f]``."""
        shape = (len(sites), part.source.shape[1])
        ends = (np.broadcast_to(end, shape) for end in (part.source, part.target))
        source, target = (np.take_along_axis(sites, end, axis=1) for end in ends)
        return np.asarray(source * len(self.names) + target)

    def used(self, block: Block) -> tuple[IntArray]:
        """Links between sites of each instance ``[I, w]``, cached; short rows are padded with other links."""
        if block not in self._used:
            even = (Spread(np.ones((1, 1)), np.ones((1, 1))),)
            self._used[block] = (widest(list(self.bytes_over_links(even, block) > 0.0)),)
        return self._used[block]

    def farthest(self, messages: Messages, block: Block) -> int:  # noqa: ARG002 - one signature
        """Number of links on the longest route: 1; switches of a site count as on other fabrics."""
        return 1

    def delay_s(self, messages: Messages, block: Block, rounds: int) -> FloatArray:
        """Latency ``[I, 1]`` of the slowest link, or of the slowest path along a ring for several rounds, seconds.

        Args:
            rounds: number of consecutive messages along a ring.
        """
        longest, sites = np.zeros((block.instance_count, 1)), self.site_of[block.ranks]
        for part in messages:
            if isinstance(part, Spread):
                over = self.bytes_over_links((part,), block) > 0.0
                found = np.where(over, self.latency_s.ravel(), 0.0)
            else:
                each = self.latency_s.ravel()[self._links(part, sites)]
                found = sum((np.roll(each, -step, axis=1) for step in range(rounds)), start=np.zeros_like(each))
            longest = np.maximum(longest, found.max(axis=1, keepdims=True, initial=0.0))
        return longest

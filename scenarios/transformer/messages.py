"""Messages between pipeline stages on the sites of a cluster: their links, their compression, and the best order.

Each rank and micro-batch sends a message over each boundary between two stages, forward and backward. Let f_i and b_i
be the times of the slowest messages over boundary i = 0, 1, ... forward and backward, and s_i = f_i + b_i. Compute
takes the same time in every order and is left out. With p stages and m micro-batches 1F1B takes, for each i, at least

    sum_{j<i} s_j  +  f_i  +  max(min(p - 2 - i, m - 1) f_i, sum_{j>i} s_j)  +  m b_i
    sum_{j<i} s_j  +  m f_i  +  sum_{j>i} s_j  +  b_i
    sum_{j<i} s_j  +  ceil(m / (p - i)) sum_{j>=i} s_j  +  ((m - 1) mod (p - i)) max_{j>=i} max(f_j, b_j)

(the later stage passes p - 2 - i micro-batches on before its first backward pass, then all come back over the boundary;
all go there before the last one comes back; at most p - i micro-batches are on their way beyond stage i).

The cost of an order is the largest of these bounds (with interleaved parts of stages: the bytes over the slowest link
only), and the time to sum the gradient of weights that the first and the last stage share (tied weights). Up to
`MOST_SITES` sites the search compares all orders, once for each set of equal sites. For more sites it compares chains
of nearest neighbours from each site, improved by reversing parts of the chain (2-opt).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, permutations

import numpy as np

from hardware_specs import Cluster
from scenarios.transformer.section import CompressionChoice, TensorCompressionChoice, TransformerScenario
from scenarios.types import Placement
from simulator.network.blocks import slot_sums
from simulator.network.topology import placed
from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.transformer.compression import MessageCompression, TensorCompression, ratios_by_time
from workloads.transformer.iteration import TIED, gradient_sums
from workloads.transformer.settings import TransformerSettings

MOST_SITES = 6
"""Largest number of sites with a search of all orders: 720 orders, a tenth of a second."""

Order = tuple[str, ...]


@dataclass(frozen=True)
class StageMessages:
    """Messages of a job on its cluster.

    Attributes:
        settings: the job; its compression is not used.
        choice: compression of the scenario.
    """

    cluster: Cluster
    settings: TransformerSettings
    choice: CompressionChoice | None = None
    placement: Placement = "block"
    seed: int = 0

    @staticmethod
    def of(scenario: TransformerScenario, cluster: Cluster, settings: TransformerSettings) -> StageMessages:
        """The messages of a scenario's job, or of another division of the job."""
        return StageMessages(
            cluster, settings, scenario.workload.compression, scenario.placement, scenario.variation.seed
        )

    def compressed(self, order: Order | None) -> TransformerSettings:
        """The job with its compression on sites in an order; None: the cluster's order."""
        if self.choice is None or self.settings.sizes.boundaries == 0:
            return replace(self.settings, compression=None)
        return replace(self.settings, compression=self._compression(self.choice, self._ends(order)))

    def _compression(self, choice: CompressionChoice, ends: _Ends) -> MessageCompression:
        """Compression of each message between the ranks of ``ends``."""
        plain_s = self._seconds(ends, np.full(ends.cross.shape, float(self._plain_bytes)))
        if choice.where == "between_sites":
            plain_s = np.where(ends.cross, plain_s, 0.0)
        alike = tuple(tuple(float(some) for some in row > 0.0) for row in plain_s)
        if choice.where == "everywhere":
            alike = tuple((1.0,) * len(row) for row in plain_s)
        strength = ratios_by_time(plain_s.tolist()) if choice.ratios == "adatopk" else alike
        return MessageCompression(_tensor(choice.activations), _tensor(choice.gradients), strength)

    def message_s(self, order: Order | None) -> tuple[FloatArray, FloatArray]:
        """Time of the slowest messages over each boundary, forward and backward, seconds ``[boundaries]``."""
        settings, ends = self.settings, self._ends(order)
        packing = None if self.choice is None else self._compression(self.choice, ends)
        slowest: list[FloatArray] = []
        for backward in (False, True):
            sent = np.full(ends.cross.shape, float(self._plain_bytes))
            if packing is not None:
                for boundary in range(len(sent)):
                    elements, size = settings.message_elements, settings.element_bytes
                    sent[boundary] = packing.sent_bytes(boundary, elements, size, backward=backward)
            slowest.append(self._seconds(ends, sent).max(axis=1, initial=0.0))
        return slowest[0], slowest[1]

    def cost_s(self, order: Order | None) -> float:
        """Cost of an order, seconds; see the module."""
        settings, (there_s, back_s) = self.settings, self.message_s(order)
        if settings.sizes.virtual_stages > 1:
            most_s = float(np.maximum(there_s, back_s).max(initial=0.0))
            passing = settings.microbatches * settings.sizes.virtual_stages * most_s
        else:
            passing = passing_s(there_s, back_s, settings.microbatches)
        return passing + self._tied_s(order)

    def _tied_s(self, order: Order | None) -> float:
        """Time in which pairs of ranks of the first and the last stage sum the gradient of tied weights, seconds."""
        settings, sizes = self.settings, self.settings.sizes
        if not settings.model.tied or sizes.pipeline == 1:
            return 0.0
        amount = (
            settings.model.vocabulary * settings.model.hidden / sizes.tensor * settings.reduced_bytes / sizes.shards
        )
        ends = self._between(order, [0], [sizes.pipeline - 1])
        return 2.0 * float(self._seconds(ends, np.full(ends.cross.shape, amount / 2.0)).max())

    def orders(self) -> Iterator[Order]:
        """All orders of the sites, without orders that differ in equal sites only."""
        alike = self._alike
        for order in permutations(self.cluster.site_names):
            if all(list(order).index(one) < list(order).index(other) for one, other in alike):
                yield order

    def best_order(self) -> Order:
        """The order with the lowest cost."""
        return self.good_orders()[0]

    def good_orders(self) -> list[Order]:
        """All orders, or the improved chains of many sites, by ascending cost."""
        few = len(self.cluster.site_names) <= MOST_SITES
        found = self.orders() if few else (self._improved(chain) for chain in self._chains())
        return sorted(dict.fromkeys(found), key=self.cost_s)

    @property
    def _plain_bytes(self) -> int:
        return self.settings.message_elements * self.settings.element_bytes

    def _ends(self, order: Order | None) -> _Ends:
        """Ranks at both ends of every message."""
        stages = range(self.settings.sizes.boundaries)
        return self._between(order, stages, [(stage + 1) % self.settings.sizes.pipeline for stage in stages])

    def _between(self, order: Order | None, stages: Sequence[int], others: Sequence[int]) -> _Ends:
        """Ranks of some stages, and the ranks at the same place of other stages."""
        sizes = self.settings.sizes
        node_of, _, site_of = placed(self.cluster, sizes.world_size, self.placement, self.seed, order)
        site_of = np.zeros_like(node_of) if site_of is None else site_of
        first, second = (np.array([sizes.stage(stage) for stage in some], dtype=np.int64) for some in (stages, others))
        return _Ends(site_of[first], site_of[second], node_of[first] != node_of[second])

    def _seconds(self, ends: _Ends, sent_bytes: FloatArray) -> FloatArray:
        """Seconds of messages ``[boundaries, ranks of a stage]``: over a link between sites, over NICs, or 0 in a node.

        Messages of a boundary that cross the same link share it.
        """
        nic = self.cluster.node.nics.nic
        near_s = np.where(ends.leaves, nic.latency_s.value + sent_bytes / nic.bytes_per_s.value, 0.0)
        latency_s, rate = self._links
        link = ends.one * len(rate) + ends.other
        shared = np.take_along_axis(slot_sums(sent_bytes, link, rate.size), link, axis=1)
        far_s = latency_s[ends.one, ends.other] + shared / rate[ends.one, ends.other]
        return np.where(ends.cross, far_s, near_s)

    @cached_property
    def _links(self) -> tuple[FloatArray, FloatArray]:
        """Latency, seconds, and rate, B/s, of the link between each two sites ``[S, S]``."""
        names, links = self.cluster.site_names or ("",), self.cluster.site_links
        latency_s, rate = np.zeros((len(names),) * 2), np.full((len(names),) * 2, np.inf)
        for one, other in combinations(range(len(names)), 2):
            link = None if links is None else links.between(names[one], names[other])
            if link is not None:
                latency_s[one, other] = latency_s[other, one] = link.latency_s.value
                rate[one, other] = rate[other, one] = link.bytes_per_s.value
        return latency_s, rate

    @cached_property
    def _alike(self) -> list[tuple[str, str]]:
        """Pairs of equal sites: the same number of nodes, and the same links to all other sites."""
        names, (latency_s, rate) = self.cluster.site_names, self._links
        nodes = [site.nodes.value for site in self.cluster.sites or ()]
        found = []
        for one, other in combinations(range(len(names)), 2):
            rest = [site for site in range(len(names)) if site not in (one, other)]
            same = nodes[one] == nodes[other]
            same = same and all(np.array_equal(part[one, rest], part[other, rest]) for part in (latency_s, rate))
            found += [(names[one], names[other])] if same else []
        return found

    def _chains(self) -> Iterator[Order]:
        """Chains from each site to the nearest remaining site, by the time of a whole tensor."""
        names, (latency_s, rate) = self.cluster.site_names, self._links
        time_s = latency_s + self._plain_bytes / rate
        for start in range(len(names)):
            chain, left = [start], set(range(len(names))) - {start}
            while left:
                chain.append(min(left, key=lambda site: (time_s[chain[-1], site], site)))
                left.remove(chain[-1])
            yield tuple(names[site] for site in chain)

    def _improved(self, order: Order) -> Order:
        """An order that no reversal of a part improves."""
        best_s, better = self.cost_s(order), True
        while better:
            better = False
            for start, end in combinations(range(len(order) + 1), 2):
                turned = (*order[:start], *order[start:end][::-1], *order[end:])
                cost_s = self.cost_s(turned)
                if cost_s < best_s:
                    order, best_s, better = turned, cost_s, True
        return order


@dataclass(frozen=True, slots=True)
class _Ends:
    """Both ends of every message ``[boundaries, ranks of a stage]``.

    Attributes:
        one: site of the rank of the earlier stage; ``other``: site of the rank of the later stage.
        leaves: whether the two ranks are on different nodes.
    """

    one: IntArray
    other: IntArray
    leaves: IntArray

    @property
    def cross(self) -> IntArray:
        """Whether the two ranks are on different sites."""
        return np.asarray(self.one != self.other)


def passing_s(there_s: FloatArray, back_s: FloatArray, microbatches: int) -> float:
    """Lower bound of the time of 1F1B with kernels that take no time, seconds; see the module.

    Args:
        there_s: time of a message to the next stage over each boundary ``[p - 1]``; ``back_s``: time to the stage
            before.
    """
    stages, longest = len(there_s) + 1, 0.0
    both_s, most_s = there_s + back_s, np.maximum(there_s, back_s)
    for number, (there, back) in enumerate(zip(there_s.tolist(), back_s.tolist(), strict=True)):
        before, behind = float(both_s[:number].sum()), float(both_s[number + 1 :].sum())
        warm = min(stages - 2 - number, microbatches - 1)
        flying = stages - number
        rounds, rest = -(-microbatches // flying), (microbatches - 1) % flying
        longest = max(
            longest,
            before + there + max(warm * there, behind) + microbatches * back,
            before + microbatches * there + behind + back,
            before + rounds * (there + back + behind) + rest * float(most_s[number:].max()),
        )
    return longest


def summed_over_sites(settings: TransformerSettings, site_of: IntArray | None) -> list[str]:
    """Gradients whose sum has members on several sites, in words.

    Args:
        site_of: site of each rank ``[world_size]``; None: all are in one.
    """
    if site_of is None:
        return []
    apart = {name for name, instance in gradient_sums(settings).items() if _on_several(instance, site_of)}
    words = ["gradients that data-parallel ranks sum"] if apart - {TIED} else []
    return [*words, *(["gradients of weights that the first and the last stage share"] if TIED in apart else [])]


def _on_several(instance: IntArray, site_of: IntArray) -> bool:
    """Whether the members of an instance are on several sites."""
    pairs = np.unique(np.stack([instance, site_of], axis=1)[instance >= 0], axis=0)
    return len(pairs) > len(np.unique(pairs[:, 0]))


def _tensor(choice: TensorCompressionChoice | None) -> TensorCompression | None:
    return None if choice is None else TensorCompression(choice.format, choice.ratio, choice.reads)


def in_words(order: Sequence[str]) -> str:
    """An order as a value of ``--set``."""
    return f"[{','.join(order)}]"

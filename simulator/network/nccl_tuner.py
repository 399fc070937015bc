"""NCCL's own choice: the algorithm and protocol whose time by its built-in model is the smallest.

NCCL does not measure; it assumes. From the speeds of links as it counts them, the channels its search would lay out,
caps by architecture and number of nodes, and fixed latencies it predicts for each algorithm and protocol

    seconds = latency + bytes / (bus bandwidth x n / steps)

and takes the smallest. Its assumptions differ from the machine's behaviour, so its choice may be slower than another.
No fit touches these constants: they are those of the library's own tables.

Formulas and tables: NCCL 2.30.7 ``src/graph/tuning.cc`` (``ncclTopoTuneModel``, ``ncclTopoGetAlgoTime``);
the channels: `simulator.network.nccl_channels`; those of trees run at the speed of those of rings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hardware_specs.library import AlgorithmLatency, NcclConstants
from hardware_specs.processors import Architecture
from hardware_specs.types import Cluster, Node
from inputs.errors import InputError
from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Protocol
from simulator.network.collectives.collnet import EFFICIENCY as COLLNET_EFFICIENCY
from simulator.network.collectives.pat import AGGREGATION
from simulator.network.collectives.pat import EFFICIENCY as PAT_EFFICIENCY
from simulator.network.collectives.ring import PASSES
from simulator.network.collectives.tree import EFFICIENCY as TREE_EFFICIENCY
from simulator.network.nccl_channels import GB, GENERATION, Channels, Generation, channels_of

US = 1e-6
Spans = tuple[float, float, float]
"""GB/s on one node, on two, on three or more."""

LL_MOST: dict[Generation, Spans] = {
    "volta": (39, 39, 20.4), "ampere": (87.7, 22.5, 19), "hopper": (141, 45, 35), "blackwell": (282, 90, 70),
}  # fmt: skip
"""``llMaxBws``, all channels; on several nodes the row of ampere with AMD CPUs, else that of volta."""
RING_LL128: dict[Generation, float] = {"volta": 20, "ampere": 20, "hopper": 36.7, "blackwell": 40}
"""``perChMaxRingLL128Bws``, GB/s of a channel."""
TREE_LL128: dict[Generation, Spans] = {
    "volta": (20, 20, 20), "ampere": (20, 20, 20), "hopper": (36.7, 36.7, 29), "blackwell": (55.6, 31.67, 20),
}  # fmt: skip
"""``perChMaxTreeLL128Bws``, of a channel."""
TREE: dict[Generation, Spans] = {
    "volta": (26.5, 18.5, 10), "ampere": (24, 23.6, 17.8), "hopper": (38.7, 41.4, 36), "blackwell": (70, 42.8, 24),
}  # fmt: skip
"""``perChMaxTreeBws``, of a channel."""
NVLS_EFFICIENCY: dict[Generation, float] = {"volta": 0, "ampere": 0, "hopper": 0.85, "blackwell": 0.74}
NVLS_CHANNELS: dict[Generation, int] = {"volta": 16, "ampere": 16, "hopper": 16, "blackwell": 24}
"""``src/transport/nvls.cc``; 24 to 32 on Blackwell."""
NVLS_TREE: dict[Generation, Spans] = {
    "volta": TREE["volta"], "ampere": TREE["ampere"], "hopper": (0, 57.7, 45.5), "blackwell": (0, 96, 80),
}  # fmt: skip
"""``perChMaxNVLSTreeBws``, of a channel."""
LL_OF_TREE = 3.8
LL128_OF_TREE = 7 / 9, 120 / 128
"""Share of the tree's bandwidth on one node, and on several."""
SLOW_RING: dict[bool, float] = {False: 1.9, True: 1.4}
"""Times the latency of a Simple ring all_reduce over nodes with 64 B and more per channel and rank; True: SM80 on."""
SLOW_RING_BYTES = 64
FIRST_BYTES = 64
CORRECTIONS: dict[Protocol, tuple[float, ...]] = {
    "ll": (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1),
    "ll128": (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1),
    "simple": (
        0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5,
        0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9,
    ),
}  # fmt: skip
"""Factors at 64 B x 2^i, i = 0 to 22; none beyond. NCCL 2.30 ``src/graph/tuning.cc``, ``treeCorrectionFactor``."""


@dataclass(frozen=True, slots=True)
class NcclTuner:
    """NCCL's model of one cluster."""

    constants: NcclConstants
    node: Node
    architecture: Architecture

    @staticmethod
    def of(cluster: Cluster, constants: NcclConstants) -> NcclTuner:
        """The model of ``cluster``.

        Raises:
            InputError: the GPU names no architecture, or is one of AMD: RCCL has other tables.
        """
        architecture = None if cluster.node.gpu is None else cluster.node.gpu.architecture
        if architecture is None or architecture not in GENERATION:
            raise InputError(
                "NCCL's tuner needs the architecture of the GPU, one of NVIDIA",
                file=cluster.name,
                key="node.gpu.architecture",
                expected=f"one of {', '.join(GENERATION)}; or chooser: fastest in the library",
            )
        return NcclTuner(constants, cluster.node, architecture)

    @property
    def generation(self) -> Generation:
        """Row of the tables."""
        return GENERATION[self.architecture]

    def algorithm(self, call: Call, known: Sequence[CollectiveAlgorithm]) -> list[CollectiveAlgorithm]:
        """The one of ``known`` that NCCL takes; all of them where it has no model of the operation."""
        times = {number: self._seconds(call, algorithm) for number, algorithm in enumerate(known)}
        timed = [number for number, seconds in times.items() if seconds]
        if not timed:
            return list(known)
        return [known[min(timed, key=lambda number: min(times[number].values()))]]

    def protocols(self, call: Call, algorithm: CollectiveAlgorithm) -> list[Protocol]:
        """The protocol that NCCL takes with an algorithm; all it has where there is no model."""
        times = self._seconds(call, algorithm)
        return [min(times, key=lambda protocol: times[protocol])] if times else self._known(call, algorithm)

    def _known(self, call: Call, algorithm: CollectiveAlgorithm) -> list[Protocol]:
        """The protocols of an algorithm that the release has."""
        return [protocol for protocol in algorithm.protocols(call.block) if protocol in self.constants.protocols]

    def _seconds(self, call: Call, algorithm: CollectiveAlgorithm) -> dict[Protocol, float]:
        """Constants by protocol; empty where NCCL has no model."""
        times = ((p, self.seconds(call, algorithm.name, p)) for p in self._known(call, algorithm))
        return {protocol: seconds for protocol, seconds in times if seconds is not None}

    def seconds(self, call: Call, algorithm: str, protocol: Protocol) -> float | None:
        """NCCL's own prediction; None where it has none, or would not use the protocol."""
        models = {
            "ring": self._ring, "tree": self._tree, "pat": self._pat,
            "nvls": self._nvls, "nvls_tree": self._nvls_tree, "collnet": self._collnet,
        }  # fmt: skip
        unused = protocol == "ll128" and self.node.scale_up is None
        if algorithm not in models or call.op not in PASSES or unused:
            return None
        latency_us, bandwidth = models[algorithm](call, protocol)
        if bandwidth <= 0.0:  # no such algorithm on this architecture
            return None
        return latency_us * US + float(call.bytes.max()) / (bandwidth * GB)

    def _ring(self, call: Call, protocol: Protocol) -> tuple[float, float]:
        n, nodes, passes = call.block.size, call.block.node_count, PASSES[call.op]
        chain = call.op in ("broadcast", "reduce")
        channels = self.channels(nodes, call.block.local_size)
        bus = {
            "ll": min(self._ll_most(nodes), channels.total * 0.5),
            "ll128": min(channels.total * 0.92, channels.count * RING_LL128[self.generation]),
            "simple": channels.total,
        }[protocol]
        far = passes * (nodes - 1)
        near = (n if chain else passes * (n - 1)) - far
        tables = self.constants.ring, self.constants.tree if call.block.local_size == 1 else self.constants.ring
        pace = max(self._near(tables[0], protocol), self._overhead(protocol) if nodes > 1 else 0.0)
        latency = _us(tables[0].base_s, protocol) + near * pace + far * _us(tables[1].network_hop_s, protocol)
        if passes == 2 and nodes > 1 and protocol == "simple":
            each = float(call.bytes.max()) / (channels.count * n)
            latency *= SLOW_RING[self.generation != "volta"] if each >= SLOW_RING_BYTES else 1.0
        return latency, bus * (1.0 if chain else n / (passes * (n - 1)))

    def _tree(self, call: Call, protocol: Protocol) -> tuple[float, float]:
        nodes, local, table = call.block.node_count, call.block.local_size, self.constants.tree
        channels, span = self.channels(nodes, local), min(nodes, 3) - 1
        simple = min(channels.total * TREE_EFFICIENCY, channels.count * TREE[self.generation][span])
        bus = {
            "ll": min(simple / LL_OF_TREE, self._ll_most(nodes)),
            "ll128": min(simple * LL128_OF_TREE[nodes > 1], channels.count * TREE_LL128[self.generation][span]),
            "simple": simple,
        }[protocol]
        inside = (local - 1) * self._near(table, protocol)
        between = math.floor(math.log2(nodes)) * _us(table.network_hop_s, protocol)
        latency = _us(table.base_s, protocol) + 2 * (inside + between)
        return latency, 0.5 * bus * corrections(float(call.bytes.max()))[protocol]

    def _pat(self, call: Call, protocol: Protocol) -> tuple[float, float]:
        n, table = call.block.size, self.constants.latencies_of("pat")
        steps = math.floor(math.log2(n)) / AGGREGATION
        member = 0.0 if table.member_s is None else table.member_s.value / US
        latency = _us(table.base_s, protocol) + steps * _us(table.network_hop_s, protocol) + n * member
        return latency, PAT_EFFICIENCY * self.channels(n, 1).total

    def _nvls(self, call: Call, protocol: Protocol) -> tuple[float, float]:
        n, channels = call.block.size, NVLS_CHANNELS[self.generation]
        inside = self.channels(1, n).total * NVLS_EFFICIENCY[self.generation] * (channels - 1) / channels
        bus = inside * (2.0 if PASSES[call.op] == 2 else (n - 1) / n)
        return self._near(self.constants.latencies_of("nvls"), protocol), bus * n / (PASSES[call.op] * (n - 1))

    def _nvls_tree(self, call: Call, protocol: Protocol) -> tuple[float, float]:
        n, nodes, local = call.block.size, call.block.node_count, call.block.local_size
        channels, count = self.channels(nodes, local), NVLS_CHANNELS[self.generation]
        table = self.constants.latencies_of("nvls_tree")
        inside = 2.0 * self.channels(1, local).total * NVLS_EFFICIENCY[self.generation] * (count - 1) / count
        between = channels.total * (2.0 if nodes == 2 else 1.0)
        bus = min(inside, between, channels.count * NVLS_TREE[self.generation][min(nodes, 3) - 1])
        steps = 2 * math.floor(math.log2(nodes))
        return self._near(table, protocol) + steps * _us(table.network_hop_s, protocol), bus * n / (2 * (n - 1))

    def _collnet(self, call: Call, protocol: Protocol) -> tuple[float, float]:
        local, table = call.block.local_size, self.constants.latencies_of("collnet")
        channels = self.channels(call.block.node_count, local)
        each = local / channels.count
        newer = self.generation in ("hopper", "blackwell")
        bus = channels.total / (each - (each - 1) / 2) * (COLLNET_EFFICIENCY if newer else 1.0)
        member = 0.0 if table.member_s is None else table.member_s.value / US
        inside = 2 * (min(1, local - 1) * self._near(table, protocol) + member * (local - 1))
        return inside + _us(table.network_hop_s, protocol), 0.5 * bus

    def channels(self, nodes: int, local_size: int) -> Channels:
        """Channels of rings over so many nodes with so many members on each."""
        return channels_of(self.node, self.architecture, nodes, local_size)

    def _ll_most(self, nodes: int) -> float:
        if nodes == 1:
            return LL_MOST[self.generation][0]
        return LL_MOST["ampere" if self.node.cpu.vendor == "amd" else "volta"][min(nodes, 3) - 1]

    def _near(self, table: AlgorithmLatency, protocol: Protocol) -> float:
        return _us(table.pci_hop_s if self.node.scale_up is None else table.nvlink_hop_s, protocol)

    def _overhead(self, protocol: Protocol) -> float:
        post = self.constants.network_post
        return post.seconds(self.node.cpu) / US * (post.simple_factor.value if protocol == "simple" else 1.0)


def nvls_efficiency(node: Node) -> float:
    """Share of the links' bandwidth that NCCL counts where switches add; GPUs of no generation count as Hopper."""
    architecture = None if node.gpu is None else node.gpu.architecture
    return NVLS_EFFICIENCY[GENERATION.get(architecture or "hopper", "hopper")] or NVLS_EFFICIENCY["hopper"]


def _us(times: object, protocol: Protocol) -> float:
    """A table's entry in microseconds."""
    return float(getattr(times, protocol).value) / US


def corrections(size_bytes: float) -> dict[Protocol, float]:
    """NCCL's factor on the bandwidth of a tree by size, ``treeCorrectionFactor``: medium ones fill its levels badly."""
    step = int(math.log2(max(size_bytes, FIRST_BYTES) / FIRST_BYTES))
    return {protocol: table[step] if step < len(table) else 1.0 for protocol, table in CORRECTIONS.items()}

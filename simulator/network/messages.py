"""Libraries of host messages (MPI, gloo): an algorithm from a table, each message eager or by rendezvous.

A message of b bytes to another node takes

    eager (b < eager_below):  software + wire + b / rate          rendezvous:  software + 3 wires + b / rate

(announcement, answer, data), and its sender can start the next one ``post`` later. Members add and copy their own
buffers beside the transfers, with one thread: a copy moves two bytes for each, an addition three.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hardware_specs.library import Choice, Choices, MessageConstants, MessageTime
from hardware_specs.types import Cluster
from simulator.network.blocks import Block
from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Latency, Stage
from simulator.network.transport import Factors, Way
from simulator.operators import FloatArray

EAGER, RENDEZVOUS = "eager", "rendezvous"
ADDITION_PER_COPY = 1.5
"""Memory traffic of adding a buffer to another (two reads, one write) over that of copying it (read and write)."""


@dataclass(frozen=True, slots=True)
class MessageTransport:
    """A message library's constants on one cluster.

    Attributes:
        wire_s: one way through NICs and switches.
        link_s: latency that each further link of a torus adds, seconds.
        copy_s_per_byte: copy time of one thread in host memory.
        gpu_copy_s_per_byte: copy time of a kernel in a GPU's memory; None: buffers of GPUs are copied by hosts.
        factors: fitted factors of the latencies.
        message_speed: divides the time of a message's software (1; 1.1 for 10 % better).
    """

    constants: MessageConstants
    wire_s: float
    link_s: float
    copy_s_per_byte: float
    factors: Factors
    message_speed: float = 1.0
    gpu_copy_s_per_byte: float | None = None

    @staticmethod
    def of(cluster: Cluster, constants: MessageConstants) -> MessageTransport:
        """The constants of ``cluster``'s library, NICs and switches."""
        fit = cluster.fitted
        copy = constants.copy_bytes_per_s.value if fit is None else fit.copy_bytes_per_s.value
        shared = 1 if constants.workers is None or fit is not None else constants.workers.value
        return MessageTransport(
            constants=constants,
            wire_s=cluster.node.nics.nic.latency_s.value + cluster.fabric.hop_latency_s.value,
            link_s=cluster.fabric.hop_latency_s.value,
            copy_s_per_byte=1.0 / (copy * shared),
            factors=Factors.of(cluster),
            gpu_copy_s_per_byte=_gpu_copy_s_per_byte(cluster, constants),
        )

    def chosen_from(self, call: Call, known: Sequence[CollectiveAlgorithm]) -> list[CollectiveAlgorithm]:
        """The one its table gives for the call's ranks and size."""
        choices = None if call.op == "send" else self.constants.choices.get(call.op)
        if choices is None:
            return []
        name = chosen(choices, call.block, float(call.bytes.max())).use
        return [algorithm for algorithm in known if algorithm.name == name]

    def times(self, algorithm: CollectiveAlgorithm) -> bool:  # noqa: ARG002 - one signature
        """True: messages have the same cost in all algorithms."""
        return True

    def ways(self, algorithm: CollectiveAlgorithm, call: Call, stages: Sequence[Stage]) -> Mapping[str, Sequence[Way]]:  # noqa: ARG002 - one signature
        """The one way there is: each stage sends its messages as their size demands."""
        protocols = [self.protocol(stage) for stage in stages]
        name = RENDEZVOUS if RENDEZVOUS in protocols else EAGER
        way = self._way if call.on_host or self.gpu_copy_s_per_byte is None else self._way_on_gpus
        return {name: tuple(way(stage, protocol) for stage, protocol in zip(stages, protocols, strict=True))}

    def with_faster_messages(self, speed: float) -> MessageTransport:
        """Software of messages, copies in memory among it."""
        return replace(self, message_speed=speed)

    def without_posts(self) -> MessageTransport:
        """All software of a message runs on the CPU."""
        return replace(self, message_speed=math.inf)

    def protocol(self, stage: Stage) -> str:
        """Protocol of a stage's messages: eager or rendezvous."""
        return EAGER if stage.message_bytes < self.constants.eager_below.value else RENDEZVOUS

    def _way(self, stage: Stage, protocol: str) -> Way:
        touched = stage.own_bytes + ADDITION_PER_COPY * stage.added_bytes
        return Way(protocol, stage.efficiency, touched)

    def _way_on_gpus(self, stage: Stage, protocol: str) -> Way:
        """Kernels of GPUs copy and add instead of the hosts."""
        way, kernel = self._way(stage, protocol), self.constants.gpu_kernel_s
        if kernel is None or self.gpu_copy_s_per_byte is None:
            return way
        touched = np.asarray(way.touched_bytes, dtype=np.float64)
        kernels_s = np.where(touched > 0.0, kernel.value, 0.0) + touched * self.gpu_copy_s_per_byte
        return replace(way, touched_bytes=0.0, kernels_s=kernels_s)

    def posting_seconds(self, latency: Latency, protocol: str) -> float:  # noqa: ARG002 - one signature
        """One after the other, however they are sent."""
        return latency.messages * self.constants.post_s.value * self.factors.post / self.message_speed

    def copy_seconds(self, touched_bytes: FloatArray | float) -> FloatArray | float:
        """Seconds to copy the bytes with one thread."""
        return touched_bytes * self.copy_s_per_byte / self.message_speed

    def start_seconds(self, latency: Latency, protocol: str) -> float:  # noqa: ARG002 - one signature
        """Entering a collective."""
        return latency.starts * self.constants.start_s.value * self.factors.base / self.message_speed

    def own_seconds(self, latency: Latency, protocol: str) -> float:
        """All of it, but for the wires."""
        return self.hop_seconds(latency, protocol)

    def wait_seconds(self, latency: Latency, protocol: str, links: int = 1) -> float:  # noqa: ARG002 - one signature
        """No message waits for a slot."""
        return 0.0

    def hop_seconds(self, latency: Latency, protocol: str, links: int = 1, piece_bytes: float = 0.0) -> float:  # noqa: ARG002 - one signature
        """Software of the hosts and the way through the network, see the module."""
        post_s = self.constants.post_s.value * self.factors.post
        near_s = _software_s(self.constants.near, protocol) * self.factors.near_hop
        network_s = _software_s(self.constants.network, protocol) * self.factors.network_hop
        wires_s = (self.wire_s + (links - 1) * self.link_s) * (1 if protocol == EAGER else 3)
        hosts_s = (
            (latency.near_hops + latency.paced_hops) * near_s
            + latency.network_hops * network_s
            + latency.posts * post_s
        )
        return hosts_s / self.message_speed + latency.network_hops * wires_s


def _gpu_copy_s_per_byte(cluster: Cluster, constants: MessageConstants) -> float | None:
    gpu = cluster.node.gpu
    if gpu is None or constants.gpu_kernel_s is None:
        return None
    return _READ_AND_WRITTEN / float(gpu.memory_bytes_per_s.value * gpu.achieved.stream_fraction.value)


_READ_AND_WRITTEN = 2.0
"""Accesses of a byte that is copied."""


def _software_s(time: MessageTime, protocol: str) -> float:
    return (time.eager_s if protocol == EAGER else time.rendezvous_s).value


def chosen(choices: Choices, block: Block, size_bytes: float) -> Choice:
    """The first rule that holds for so many ranks and such a size."""
    ranks = block.size
    size = size_bytes / ranks if choices.size == "per_rank" else size_bytes
    power = ranks & (ranks - 1) == 0
    return next(
        rule
        for rule in choices.rules
        if (rule.up_to_ranks is None or ranks <= rule.up_to_ranks)
        and (rule.below is None or size < rule.below)
        and (power or not rule.power_of_two)
    )

"""Transport of a collectives library: the algorithms that it takes, and the cost of starting them.

NCCL (`simulator.network.nccl`) runs an algorithm in one of three protocols and takes the fastest; libraries of host
messages (`simulator.network.messages`) look their algorithm up in a table, and send small messages another way than
large ones. The collective model sees only this interface.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hardware_specs.types import Cluster
from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Latency, Stage
from simulator.network.pipeline import WHOLE, Pipelined
from simulator.operators import FloatArray


@dataclass(frozen=True, slots=True)
class Way:
    """Way in which a stage is carried out.

    Attributes:
        protocol: name of the protocol whose latencies apply.
        efficiency: fraction of the reached bandwidth that carries the payload.
        least_s: the transfers take at least this long, however fast the links.
        touched_bytes: bytes that members copy in their own memory beside the transfers ``[a, 1]`` or a number.
        pipeline: the part of it that the pieces of its data do not hide.
        kernels_s: time of kernels that copy and add in the memory of GPUs beside the transfers, seconds ``[a, 1]`` or a
            number.
    """

    protocol: str
    efficiency: float = 1.0
    touched_bytes: FloatArray | float = 0.0
    least_s: float = 0.0
    pipeline: Pipelined = WHOLE
    kernels_s: FloatArray | float = 0.0


@dataclass(frozen=True, slots=True)
class Factors:
    """Factors of the library's latencies on one cluster; 1 unless fitted."""

    base: float = 1.0
    near_hop: float = 1.0
    network_hop: float = 1.0
    post: float = 1.0

    @staticmethod
    def of(cluster: Cluster) -> Factors:
        """The factors of ``cluster``'s fit."""
        fit = cluster.fitted
        if fit is None:
            return Factors()
        return Factors(
            fit.base_factor.value, fit.near_hop_factor.value, fit.network_hop_factor.value, fit.post_factor.value
        )


class Transport(Protocol):
    """A collectives library on one cluster."""

    def chosen_from(self, call: Call, known: Sequence[CollectiveAlgorithm]) -> list[CollectiveAlgorithm]:
        """The ``known`` algorithms, which all can run, that the library considers for a call; may be empty."""
        ...

    def times(self, algorithm: CollectiveAlgorithm) -> bool:
        """Whether the library has the latencies of an algorithm."""
        ...

    def ways(self, algorithm: CollectiveAlgorithm, call: Call, stages: Sequence[Stage]) -> Mapping[str, Sequence[Way]]:
        """Ways to carry out the stages by protocol name: a `Way` for each stage."""
        ...

    def start_seconds(self, latency: Latency, protocol: str) -> float:
        """Time to start a stage, seconds."""
        ...

    def hop_seconds(self, latency: Latency, protocol: str, links: int = 1, piece_bytes: float = 0.0) -> float:
        """Time of the hops, posts and members of a stage, seconds; a network hop goes over ``links`` links.

        Args:
            piece_bytes: size of the messages between nodes; 0 where it does not matter.
        """
        ...

    def own_seconds(self, latency: Latency, protocol: str) -> float:
        """The part of `hop_seconds` that a member's own threads take, seconds."""
        ...

    def wait_seconds(self, latency: Latency, protocol: str, links: int = 1) -> float:
        """Time of one hop between nodes, seconds."""
        ...

    def posting_seconds(self, latency: Latency, protocol: str) -> float:
        """Time to post the messages of a stage beside its transfers, seconds."""
        ...

    def copy_seconds(self, touched_bytes: FloatArray | float) -> FloatArray | float:
        """Time for `Way.touched_bytes`, seconds; the same shape."""
        ...

    def with_faster_messages(self, speed: float) -> Transport:
        """The same with the link-independent times of messages (starts, hops, posts) divided by ``speed``."""
        ...

    def without_posts(self) -> Transport:
        """The same without the time of a CPU's posts."""
        ...

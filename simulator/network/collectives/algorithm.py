"""Collective algorithms: a sized call in, stages of latency and traffic out.

An algorithm knows amounts, not rates: hops, messages and bytes per member. `simulator.network.model` turns them into
times, so that one algorithm serves every machine and every protocol.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hardware_specs.collectives import Shares
from hardware_specs.types import Cluster
from inputs.errors import InputError, nearest_name
from simulator.collective_calls import CollectiveOp
from simulator.network.blocks import Block
from simulator.network.patterns import NO_TRAFFIC, Pattern
from simulator.operators import FloatArray
from simulator.registry import Registry

Protocol = Literal["ll", "ll128", "simple"]
ALL_PROTOCOLS: tuple[Protocol, ...] = ("ll", "ll128", "simple")


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A collective on all instances of a block; ``a`` below is I, or 1 when all instances are alike.

    Attributes:
        block: the instances.
        bytes: nccl-tests' size per instance ``[a, 1]``, see `CollectiveCall`.
        send_bytes: bytes that each member of an uneven all_to_all sends, own part included ``[I, n]``; else None.
        receive_weights: fraction of a sender's bytes that each member of an uneven all_to_all receives ``[I, n]``; rows
            sum to 1.
        peer_shares: fractions by sender ``[I, n, n]`` instead of the weights, if senders differ.
        root: see `CollectiveCall`.
        on_host: whether buffers are in host memory.
    """

    op: CollectiveOp
    block: Block
    bytes: FloatArray
    send_bytes: FloatArray | None = None
    receive_weights: FloatArray | None = None
    peer_shares: FloatArray | None = None
    root: int | None = None
    on_host: bool = False

    @property
    def peer_bytes(self) -> FloatArray | None:
        """Bytes from each member to each other ``[I, n, n]``, if shares differ by sender."""
        if self.send_bytes is None or self.peer_shares is None:
            return None
        return self.send_bytes[:, :, None] * self.peer_shares


@dataclass(frozen=True, slots=True)
class Latency:
    """Latency of a stage as counts of the library's constants, see `simulator.network.transport.Transport.seconds`.

    Attributes:
        table: algorithm whose constants apply; ``stores``: kernels that store data and flags at their peers themselves,
            whatever the protocol of the bandwidth.
        starts: times the base latency is paid.
        near_hops: hops inside a node (over NVLink, or PCIe where there is none).
        paced_hops: such hops that go at the pace of the network proxy where that is slower.
        network_hops: hops over the network.
        posts: network messages posted one after the other, before or between the transfers.
        messages: messages posted during the transfers, which take at least as long as their posts.
        members: times the table's cost of each member is paid.
    """

    table: Literal["ring", "tree", "nvls", "nvls_tree", "pat", "collnet", "stores"] = "ring"
    starts: float = 1.0
    near_hops: float = 0.0
    paced_hops: float = 0.0
    network_hops: float = 0.0
    posts: float = 0.0
    messages: float = 0.0
    members: float = 0.0


@dataclass(frozen=True, slots=True)
class Chunks:
    """Data that NCCL cuts into pieces which follow each other through the hops, see `simulator.network.nccl_chunks`.

    Attributes:
        bytes: size of the buffer.
        steps: hops of a ring; each passes one of as many parts as there are members.
        far: steps that lead to another node.
        levels: hops of a tree from its deepest leaf to the root.
        passes: times that the buffer passes the busiest node of the trees, each way; 0 on one node.
    """

    shape: Literal["ring", "tree"]
    bytes: float
    steps: int = 0
    far: int = 0
    levels: int = 0
    passes: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """One phase of a collective: a latency, then traffic on all its links at the same time.

    Attributes:
        efficiency: share of the protocol's bandwidth that the algorithm reaches; a cap, it adds no bytes.
        near_efficiency: further such a share on NVLink alone.
        chunks: pieces of its data; None: the whole passes at once.
        rounds: number of consecutive messages between sites, each sent on by the receiver of the message before.
        own_bytes: size of the member's own part, which is copied beside the transfers ``[a, 1]`` or a number.
        added_bytes: bytes that each member adds to its own where hosts do that apart from the transfers, alike.
        message_bytes: size of one message, the largest; by it libraries choose how to send it.
        one_message: whether each member sends one message and no more.
    """

    latency: Latency
    pattern: Pattern = NO_TRAFFIC
    efficiency: float = 1.0
    near_efficiency: float = 1.0
    own_bytes: FloatArray | float = 0.0
    added_bytes: FloatArray | float = 0.0
    message_bytes: float = math.inf
    one_message: bool = False
    chunks: Chunks | None = None
    rounds: int = 1


def _always(block: Block) -> bool:  # noqa: ARG001 - the signature of `applies`
    return True


def _anywhere(cluster: Cluster) -> bool:  # noqa: ARG001 - the signature of `runs_on`
    return True


def switch_adds(cluster: Cluster) -> bool:
    """Whether the switches inside a node add (NVLink SHARP)."""
    scale_up = cluster.node.scale_up
    return scale_up is not None and scale_up.in_switch_reduction


@dataclass(frozen=True, slots=True)
class CollectiveAlgorithm:
    """A collective algorithm.

    Attributes:
        name: key in ``network.algorithms``.
        ops: the operations it does.
        description: one line for ``list collectives``.
        stages: the call's stages in sequence.
        applies: whether it can run on these instances.
        network_protocols: protocols it may use over the network.
        near_protocols: protocols it may use inside a node.
        runs_on: whether the machine has what it needs.
        shares: algorithms that reach the same share of their links, by a name of `hardware_specs.collectives.Shares`.
        instead_of: the algorithm whose place it takes wherever it applies and the library has both.
        over_sites: whether the algorithm is also for groups on several sites: its messages go directly to their
            receivers, or it has a separate phase for the links between sites.
    """

    name: str
    ops: tuple[CollectiveOp, ...]
    description: str
    stages: Callable[[Call], tuple[Stage, ...]]
    applies: Callable[[Block], bool] = _always
    network_protocols: tuple[Protocol, ...] = ALL_PROTOCOLS
    near_protocols: tuple[Protocol, ...] = ALL_PROTOCOLS
    runs_on: Callable[[Cluster], bool] = _anywhere
    shares: Shares = "ring"
    instead_of: str = ""
    over_sites: bool = False

    def runs_over(self, block: Block) -> bool:
        """Whether the algorithm can run on these instances, on one site or several."""
        return self.applies(block) and (self.over_sites or block.site_count == 1)

    def protocols(self, block: Block) -> tuple[Protocol, ...]:
        """Algorithms that may run on these instances."""
        return self.near_protocols if block.node_count == 1 else self.network_protocols


def _names_of(_: str, algorithm: CollectiveAlgorithm) -> list[str]:
    return [f"{op}/{algorithm.name}" for op in algorithm.ops]


ALGORITHMS: Registry[CollectiveAlgorithm] = Registry("collective algorithm", "dlrmsim.collectives", names_of=_names_of)
"""Every algorithm, as ``op/name``."""


def register(algorithm: CollectiveAlgorithm) -> CollectiveAlgorithm:
    """Add ``algorithm`` under each of its ops."""
    for name in _names_of(algorithm.name, algorithm):
        ALGORITHMS.add(name, algorithm, algorithm.description)
    return algorithm


def algorithms_of(op: CollectiveOp) -> list[CollectiveAlgorithm]:
    """The algorithms registered for ``op``, by name."""
    return [algorithm for name, algorithm in ALGORITHMS.items() if name.startswith(f"{op}/")]


def check_algorithm(op: str, name: str, key: str) -> None:
    """Check that there is an algorithm ``name`` for ``op``.

    Raises:
        InputError: the algorithm or the operation is unknown; the error names ``key``.
    """
    if f"{op}/{name}" in ALGORITHMS:
        return
    names: dict[str, list[str]] = {}
    for known in ALGORITHMS.names():
        known_op, known_name = known.split("/")
        names.setdefault(known_op, []).append(known_name)
    if op not in names:
        raise InputError(
            "no such collective operation",
            key=key,
            given=op,
            expected=f"one of {', '.join(names)}",
            nearest=nearest_name(op, names),
        )
    expected, near = f"one of {', '.join(names[op])}", nearest_name(name, names[op])
    raise InputError(f"no such {op} algorithm", key=key, given=name, expected=expected, nearest=near)

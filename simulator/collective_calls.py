"""Collective calls: the work of a task that the members of a communicator do together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from hardware_specs.library import Operation
from simulator.operators import Amount, FloatArray

CollectiveOp: TypeAlias = Literal[Operation, "send"]
"""A library's operations, and a message from one member of a pair to the other."""


def busbw_factor(op: CollectiveOp, ranks: int) -> float:
    """Factor from algbw to busbw with ``ranks`` members.

    Source: nccl-tests, doc/PERFORMANCE.md.
    """
    if op == "all_reduce":
        return 2.0 * (ranks - 1) / ranks
    if op in ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"):
        return (ranks - 1) / ranks
    return 1.0


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """A collective on a communicator.

    ``bytes`` is nccl-tests' size: all_reduce, broadcast, reduce: the buffer; all_gather: the output; reduce_scatter
    and all_to_all: one rank's input, own part included; sendrecv: the message that each rank sends to the next; send:
    the message; gather, scatter: the root's buffer. For an uneven all_to_all ``bytes`` is an array ``[P]``, what
    each rank sends (own part included, spread evenly over the members), and what a rank receives is the mean over
    senders unless ``receive_weights`` ``[P]`` gives weights for the destinations: then i sends to j
    ``bytes[i] * receive_weights[j] / sum(receive_weights)``. ``peer_shares`` ``[P, n]`` gives the fraction of what each
    rank sends for each of the n members in rank order (rows sum to 1), own part included, where no weights of the
    receivers describe them. ``root`` is the member, counted in rank order, whose buffer a gather or scatter fills or
    sends, by messages straight between it and the others, or which receives what the other one sends; None: the first
    member, by the library's algorithm.
    ``on_host``: buffers are in host memory, and no message takes the links of a GPU. ``repeats``: equal calls that
    follow each other without anything between them, as one task; ``bytes`` is the size of one. ``in_step``: ranks of a
    program are replicas that reach the call together: its instances are one activity where ranks do not vary and all
    instances are alike (`simulator.lowering.replicas`).
    """

    op: CollectiveOp
    communicator: str
    bytes: Amount
    dtype: str = "fp32"
    receive_weights: FloatArray | None = None
    peer_shares: FloatArray | None = None
    root: int | None = None
    on_host: bool = False
    repeats: int = 1
    in_step: bool = False

"""Pieces that NCCL cuts a message into, and the part of a collective's time that their pipeline does not hide.

A connection has eight slots. A piece fills one; it goes on when all of it is there, so the first one takes the time of
its own bytes at each hop, whatever the bandwidth behind it. With C channels, S bytes, n members, g on each node:

*Ring.* In each step a member passes one part, ``c = S / n / C`` bytes on each channel, at most a chunk; with the Simple
protocol as two slices s, each of 32 KiB or more. A part is back after all its hops, each a latency and a slice:

    path = s / c x (near + network x far / steps) + (1 - s / c) / steps x transfer

with near, network and transfer the seconds of all parts over links inside nodes, between them, and over all. With
more than a chunk on each channel the round starts again, and all hops are paid once more.

*Tree.* A chunk goes up all levels and down again while others follow it:

    fill = 2 (g - 1) x C chunk / nvlink + 2 log2 m x C chunk / (g nic)
    transfer >= S / (8 C chunk) x 2 network_hop        (eight slots, and their credits have to come back)

NCCL halves the chunk of a small message: Simple from 512 to 32 KiB until each channel has as many chunks as there are
levels, LL128 from 576,000 to 18,000 bytes. With the best chunk the fill grows as the root of S x levels.

Inside a node LL and LL128 pass a piece on word by word: no hop waits for it, s = 0.

Slots, steps of chunks and slices: NCCL 2.30.7 ``src/include/collectives.h``, ``src/init.cc`` (buffer sizes); halving:
``src/enqueue.cc`` (``calcCollChunking``), recalled; smallest slice: ``src/device/prims_simple.h`` (``sliceSize / 32``),
recalled; fewest bytes of a channel: ``src/graph/tuning.cc``.
"""

from __future__ import annotations

import math

from simulator.network.collectives.algorithm import Chunks, Protocol
from simulator.network.pipeline import WHOLE, Pipelined

SLOTS = 8
"""Pieces of a connection under way at once (``NCCL_STEPS``)."""
SLOT_BYTES: dict[Protocol, float] = {"ll": 32 * 1024, "ll128": 576_000, "simple": 512 * 1024}
"""Data bytes of a slot: an eighth of the protocol's buffer, half of it for LL, 15/16 for LL128."""
RING_SLOTS: dict[Protocol, int] = {"ll": 1, "ll128": 1, "simple": 4}
"""Slots of a ring's chunk (``ALLREDUCE_CHUNKSTEPS``)."""
SMALLEST_SLICE = 32 * 1024
"""A chunk of the Simple protocol is not cut into smaller slices, bytes."""
SLICES = 2
"""Slices of a ring's chunk, Simple protocol (``ALLREDUCE_SLICESTEPS``)."""
SIMPLE_CHUNKS = ((8, 128 * 1024), (4, 64 * 1024), (1, 32 * 1024))
"""Chunks for each level of a Simple tree below which a chunk larger than so many bytes is halved."""
LL128_CHUNKS = ((64, 128 * 1024), (16, 32 * 1024))
"""The same of LL128, over the members of a node."""
CHANNEL_BYTES: dict[Protocol, float] = {"ll": 0.0, "ll128": 0.0, "simple": 512 * 64}
"""A channel more needs so many bytes of the buffer: threads times bytes of each."""


def pipelined(chunks: Chunks, protocol: Protocol, members: int, nodes: int, channels: int) -> Pipelined:
    """The pipeline of a ring or tree over ``members`` on ``nodes`` with so many channels."""
    most = CHANNEL_BYTES[protocol]
    used = max(1, min(channels, int(chunks.bytes / most))) if most else channels
    if chunks.bytes <= 0.0:
        return WHOLE
    if chunks.shape == "ring":
        return _ring(chunks, protocol, members, nodes, used)
    return _tree(chunks, protocol, members / nodes, nodes, used)


def _ring(chunks: Chunks, protocol: Protocol, members: int, nodes: int, channels: int) -> Pipelined:
    part = chunks.bytes / members / channels
    rounds = math.ceil(part / (RING_SLOTS[protocol] * SLOT_BYTES[protocol]))
    chunk = part / rounds
    piece = chunk
    if protocol == "simple":
        piece = min(chunk, max(chunk / SLICES, SMALLEST_SLICE))
    share = piece / chunk
    return Pipelined(
        near=share if protocol == "simple" else 0.0,
        network=share * chunks.far / chunks.steps,
        transfer=(1.0 - share if nodes > 1 or protocol == "simple" else 1.0) / chunks.steps,
        rounds=float(rounds),
        hides=True,
        piece_bytes=piece if nodes > 1 else 0.0,
    )


def _tree(chunks: Chunks, protocol: Protocol, per_node: float, nodes: int, channels: int) -> Pipelined:
    each = chunks.bytes / channels
    chunk = min(tree_chunk(protocol, each, chunks.levels, per_node, nodes), each)
    inside = 2.0 * (per_node - 1) * chunk / each / 2.0 if protocol == "simple" else 0.0
    between = 2.0 * math.floor(math.log2(nodes)) * chunk / each / chunks.passes if nodes > 1 else 0.0
    waits = 2.0 * each / (SLOTS * chunk) if nodes > 1 else 0.0
    return Pipelined(near=inside, network=between, waits=waits, piece_bytes=chunk if nodes > 1 else 0.0)


def tree_chunk(protocol: Protocol, each: float, levels: int, per_node: float, nodes: int) -> float:
    """Chunk of a channel with ``each`` bytes of a tree, bytes."""
    chunk = SLOT_BYTES[protocol]
    if protocol == "simple":
        limits = [(float(levels * number), smallest) for number, smallest in SIMPLE_CHUNKS]
    elif protocol == "ll128":
        depth = 1 + math.floor(math.log2(nodes)) + 0.1 * per_node
        limits = [(depth * number / per_node, smallest) for number, smallest in LL128_CHUNKS]
    else:
        limits = []
    for number, smallest in limits:
        while each / chunk < number and chunk > smallest:
            chunk /= 2
    return chunk

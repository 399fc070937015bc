"""The channels that NCCL, or RCCL, would lay out on a machine, and the speed NCCL counts them at.

NCCL searches its graph of the machine for rings, each a channel of one of a few speeds. Here the layout is written
down: inside a node as many channels of one speed as the links allow, between nodes one for each NIC at the highest
speed that all fit in. Channels of 25 GB/s and more are not split in two, which changes their number, not their total.

RCCL takes its rings from a list of known machines (``src/graph/rome_models.cc``): only their number matters here.

Link speeds: NCCL 2.30.7 ``src/graph/topo.h``; channel speeds:
``src/graph/search.cc``, those below the first few recalled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hardware_specs.links import MeshLink
from hardware_specs.processors import AMD, Architecture
from hardware_specs.types import Node

GB = 1e9
Generation = Literal["volta", "ampere", "hopper", "blackwell"]
GENERATION: dict[Architecture, Generation] = {
    "kepler": "volta", "maxwell": "volta", "pascal": "volta", "volta": "volta", "ampere": "ampere", "ada": "ampere",
    "hopper": "hopper", "blackwell": "blackwell",
}  # fmt: skip
"""Row of each architecture in NCCL's tables (NCCL 2.30 ``src/graph/tuning.cc``); GPUs of AMD have none."""
RCCL_CHANNELS: dict[Architecture, int] = {"cdna3": 56, "cdna4": 112}
"""Channels of RCCL on all 8 GPUs of a node: 28 rings of ``rome_model_79``, doubled (RCCL 2.21.5,
``src/graph/connect.cc``); 112 on gfx950 (CHANGELOG of RCCL 2.25.1)."""
RCCL_CHANNELS_BETWEEN = 64
"""Most channels of RCCL between nodes (ROCm 7 ``src/graph/tuning.cc``, ``channelThresholds`` of ``tuning_model_6``)."""
RCCL_CHANNELS_OF_FEW = 32
"""Channels of RCCL on some GPUs of a node: ``2*CHANNEL_LIMIT`` (RCCL 2.21.5, ``src/include/device.h``)."""
LINK_SHARE: dict[Architecture, float] = {
    "pascal": 18 / 20, "volta": 20 / 25, "ampere": 20 / 25, "hopper": 20.6 / 25, "blackwell": 40.1 / 50,
}  # fmt: skip
"""Fraction of an NVLink's rate that NCCL counts (``topo.h``; rates (20, 25, 25, 25, 50 GB/s and direction,
recalled)."""
PCIE_SHARE = 12 / 15.75
"""Fraction of PCIe's bandwidth that NCCL counts: 12, 24, 48 GB/s of x16 of generations 3, 4, 5."""
NEAR_SPEED: dict[Generation, float] = {"volta": 20, "ampere": 20, "hopper": 30, "blackwell": 90}
"""Rate of a channel inside a node, GB/s: the result of NCCL's search (12 x 20 on A100, 12 x 30 on H100)."""
FAR_SPEEDS: dict[Generation, tuple[float, ...]] = {
    **dict.fromkeys(("volta", "ampere"), (48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3)),
    **dict.fromkeys(("hopper", "blackwell"), (48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3)),
}
"""Rates of a channel between nodes that NCCL's search tries, GB/s."""

FAST_CHANNEL = 25.0
"""A channel of so many GB/s is split in two; from Hopper on one of twice as many, or of up to `FEW_CHANNELS`."""
FEW_CHANNELS = 4


@dataclass(frozen=True, slots=True)
class Channels:
    """Channels of rings: how many, and GB/s of all together."""

    count: int
    total: float


def channels_of(node: Node, architecture: Architecture, nodes: int, local_size: int) -> Channels:
    """Channels over so many nodes with so many members on each."""
    generation = GENERATION[architecture]
    near = _near_rate(node, architecture, local_size)
    if nodes == 1:
        count = math.floor(near / NEAR_SPEED[generation])
        return Channels(count, count * NEAR_SPEED[generation]) if count else Channels(1, near)
    rate = node.nics.nic.bytes_per_s.value / GB
    nics = max(1, node.nics.count.value * local_size // node.ranks)
    inside = near if local_size > 1 else math.inf
    fits = (speed for speed in FAR_SPEEDS[generation] if speed <= rate and nics * speed <= inside)
    return Channels(nics, nics * next(fits, min(rate, inside / nics)))


def collective_channels(node: Node, nodes: int, local_size: int) -> int:
    """Channels that collectives run on: twice the number of the search, and twice again where channels are fast.

    NCCL 2.30.7 ``src/graph/search.cc`` (``ncclTopoDupChannels``, recalled) and ``src/graph/connect.cc``. A GPU without
    an architecture counts as Ampere. GPUs of AMD have the channels of RCCL.
    """
    architecture = (None if node.gpu is None else node.gpu.architecture) or "ampere"
    if architecture in AMD:
        return _rccl_channels(node, architecture, nodes, local_size)
    found = channels_of(node, architecture, nodes, local_size)
    each = found.total / found.count
    newer = GENERATION[architecture] in ("hopper", "blackwell")
    single = each < FAST_CHANNEL or (newer and each < 2 * FAST_CHANNEL and found.count > FEW_CHANNELS)
    return 2 * found.count * (1 if single else 2)


def _rccl_channels(node: Node, architecture: Architecture, nodes: int, local_size: int) -> int:
    """Channels of RCCL: by architecture on a whole node; on some of its GPUs, and between nodes, the same for all."""
    if nodes > 1:
        return RCCL_CHANNELS_BETWEEN
    return RCCL_CHANNELS[architecture] if local_size == node.ranks else RCCL_CHANNELS_OF_FEW


def _near_rate(node: Node, architecture: Architecture, local_size: int) -> float:
    """GB/s of a GPU to the others of its node, as NCCL counts them."""
    share = 0.0 if node.scale_up is None else _part_in_use(node.scale_up.mesh(node.ranks), local_size)
    if node.scale_up is None or share == 0.0:
        return 0.0 if node.pcie_bytes_per_s is None else node.pcie_bytes_per_s.value / GB * PCIE_SHARE
    return node.scale_up.bytes_per_s.value / GB * LINK_SHARE.get(architecture, 1.0) * share


def _part_in_use(links: Sequence[MeshLink] | None, local_size: int) -> float:
    """Fraction of a port that leads to the first ``local_size`` GPUs of a node, 0 to 1; 1 without a mesh."""
    if links is None or local_size == 1:
        return 1.0
    here = [sum(m.links for m in links if gpu in m.gpus and max(m.gpus) < local_size) for gpu in range(local_size)]
    return min(here) / sum(m.links for m in links if 0 in m.gpus)

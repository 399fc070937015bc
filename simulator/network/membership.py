"""Members of the instances of a communicator, as rectangular blocks of like instances.

Costs are computed for a whole block at once: all its instances have the same number of members on the same number of
domains (nodes, or what NVLink joins). A communicator of one group per node is one block, whatever the number of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.network.blocks import Block, grouping_of
from simulator.network.topology import Topology
from simulator.program import IntArray


def blocks_of(instance: IntArray, topology: Topology) -> list[Block]:
    """Cut a communicator into blocks.

    Args:
        instance: instance number of each rank ``[world_size]``, -1 for none (see `TaskGraph.communicators`).

    Returns:
        Blocks that hold each instance once. Instances whose domains hold unequal numbers of members are a block each.
    """
    ranks = np.flatnonzero(instance >= 0)
    order = ranks[np.argsort(instance[ranks], kind="stable")]
    numbers, sizes = np.unique(instance[order], return_counts=True)
    starts = np.cumsum(sizes) - sizes
    blocks = []
    for size in np.unique(sizes):
        chosen = np.flatnonzero(sizes == size)
        members = order[starts[chosen][:, None] + np.arange(size)]
        blocks += _blocks_of_size(numbers[chosen], members, topology)
    return blocks


def _blocks_of_size(numbers: IntArray, members: IntArray, topology: Topology) -> list[Block]:
    """Split instances of one size ``members [I, n]`` by how they are spread over domains and links."""
    labels = [label[members] for level in topology.levels for label in level.labels]
    labels += [
        np.hstack([level.link[members], level.beside.link[members]])
        for level in topology.levels
        if level.beside is not None
    ]
    shape, even = _shapes([topology.domain_of[members], *labels])
    rail = _rails(topology.domain_of[members], topology.local_rank_of[members])
    on_rails = rail[:, 0] >= 0
    gpus = _linked(members, topology) if any(level.mesh for level in topology.levels) else shape
    blocks = []
    for key in np.unique(np.stack([shape, on_rails, gpus], axis=1), axis=0):
        chosen = (shape == key[0]) & (on_rails == key[1]) & (gpus == key[2])
        domains = grouping_of(topology.domain_of[members[chosen]])
        rails = rail[chosen] if key[1] else None
        sites = None if topology.site_of is None else grouping_of(topology.site_of[members[chosen]])
        blocks.append(Block(numbers[chosen], members[chosen], domains, bool(even[chosen][0]), rails, sites))
    return blocks


def _linked(members: IntArray, topology: Topology) -> IntArray:
    """A number for each instance ``[I]``, equal for the same GPUs; a member alone in its node uses no links."""
    alone = _distinct(topology.domain_of[members]) == members.shape[1]
    gpus = np.where(alone[:, None], 0, topology.local_rank_of[members])
    return np.asarray(np.unique(gpus, axis=0, return_inverse=True)[1]).reshape(-1)


def _rails(domain: IntArray, gpu: IntArray) -> IntArray:
    """`Block.rail` of instances ``[I, n]`` from domain and GPU of their members; -1 for those without rails."""
    order = np.lexsort((gpu, domain), axis=-1)
    sorted_gpu = np.take_along_axis(gpu, order, axis=1)
    first = _starts(domain).cumsum(axis=1) - 1
    members = np.arange(domain.shape[1])
    local = np.asarray((first == 0).sum(axis=1, keepdims=True))
    position = members % local
    pattern = np.take_along_axis(sorted_gpu, position, axis=1)
    distinct = np.ones(len(gpu), dtype=bool)
    if domain.shape[1] > 1:
        rising = (sorted_gpu[:, 1:] > sorted_gpu[:, :-1]) | (position[:, 1:] == 0)
        distinct = rising.all(axis=1)
    aligned = (first == members // local).all(axis=1) & (pattern == sorted_gpu).all(axis=1) & distinct
    rail = np.empty_like(order)
    np.put_along_axis(rail, order, position, axis=1)
    return np.where(aligned[:, None], rail, -1)


def _shapes(labels: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """A number for each instance ``[I]``, equal for those of one shape; and whether its domains are even ``[I]``.

    Args:
        labels: labels of the members ``[I, n]``, those of their domains first.
    """
    widths = np.stack([_distinct(label) for label in labels], axis=1)
    _, shape = np.unique(widths, axis=0, return_inverse=True)
    counts = _run_lengths(labels[0])
    even = counts.min(axis=1) == counts.max(axis=1)
    return np.where(even, shape.reshape(-1), -1 - np.arange(len(even))), even


def _starts(label: IntArray) -> IntArray:
    """Begins of new values in each sorted row ``[I, n]``, 0 or 1."""
    ordered = np.sort(label, axis=1)
    new = np.ones(label.shape, dtype=np.int64)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return new


def _distinct(label: IntArray) -> IntArray:
    """Distinct values of each row ``[I]``."""
    return np.asarray(_starts(label).sum(axis=1))


def _run_lengths(label: IntArray) -> IntArray:
    """Number of entries of the row that share each value, in order of the values ``[I, n]``."""
    run = np.cumsum(_starts(label).ravel()) - 1
    return np.asarray(np.bincount(run)[run].reshape(label.shape))

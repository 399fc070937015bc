"""Settings of the network's library that may make any job faster: another backend, other cores for its workers."""

from __future__ import annotations

from collections.abc import Iterator

from inputs.keys import key_text
from scenarios.backend import BACKEND, BACKENDS, CORES, ranks_of_socket
from scenarios.candidates import Candidate
from scenarios.resolved import ResolvedScenario


def network_candidates(resolved: ResolvedScenario) -> Iterator[Candidate]:
    """Another library of collectives, and half or twice the cores of its workers, or one.

    A lone rank has no collectives, and a host whose kernels were measured has one library. On GPUs NCCL is tried where
    another library was chosen.
    """
    cluster = resolved.cluster
    if resolved.world_size == 1:
        return
    if cluster.node.gpu is not None:
        if cluster.collectives.backend != "nccl" and cluster.by_backend("nccl") is not None:
            yield Candidate(f"{key_text(BACKEND)}=nccl")
        return
    if cluster.node.cpu.kernels:
        return
    for backend, library in BACKENDS.items():
        if library != cluster.collectives.name:
            yield Candidate(f"{key_text(BACKEND)}={backend}")
    yield from _workers(resolved)


def _workers(resolved: ResolvedScenario) -> Iterator[Candidate]:
    """Other numbers of the cores that communicate, which leave at least one that computes."""
    cluster = resolved.cluster
    own, cores = cluster.collectives.workers, cluster.node.cpu.cores.value // ranks_of_socket(cluster)
    if own:
        for count in sorted({1, own // 2, 2 * own} - {own}):
            if 1 <= count < cores:
                yield Candidate(f"{key_text(CORES)}={count}")

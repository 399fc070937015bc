"""The collectives library of a cluster."""

from __future__ import annotations

from collections.abc import Iterator

from hardware_specs.library import CollectiveLibrary
from hardware_specs.types import Cluster
from simulator.network.collectives.algorithm import check_algorithm
from simulator.network.messages import MessageTransport
from simulator.network.nccl import NcclTransport
from simulator.network.transport import Transport


def transport_of(cluster: Cluster) -> Transport:
    """The library that runs the cluster's collectives.

    Raises:
        InputError: the library names an algorithm that does not exist.
    """
    library = cluster.collectives
    for key, op, name in _named(library):
        check_algorithm(op, name, key)
    if library.messages is not None:
        return MessageTransport.of(cluster, library.messages)
    assert library.nccl is not None, "a library is of one kind"  # noqa: S101 - its validator saw to it
    return NcclTransport.of(cluster, library.nccl)


def _named(library: CollectiveLibrary) -> Iterator[tuple[str, str, str]]:
    """Key, operation and name of every algorithm that a library says it uses."""
    if library.nccl is not None:
        for op, names in library.nccl.algorithms.items():
            yield from ((f"collectives.nccl.algorithms.{op}", op, name) for name in names)
    if library.messages is not None:
        for op, choices in library.messages.choices.items():
            key = f"collectives.messages.choices.{op}.rules"
            yield from ((f"{key}[{number}].use", op, rule.use) for number, rule in enumerate(choices.rules))

"""From a cluster to its collectives library."""

from __future__ import annotations

from hardware_specs.types import Cluster
from simulator.network.messages import MessageTransport
from simulator.network.nccl import NcclTransport
from simulator.network.transport import Transport


def transport_of(cluster: Cluster) -> Transport:
    """The library that runs the cluster's collectives."""
    library = cluster.collectives
    if library.messages is not None:
        return MessageTransport.of(cluster, library.messages)
    assert library.nccl is not None, "a library is of one kind"  # noqa: S101 - its validator saw to it
    return NcclTransport.of(cluster, library.nccl)

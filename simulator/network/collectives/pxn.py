"""Grouped all_to_all with PXN: by NVLink to the local GPU on the destination's rail, then through its NIC.

With m nodes of g members, n = m g, S bytes sent by each:

    time = base + g x nvlink_hop + network_hop
           + max((n - g) x post, (g - 1) / g x S / nvlink, (m - 1) / m x S / nic)

What a member sends to a GPU of another number on another node first changes GPU inside the node, so its NVLink port
carries (g - 1) / g S instead of (g - 1) / n S, and nothing that leaves a NIC changes the rail. A GPU posts as many
messages as without, for its node's other members too (decision 024). Both legs run at once, chunk by chunk: one phase.
NCCL does so for every send wherever it can (2.12 and later, ``NCCL_P2P_PXN_LEVEL`` 2; ``src/graph/search.cc``,
``src/graph/paths.cc``): here where the fabric is rail-optimised, every GPU has a NIC and NVLink to all others of its
node, and the nodes hold the same GPUs of the communicator. On other fabrics it would only add to NVLink.

With uneven sizes the NVLink leg carries to local member j the share of everything that goes to j's rail.
"""

from __future__ import annotations

from hardware_specs.types import Cluster
from simulator.network.blocks import Block
from simulator.network.collectives.algorithm import Call, CollectiveAlgorithm, Latency, Stage, register
from simulator.network.collectives.hierarchical_all_to_all import by_rail, rails_of
from simulator.network.patterns import AllPairs, NearAndFar


def stages(call: Call) -> tuple[Stage, ...]:
    """One phase; see the module's formula."""
    g, n = call.block.local_size, call.block.size
    near, far = by_rail(call, rails_of(call.block))
    latency = Latency(near_hops=g, network_hops=1, messages=n - g)
    pattern = NearAndFar(near, far, AllPairs(call.bytes, call.send_bytes, call.receive_weights, call.peer_bytes))
    return (Stage(latency, pattern, own_bytes=call.bytes / n),)


def applies(block: Block) -> bool:
    """Whether two or more nodes hold the same two or more GPUs each."""
    return block.rail is not None and block.node_count > 1 and block.local_size > 1


def has_rails(cluster: Cluster) -> bool:
    """Whether equal NICs hang on one rail, each GPU has one, and NVLink to all GPUs of its node."""
    node = cluster.node
    joined = node.scale_up is not None and node.scale_up.mesh(node.ranks) is None
    return joined and cluster.fabric.kind == "rail_optimised" and node.nics.count.value >= node.ranks


PXN = register(
    CollectiveAlgorithm(
        name="pxn",
        ops=("all_to_all",),
        description="grouped, but by NVLink to the GPU on the destination's rail before the NIC (NCCL's PXN)",
        stages=stages,
        shares="direct",
        applies=applies,
        network_protocols=("simple",),
        runs_on=has_rails,
        instead_of="grouped",
    )
)

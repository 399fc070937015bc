"""Traffic between GPUs on PCIe that passes a host bridge: hosts do not pass it on at the rate of the links.

Below one switch two GPUs reach each other at the rate of their links. What leaves a switch passes the host bridge and
host memory, at ``peer_bytes_per_s`` for each switch and direction; what one GPU sends to another socket at
``far_peer_bytes_per_s``. A ring or tree crosses between the sockets at one GPU. Over several nodes with fewer NICs than
sockets all rings enter a node at one socket, so they cross to the others one way only, while the pattern counts half of
them each way. Messages to all go in rounds, in each of which a GPU sends one: of the k GPUs of a socket
(g - k) / (g - 1) of g send to another one at a time. Both are caps: copies between host and GPU have the up-link's own
rate.
"""

from __future__ import annotations

from hardware_specs.collectives import Shares
from hardware_specs.types import Node
from simulator.network.levels import ResourceClass


def peer_shares(node: Node, shares: Shares, local_size: int, nodes: int) -> dict[ResourceClass, float]:
    """Share of links of a class that traffic between GPUs gets, where it is not all.

    Args:
        shares: the algorithm's name of shares.
        local_size: members on a node.
        nodes: nodes with members.
    """
    tree, found = node.pcie_tree, dict[ResourceClass, float]()
    if tree is None or node.pcie_fraction is None or node.scale_up is not None:
        return found
    if tree.peer_bytes_per_s is not None:
        uplink = tree.uplink_bytes_per_s.value * node.pcie_fraction.value
        found["switch"] = min(1.0, tree.peer_bytes_per_s.value / uplink)
    if tree.far_peer_bytes_per_s is not None:
        flows = _flows_between_sockets(node, shares, local_size, nodes)
        found["socket"] = min(1.0, flows * tree.far_peer_bytes_per_s.value / tree.socket_link_bytes_per_s.value)
    return found


def _flows_between_sockets(node: Node, shares: Shares, local_size: int, nodes: int) -> float:
    """Number of GPUs of a socket that send to another one at a time."""
    here = local_size / node.sockets.value
    if shares not in ("ring", "tree"):
        return max(1.0, here * (local_size - here) / max(local_size - 1, 1))
    one_way = shares == "ring" and nodes > 1 and node.nics.count.value < node.sockets.value
    return 0.5 if one_way else 1.0

"""The network: ranks and links (`topology`), collective algorithms (`collectives`), their times (`model`)."""

from simulator.network.collectives import ALGORITHMS
from simulator.network.model import CollectiveModel
from simulator.network.topology import Topology

__all__ = ["ALGORITHMS", "CollectiveModel", "Topology"]

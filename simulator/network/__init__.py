"""The network: ranks and links (`topology`), collective algorithms (`collectives`), their times (`model`)."""

from simulator.network.collectives import ALGORITHMS
from simulator.network.model import CollectiveModel, idle_call
from simulator.network.topology import Topology

__all__ = ["ALGORITHMS", "CollectiveModel", "Topology", "idle_call"]

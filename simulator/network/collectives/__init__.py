"""Collective algorithms, one per file. Importing this package registers the shipped ones."""

from simulator.network.collectives import hierarchical, hierarchical_all_to_all, pairwise, ring, tree
from simulator.network.collectives.algorithm import ALGORITHMS, Call, CollectiveAlgorithm, algorithms_of, register

__all__ = [
    "ALGORITHMS",
    "Call",
    "CollectiveAlgorithm",
    "algorithms_of",
    "hierarchical",
    "hierarchical_all_to_all",
    "pairwise",
    "register",
    "ring",
    "tree",
]

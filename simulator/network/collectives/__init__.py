"""Collective algorithms, one per file. Importing this package registers the shipped ones."""

from simulator.network.collectives import (
    bruck,
    direct,
    grouped,
    halving_doubling,
    hierarchical,
    hierarchical_all_to_all,
    linear,
    nvls,
    pairwise,
    recursive_doubling,
    ring,
    tree,
)
from simulator.network.collectives.algorithm import ALGORITHMS, Call, CollectiveAlgorithm, algorithms_of, register

__all__ = [
    "ALGORITHMS",
    "Call",
    "CollectiveAlgorithm",
    "algorithms_of",
    "bruck",
    "direct",
    "grouped",
    "halving_doubling",
    "hierarchical",
    "hierarchical_all_to_all",
    "linear",
    "nvls",
    "pairwise",
    "recursive_doubling",
    "register",
    "ring",
    "tree",
]

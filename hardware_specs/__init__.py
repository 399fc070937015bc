"""Hardware specs: GPUs, CPUs, NICs, nodes and clusters as YAML, every value with unit, source and grade.

Importing the package loads none of its modules: `hardware_specs.catalogs` alone knows the names that ship.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hardware_specs.loader import load_cluster, load_gpu, read_cluster
    from hardware_specs.types import Cluster, Gpu, Nic, Node

__all__ = ["Cluster", "Gpu", "Nic", "Node", "load_cluster", "load_gpu", "read_cluster"]


def __getattr__(name: str) -> object:
    """Load a public name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'hardware_specs' has no attribute {name!r}")
    return getattr(import_module(f"hardware_specs.{'types' if name[0].isupper() else 'loader'}"), name)

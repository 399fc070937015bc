"""Hardware specs: GPUs, CPUs, NICs, nodes and clusters as YAML, every value with unit, source and grade."""

from __future__ import annotations

from hardware_specs.loader import CATALOGS, load_cluster, load_gpu, read_cluster
from hardware_specs.types import Cluster, Gpu, Nic, Node

__all__ = ["CATALOGS", "Cluster", "Gpu", "Nic", "Node", "load_cluster", "load_gpu", "read_cluster"]

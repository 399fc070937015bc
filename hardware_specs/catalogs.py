"""Shipped specs by kind. Importing it loads none of their types."""

from __future__ import annotations

from inputs.catalog import Catalog

CATALOGS: dict[str, Catalog] = {
    "gpu": Catalog("gpu", "hardware_specs", "gpus"),
    "cpu": Catalog("cpu", "hardware_specs", "cpus"),
    "nic": Catalog("nic", "hardware_specs", "nics"),
    "node": Catalog("node", "hardware_specs", "nodes"),
    "library": Catalog("library", "hardware_specs", "libraries"),
    "cluster": Catalog("cluster", "hardware_specs", "clusters", others=("hosts",)),
    "host": Catalog("host", "hardware_specs", "hosts"),
}
"""Shipped specs, by kind."""

"""Collective algorithms, one per file. Importing this package imports every file, which registers its algorithms."""

from importlib import import_module
from pkgutil import iter_modules

from simulator.network.collectives.algorithm import ALGORITHMS, Call, CollectiveAlgorithm, register

__all__ = ["ALGORITHMS", "Call", "CollectiveAlgorithm", "register"]

for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")

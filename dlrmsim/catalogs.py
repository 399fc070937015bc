"""Everything that has a name: names of shipped files, and names registered in code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inputs.catalog import Catalog
from inputs.errors import InputError, nearest_name
from inputs.python_heads import first_line
from inputs.yaml_heads import about

if TYPE_CHECKING:  # loads the simulator
    from simulator.registry import Registry


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file behind a name; ``others`` are the further KIND/NAME keys the bare name could have meant."""

    key: str
    path: Path
    others: tuple[str, ...]


_REGISTRIES = {
    "collectives": ("simulator.network.collectives", "ALGORITHMS"),
    "planners": ("workloads.dlrm.sharding", "PLANNERS"),
    "transformations": ("simulator.transform.transformation", "TRANSFORMATIONS"),
    "workloads": ("scenarios.family", "FAMILIES"),
}
"""Module and name of each registry, by plural kind."""


def file_catalogs() -> dict[str, Catalog]:
    """Catalogues of shipped files by plural kind; the order decides the meaning of a bare name."""
    from hardware_specs.catalogs import CATALOGS
    from scenarios.arrivals.library import JOBS
    from scenarios.library import CATALOG
    from trainer.capture.examples import EXAMPLES
    from validation.catalogs import SUITES
    from workloads.catalogs import FRAMEWORKS, MODELS, REUSE

    return {
        "scenarios": CATALOG,
        "jobs": JOBS,
        "clusters": CATALOGS["cluster"],
        "hosts": CATALOGS["host"],
        "models": MODELS,
        "frameworks": FRAMEWORKS,
        "nodes": CATALOGS["node"],
        "gpus": CATALOGS["gpu"],
        "cpus": CATALOGS["cpu"],
        "nics": CATALOGS["nic"],
        "libraries": CATALOGS["library"],
        "examples": EXAMPLES,
        "suites": SUITES,
        "histograms": REUSE,
    }


def list_names(kind: str | None = None) -> dict[str, dict[str, str]]:
    """Names and one-line descriptions by kind; of one kind when it is given.

    Names registered in code are read with the modules that register them, once their kind is asked for.

    Raises:
        InputError: the kind is unknown.
    """
    known: dict[str, Callable[[], dict[str, str]]] = {
        **{name: partial(_shipped, catalog) for name, catalog in file_catalogs().items()},
        "architectures": _architectures,
        **{name: partial(_registered, *place) for name, place in _REGISTRIES.items()},
    }
    if kind is None:
        return {name: describe() for name, describe in known.items()}
    plural = {"library": "libraries"}.get(kind, kind if kind in known else f"{kind}s")
    if plural not in known:
        raise InputError("unknown kind", given=kind, expected=", ".join(known), nearest=nearest_name(kind, known))
    return {plural: known[plural]()}


def shipped_file(name: str) -> FoundFile:
    """The shipped file that ``name`` or ``KIND/NAME`` stands for.

    Raises:
        InputError: there is none.
    """
    catalogs = file_catalogs()
    keys = [f"{kind}/{known}" for kind, catalog in catalogs.items() for known in catalog.names()]
    matches = [key for key in keys if name in (key, key.split("/")[1])]
    if not matches:
        bare = sorted({key.split("/")[1] for key in keys})
        raise InputError(
            "unknown name", given=name, expected="one that `list` prints", nearest=nearest_name(name, bare)
        )
    kind, known = matches[0].split("/")
    return FoundFile(matches[0], catalogs[kind].find(known), tuple(matches[1:]))


def _shipped(catalog: Catalog) -> dict[str, str]:
    head = first_line if catalog.suffixes == (".py",) else about
    return {name: head(catalog.find(name)) for name in catalog.names()}


def _architectures() -> dict[str, str]:
    """Models that families build themselves, which are no files, with their kind of workload."""
    from scenarios.family import FAMILIES

    families = [FAMILIES.get(kind) for kind in FAMILIES.names()]
    return {
        name: f"{title} (workload.kind {family.kind})" for family in families for name, title in family.models().items()
    }


def _registered(module: str, name: str) -> dict[str, str]:
    registry: Registry[Any] = getattr(import_module(module), name)
    return {name: registry.description(name) for name in registry.names()}

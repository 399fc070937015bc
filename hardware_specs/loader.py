"""Loading a `Cluster` with all its parts from a name or a file.

A part may be a name of ours, a path, or a mapping written in place; all problems are `InputError`s with file and line.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from hardware_specs.catalogs import CATALOGS
from hardware_specs.types import Cluster, CollectiveLibrary, Cpu, Gpu, Nic, Node
from inputs.keys import KeyPath, key_text, value_at
from inputs.model import Strict
from inputs.validate import validate
from inputs.yaml_lines import Document, load_yaml

M = TypeVar("M", bound=Strict)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a kind: at ``path`` stands a ``model`` of ``kind``; ``of_each``: so it does in each item of a list."""

    path: KeyPath
    kind: str
    model: type[Strict]
    of_each: KeyPath = ()

    def places(self, document: Document, prefix: KeyPath) -> list[KeyPath]:
        """Places of the part below a prefix."""
        if not self.of_each:
            return [(*prefix, *self.path)]
        items = value_at(document.data, (*prefix, *self.of_each))
        count = len(items) if isinstance(items, list) else 0
        return [(*prefix, *self.of_each, number, *self.path) for number in range(count)]


_PARTS: dict[str, tuple[_Part, ...]] = {
    "cluster": (
        _Part(("node",), "node", Node),
        _Part(("collectives",), "library", CollectiveLibrary),
        _Part(("collectives",), "library", CollectiveLibrary, of_each=("other_libraries",)),
    ),
    "node": (
        _Part(("gpu",), "gpu", Gpu),
        _Part(("cpu",), "cpu", Cpu),
        _Part(("nics", "nic"), "nic", Nic),
        _Part(("frontend", "nic"), "nic", Nic),
    ),
}


def load_cluster(name_or_path: str | Path) -> Cluster:
    """The shipped cluster of that name, or the cluster in a file.

    Raises:
        InputError: the name or file is unknown, or its contents (or those of a file it names) are wrong.
    """
    return _load("cluster", Cluster, CATALOGS["cluster"].find(name_or_path))


def load_gpu(name_or_path: str | Path) -> Gpu:
    """The shipped GPU of that name, or the GPU in a file; raises as `load_cluster`."""
    return _load("gpu", Gpu, CATALOGS["gpu"].find(name_or_path))


def load_library(name_or_path: str | Path) -> CollectiveLibrary:
    """The shipped collectives library of that name, or the one in a file; raises as `load_cluster`."""
    return _load("library", CollectiveLibrary, CATALOGS["library"].find(name_or_path))


def read_cluster(document: Document, path: KeyPath) -> Cluster:
    """The cluster at ``path`` of a document: a name, a path relative to the document, or a mapping in place.

    Raises:
        InputError: as `load_cluster`; or there is nothing at ``path``.
    """
    given = value_at(document.data, path)
    if isinstance(given, str):
        return _load("cluster", Cluster, CATALOGS["cluster"].find(given, origin=document, key=key_text(path)))
    return validate(Cluster, _with_parts(document, "cluster", path), prefix=path)


def _load(kind: str, model: type[M], file: Path) -> M:
    return validate(model, _with_parts(load_yaml(file), kind, ()))


def _with_parts(document: Document, kind: str, prefix: KeyPath) -> Document:
    """A copy of the document in which named parts below ``prefix`` are replaced by the loaded ones."""
    data = copy.deepcopy(document.data)
    _load_parts(replace(document, data=data), kind, prefix)
    return replace(document, data=data)


def _load_parts(document: Document, kind: str, prefix: KeyPath) -> None:
    """Replace, in place, each named part of the mapping at ``prefix``; descend into those written out."""
    for part, path in [(p, path) for p in _PARTS.get(kind, ()) for path in p.places(document, prefix)]:
        given = value_at(document.data, path)
        if isinstance(given, str):
            file = CATALOGS[part.kind].find(given, origin=document, key=key_text(path))
            holder = value_at(document.data, path[:-1])
            holder[path[-1]] = _load(part.kind, part.model, file)  # type: ignore[index]
        else:
            _load_parts(document, part.kind, path)

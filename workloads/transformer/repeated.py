"""Layers whose forward pass a transformation repeats, from the names of the tasks that run again."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from simulator.categories import Category
from simulator.operators import Marker
from simulator.program import TaskGraph
from workloads.transformer.kernels import ATTENTION
from workloads.transformer.settings import TransformerSettings

_FORWARD = re.compile(r"(?P<part>\w+?)_forward(_\d+)?_(?P<kind>elementwise|gemm|attention)")
"""Names of the kernels of a forward pass."""

_LAYER = re.compile(r"layer_(\d+)")


@dataclass(frozen=True, slots=True)
class RepeatedLayers:
    """Forward work that runs again in the backward pass because a transformation asks for it.

    Attributes:
        whole: layers of which all kernels run again.
        scores: whether attention of all layers runs again, and no layer as a whole.
        partly: whether only others run again, and as much is kept.
    """

    whole: frozenset[int] = frozenset()
    scores: bool = False
    partly: bool = False


def layers_in(part: str, layers: int) -> range:
    """Numbers of the layers of a part by its name, such as ``layer_3`` or ``embedding_to_layer_7``."""
    found = [int(number) for number in _LAYER.findall(part)]
    if "_to_" not in part:
        return range(found[0], found[0] + 1) if found else range(0)
    first = 0 if part.startswith("embedding") else found[0]
    return range(first, layers if part.endswith("head") else found[-1] + 1)


def repeated_layers(graph: TaskGraph, again: Collection[str], settings: TransformerSettings) -> RepeatedLayers:
    """The layers whose forward kernels all run again.

    Args:
        graph: the graph before the transformation.
        again: names of the tasks that run again.
    """
    every = set(range(settings.model.layers))
    kept = {kind: set(layers) for kind, layers in _by_kind(graph, again, settings)}
    whole = every.difference(*kept.values())
    scores = not whole and not kept.get(ATTENTION.lower())
    return RepeatedLayers(frozenset(whole), scores, not whole and not scores)


def _by_kind(graph: TaskGraph, again: Collection[str], settings: TransformerSettings) -> Iterator[tuple[str, set[int]]]:
    """Layers of which a kernel does not run again, by the kind of kernel."""
    kept: dict[str, set[int]] = {}
    for program in graph.programs:
        for name, category, work in zip(program.names, program.categories, program.work, strict=True):
            found = _FORWARD.fullmatch(name)
            if found is None or category is not Category.COMPUTE or isinstance(work, Marker):
                continue
            of_kind = kept.setdefault(found["kind"], set())
            if name not in again:
                of_kind.update(layers_in(found["part"], settings.model.layers))
    yield from kept.items()

"""Lookups per sample of the features of a module, from the caller's figures or TorchRec's constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from inputs.errors import InputError, nearest_name
from trainer.torchrec.collections import BagTable
from trainer.torchrec.interfaces import TorchrecConstraints

PoolingFactors: TypeAlias = Mapping[str, float | Sequence[float]]
"""Mean lookups per sample, by name of a table (one figure, or one for each of its features) or of a feature."""

POOLING_FACTOR = 1.0
"""Lookups per sample of features without a figure (torchrec/distributed/planner/constants.py)."""


def pooling_of(
    table: BagTable, given: PoolingFactors, constraint: TorchrecConstraints | None
) -> tuple[tuple[float, ...], bool]:
    """Lookups per sample of each feature of a table, and whether anyone stated them.

    Raises:
        InputError: a list has another length than the table has features.
    """
    if table.name in given:
        return _for_each(table, given[table.name], "pooling_factors"), True
    if any(feature in given for feature in table.features):
        return tuple(_number(given.get(feature, POOLING_FACTOR), feature) for feature in table.features), True
    if constraint is not None:
        return _for_each(table, constraint.pooling_factors, "constraints"), True
    return (POOLING_FACTOR,) * len(table.features), False


def vectors_of(table: BagTable, constraint: TorchrecConstraints | None) -> tuple[tuple[int, ...], str | None]:
    """Pooled vectors per sample of each feature, and a note if the constraint has others.

    Raises:
        InputError: the constraint has another number of figures than the table has features.
    """
    poolings = None if constraint is None else constraint.num_poolings
    if poolings is None:
        return (1,) * len(table.features), None
    each = _for_each(table, poolings, "constraints")
    counts = tuple(max(1, round(count)) for count in each)
    same = all(count == rounded for count, rounded in zip(each, counts, strict=True))
    return counts, None if same else f"{table.name}: num_poolings {list(each)} are taken as {list(counts)}"


def require_known(given: Mapping[str, object], known: Sequence[str], key: str) -> None:
    """Refuse names that the module lacks.

    Raises:
        InputError: ``given`` has one.
    """
    for name in given:
        if name not in known:
            message, expected = "the module has no such name", "a table of the module"
            raise InputError(message, key=key, given=name, expected=expected, nearest=nearest_name(name, known))


def _for_each(table: BagTable, given: float | Sequence[float], key: str) -> tuple[float, ...]:
    """One figure for each feature.

    Raises:
        InputError: there are more or fewer.
    """
    figures = (float(given),) if isinstance(given, int | float) else tuple(float(figure) for figure in given)
    if len(figures) == 1:
        return figures * len(table.features)
    if len(figures) != len(table.features):
        raise InputError(
            f"{len(figures)} figures for {len(table.features)} features",
            key=f"{key}.{table.name}",
            given=", ".join(map(str, figures)),
            expected="one, or one for each feature",
        )
    return figures


def _number(given: float | Sequence[float], feature: str) -> float:
    """The figure of a feature.

    Raises:
        InputError: it is a list.
    """
    if isinstance(given, int | float):
        return float(given)
    raise InputError("a list for one feature", key=f"pooling_factors.{feature}", expected="a number")

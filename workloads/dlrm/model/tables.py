"""Embedding tables as arrays, and populations expanded into them.

A population gives a range and a mean. The distribution that assumes nothing else is the maximum-entropy one: density
proportional to ``exp(-rate x)`` on the range, with the rate that yields the mean. Its values are taken at the
quantiles ``(i + 1/2) / N``, with the rate solved so that the sample, not just the distribution, has the mean, and each
quantity is shuffled on its own (PCG64 of the population's seed): deterministic and uncorrelated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from inputs.errors import InputError
from simulator.operators import FloatArray
from simulator.precisions import BYTES_PER_ELEMENT
from simulator.program import IntArray
from workloads.dlrm.laws.index_laws import IndexLaw
from workloads.dlrm.laws.pooling import PoolingSpread
from workloads.dlrm.model.columns import COLUMN_MULTIPLE
from workloads.dlrm.model.model import DlrmModel, Range, TablePopulation
from workloads.dlrm.model.sequences import SequenceLengths, lengths_of
from workloads.dlrm.model.table_list import TableGroup

Law = TypeVar("Law")


@dataclass(frozen=True, slots=True)
class Tables:
    """Embedding tables.

    Attributes:
        names: ``[N]``, unique.
        rows: ``[N]``.
        dim: elements per row ``[N]``.
        pooling_factor: lookups per sample and feature ``[N]``, a mean over samples and the features of the table.
        element_bytes: size of a stored element ``[N]``.
        features: features that are looked up in the table, each of which gives a pooled vector ``[N]``.
        feature_pooling: table -> lookups per sample of each of its features, for tables whose features differ.
        indices: laws of tables that have one of their own ``[N]``; empty when none has.
        pooling: distributions of their bag lengths ``[N]``; empty when all are fixed.
        sequences: lengths of the sequences whose positions they look up ``[N]``, None for pooled tables; empty when all
            are pooled.
    """

    names: tuple[str, ...]
    rows: IntArray
    dim: IntArray
    pooling_factor: FloatArray
    element_bytes: IntArray
    features: IntArray
    feature_pooling: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    indices: tuple[IndexLaw | None, ...] = ()
    pooling: tuple[PoolingSpread | None, ...] = ()
    sequences: tuple[SequenceLengths | None, ...] = ()

    def __len__(self) -> int:
        """N, the number of tables."""
        return len(self.names)

    @property
    def lookups_per_sample(self) -> FloatArray:
        """Lookups of all features of each table ``[N]``."""
        return self.pooling_factor * self.features

    def pooling_of_features(self, table: int) -> tuple[float, ...]:
        """Lookups per sample of each feature of a table."""
        same = (float(self.pooling_factor[table]),) * int(self.features[table])
        return self.feature_pooling.get(table, same)

    @property
    def unpooled(self) -> NDArray[np.bool_]:
        """Whether a table gives a vector for each lookup, none of them summed ``[N]``."""
        if not self.sequences:
            return np.zeros(len(self), dtype=np.bool_)
        return np.array([sequence is not None for sequence in self.sequences])

    @property
    def history(self) -> SequenceLengths:
        """The sequence that layers run over; of models with a stack of them.

        Raises:
            ValueError: there is none.
        """
        for sequence in self.sequences:
            if sequence is not None and sequence.attended:
                return sequence
        raise ValueError("no sequence of these tables is one that layers run over")

    @property
    def sequence_names(self) -> tuple[str | None, ...]:
        """Sequence of each table ``[N]``, None for pooled ones."""
        found = self.sequences or (None,) * len(self)
        return tuple(None if sequence is None else sequence.name for sequence in found)

    @property
    def pooled_dim(self) -> IntArray:
        """Elements of the pooled vectors of all features of each table ``[N]``; 0 for sequences."""
        return self.dim * self.features * ~self.unpooled if self.sequences else self.dim * self.features

    @property
    def vectors(self) -> FloatArray:
        """Vectors of a sample in each table, a mean ``[N]``: one for each feature, or for each lookup of a sequence."""
        return np.where(self.unpooled, self.lookups_per_sample, self.features)

    @property
    def feature_count(self) -> int:
        """Features of all tables."""
        return int(self.features.sum())

    @property
    def parameters(self) -> int:
        """Number of weights in all tables."""
        return int(self.rows @ self.dim)

    @property
    def weight_bytes(self) -> IntArray:
        """Bytes of each table's weights ``[N]``."""
        return self.rows * self.dim * self.element_bytes


def expand_tables(model: DlrmModel, precision: str = "fp32") -> Tables:
    """The tables of a model, one entry each.

    Args:
        model: lists its tables or describes a population.
        precision: element type of tables that do not state their own.

    Raises:
        InputError: a population whose mean is outside its range, or whose total cannot be reached.
    """
    spread = model.pooling_spread.value if model.pooling_spread is not None else None
    if model.population is not None:
        tables = _from_population(model.population, BYTES_PER_ELEMENT[precision])
        return tables if spread is None else replace(tables, pooling=(spread,) * len(tables))
    groups = model.tables.value if model.tables is not None else ()
    known = lengths_of(model.sequences or {}, model.hstu, groups)
    return replace(
        tables_of_groups(groups, precision, known),
        indices=_given([group.indices for group in groups], groups),
        pooling=_given([group.pooling_spread or spread for group in groups], groups) if not known else (),
        sequences=_given([known[g.sequence] if g.sequence is not None else None for g in groups], groups),
    )


def scale_rows(tables: Tables, factor: float) -> Tables:
    """The tables with ``factor`` times their rows, at least one each (how the paper fitted small clusters)."""
    rows = np.maximum(1, np.floor(tables.rows * factor)).astype(np.int64)
    return replace(tables, rows=rows)


def in_order(tables: Tables, order: IntArray) -> Tables:
    """The tables at the places ``order [M]``, in this order."""
    place = {int(table): new for new, table in enumerate(order)}
    return Tables(
        names=tuple(tables.names[table] for table in order),
        rows=tables.rows[order],
        dim=tables.dim[order],
        pooling_factor=tables.pooling_factor[order],
        element_bytes=tables.element_bytes[order],
        features=tables.features[order],
        feature_pooling={place[table]: each for table, each in tables.feature_pooling.items() if table in place},
        indices=tuple(tables.indices[table] for table in order) if tables.indices else (),
        pooling=tuple(tables.pooling[table] for table in order) if tables.pooling else (),
        sequences=tuple(tables.sequences[table] for table in order) if tables.sequences else (),
    )


def tables_of_groups(
    groups: tuple[TableGroup, ...], precision: str = "fp32", sequences: Mapping[str, SequenceLengths] | None = None
) -> Tables:
    """The tables of groups, one entry each, without laws of lookups.

    Args:
        precision: element type of tables that do not state their own.
        sequences: lengths of the sequences that groups name.

    Raises:
        InputError: two tables have one name.
    """
    counts, of_groups = [g.count for g in groups], [_lookups(g, sequences or {}) for g in groups]
    features = np.array([len(lookups) for lookups in of_groups], dtype=np.int64)
    pooling = np.array([math.fsum(lookups) for lookups in of_groups]) / features
    each = [lookups for g, lookups in zip(groups, of_groups, strict=True) for _ in range(g.count)]
    return Tables(
        names=_names(groups),
        rows=np.repeat(np.array([g.rows for g in groups], dtype=np.int64), counts),
        dim=np.repeat(np.array([g.dim for g in groups], dtype=np.int64), counts),
        pooling_factor=np.repeat(pooling, counts),
        element_bytes=np.repeat(
            np.array([BYTES_PER_ELEMENT[g.precision or precision] for g in groups], dtype=np.int64), counts
        ),
        features=np.repeat(features, counts),
        feature_pooling={table: pooling for table, pooling in enumerate(each) if len(set(pooling)) > 1},
    )


def _lookups(group: TableGroup, sequences: Mapping[str, SequenceLengths]) -> tuple[float, ...]:
    """Mean lookups per sample of each feature of a group's tables."""
    if group.sequence is None:
        return group.feature_pooling
    return (sequences[group.sequence].mean_positions,) * group.features


def _given(laws: list[Law | None], groups: tuple[TableGroup, ...]) -> tuple[Law | None, ...]:
    """A law of each group as one of each table; empty where no group has any."""
    if all(law is None for law in laws):
        return ()
    return tuple(law for law, group in zip(laws, groups, strict=True) for _ in range(group.count))


def _names(groups: tuple[TableGroup, ...]) -> tuple[str, ...]:
    """Names of the tables: those given, numbered where a group has several; else ``table_`` and a number.

    Raises:
        InputError: two tables have one name.
    """
    names: list[str] = []
    for group in groups:
        for i in range(group.count):
            number = f"_{i}" if group.count > 1 else ""
            names.append(f"{group.name}{number}" if group.name else f"table_{len(names)}")
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice is not None:
        raise InputError("two tables have one name", key="tables", given=twice, expected="a name of its own for each")
    return tuple(names)


def _from_population(population: TablePopulation, element_bytes: int) -> Tables:
    count = population.tables.value
    draw = np.random.Generator(np.random.PCG64(population.seed))
    spread = _spread(count, population.dim_range.value, population.dim_mean.value, "dim_mean")
    units = np.maximum(1, np.round(spread / COLUMN_MULTIPLE)).astype(np.int64)
    dim = (COLUMN_MULTIPLE * units)[draw.permutation(count)]
    pooling = _spread(count, population.pooling_range.value, population.pooling_mean.value, "pooling_mean")
    mean_rows = population.parameters.value / float(dim.sum())
    rows = np.full(count, mean_rows)
    if population.rows_range is not None:
        rows = _spread(count, population.rows_range.value, mean_rows, "parameters")[draw.permutation(count)]
    rows *= population.parameters.value / float(rows @ dim)
    return Tables(
        names=tuple(f"table_{i}" for i in range(count)),
        rows=np.maximum(1, np.round(rows)).astype(np.int64),
        dim=dim,
        pooling_factor=pooling[draw.permutation(count)],
        element_bytes=np.full(count, element_bytes, dtype=np.int64),
        features=np.ones(count, dtype=np.int64),
    )


def _spread(count: int, bounds: Range, mean: float, key: str) -> FloatArray:
    """Maximum-entropy values ``[count]``, ascending.

    Raises:
        InputError: the mean is outside the range.
    """
    if bounds.low == bounds.high == mean:
        return np.full(count, mean)
    if not bounds.low < mean < bounds.high:
        raise InputError(
            "the mean per table is outside the range",
            key=f"population.{key}",
            given=mean,
            expected=f"between {bounds.low:g} and {bounds.high:g}",
        )
    return maximum_entropy(count, bounds.low, bounds.high, mean)


def maximum_entropy(count: int, low: float, high: float, mean: float) -> FloatArray:
    """Quantiles ``[count]`` of the maximum-entropy distribution on [low, high], their mean within 1e-9 of ``mean``.

    Density proportional to ``exp(-rate x)`` (Jaynes 1957); the inverse distribution function is
    ``x(u) = low - ln(1 - u (1 - exp(-rate (high - low)))) / rate``.
    """
    if mean > (low + high) / 2:  # the mirror image, so that the rate is never negative
        mirrored: FloatArray = low + high - maximum_entropy(count, low, high, low + high - mean)[::-1]
        return mirrored
    width = high - low
    u = (np.arange(count) + 0.5) / count

    def at(shape: float) -> FloatArray:
        """Values for ``shape`` = rate x width."""
        if shape < _FLAT:
            return low + width * u
        return np.asarray(low - width * np.log1p(u * np.expm1(-shape)) / shape)

    below, above = 0.0, 4.0 * count * width / (mean - low)  # the mean falls as the shape rises
    for _ in range(_BISECTIONS):
        middle = (below + above) / 2
        below, above = (middle, above) if at(middle).mean() > mean else (below, middle)
    return at((below + above) / 2)


_FLAT = 1e-9
"""Smallest rate x width that is solved for: below it the distribution is uniform to within rounding."""

_BISECTIONS = 100
"""Halvings of the bracket of the rate: more than a double has bits."""

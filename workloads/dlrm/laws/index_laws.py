"""Laws of indices in models and scenarios: the popularity of rows in lookups."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Literal, Self, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from inputs.errors import InputError
from inputs.model import Strict, problem
from simulator.operators import FloatArray
from workloads.dlrm.laws.counted_rows import CountedRows
from workloads.dlrm.laws.popularity import Order, Popularity, uniform, zipf, zipf_touching
from workloads.dlrm.laws.reuse import UNIFORM, Reuse, ReuseFile, distinct_rows, load_reuse, reuse_of

Distribution = Literal["uniform", "zipf", "reuse", "measured"]
Exponent = Annotated[float, Field(ge=0, le=8)]
UniqueRatio = Annotated[float, Field(gt=0, le=1)]

_BELONGS: dict[str, tuple[str, ...]] = {
    "exponent": ("zipf",),
    "unique_ratio": ("zipf",),
    "histogram": ("reuse",),
    "file": ("measured",),
    "rows": ("measured",),
    "order": ("zipf", "reuse"),
}
"""Key -> the distributions it goes with."""

_NEEDS: dict[str, tuple[str, ...]] = {
    "uniform": (),
    "zipf": ("exponent", "unique_ratio"),
    "reuse": ("histogram",),
    "measured": ("file", "rows"),
}
"""Distribution -> the keys of which it needs one."""


class Indices(Strict):
    """Law by which the rows of a table are looked up."""

    distribution: Distribution = Field(
        description="uniform; zipf; reuse: the Zipf law that repeats rows as a measured histogram does; measured: the "
        "rows that a file of indices looks up"
    )
    exponent: Exponent | None = Field(None, description="of zipf: popularity falls as rank^-exponent")
    unique_ratio: UniqueRatio | None = Field(
        None, description="of zipf, instead of its exponent: distinct rows per lookup of a global batch"
    )
    histogram: str | ReuseFile | None = Field(None, description="of reuse: a shipped histogram, a file, or itself")
    file: str | None = Field(None, description="of measured: indices as .npy, .npz, .parquet or .csv")
    rows: CountedRows | None = Field(None, description="of measured: counts of the file")
    order: Order = Field(
        "hashed", description="of zipf and reuse: popular rows hashed over the table, or first (popularity)"
    )

    @model_validator(mode="after")
    def _keys_of_the_distribution(self) -> Self:
        for key, distributions in _BELONGS.items():
            given = key in self.model_fields_set and getattr(self, key) is not None
            if given and self.distribution not in distributions and (key != "order" or self.order != "hashed"):
                raise problem(
                    f"a key of another distribution than {self.distribution}",
                    expected=f"distribution: {' or '.join(distributions)}",
                    key=key,
                )
        keys = _NEEDS[self.distribution]
        if keys and sum(getattr(self, key) is not None for key in keys) != 1:
            raise problem(f"{self.distribution} needs {'one of ' * (len(keys) > 1)}{', '.join(keys)}", expected=keys[0])
        return self


IndexLaw: TypeAlias = str | Indices
"""``uniform``, the name of a reuse histogram, or the law spelled out."""


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """A law ready to be applied to tables of any size.

    Attributes:
        indices: the law as the model or scenario gives it.
        reuse: the histogram of ``reuse``.
    """

    indices: Indices
    reuse: Reuse | None = None
    _known: dict[tuple[int, float, float], Popularity] = field(default_factory=dict)

    def popularity(self, rows: int, lookups: float, samples: float, salt: int = 0) -> Popularity:
        """The law over a table.

        Args:
            lookups: lookups of a global batch in it.
            samples: the global batch.
            salt: salt of the hash that places its rows.
        """
        key = (rows, lookups, samples)
        if key not in self._known:
            self._known[key] = self._popularity(rows, lookups, samples)
        return replace(self._known[key], salt=salt)

    def distinct(self, rows: FloatArray, lookups: FloatArray, samples: float, batch: float) -> FloatArray:
        """Distinct rows that a batch touches ``[N]``.

        Args:
            rows: rows of each table ``[N]``.
            lookups: lookups of the batch into them ``[N]``.
            samples: the batch, over all ranks whose lookups are counted.
            batch: the global batch, of which ``lookups`` are the part ``samples / batch``.
        """
        if self.indices.distribution in ("uniform", "reuse"):
            return distinct_rows(rows, lookups, samples, self.reuse)
        part = samples / batch
        pairs, place = np.unique(np.stack([rows, lookups]), axis=1, return_inverse=True)
        laws = [self.popularity(round(r), n / part, batch) for r, n in pairs.T.tolist()]
        found = np.array([float(law.distinct(n)) for law, n in zip(laws, pairs[1].tolist(), strict=True)])
        return np.asarray(found[np.ravel(place)])

    def _popularity(self, rows: int, lookups: float, samples: float) -> Popularity:
        indices = self.indices
        if indices.distribution == "uniform":
            return uniform(rows)
        if indices.rows is not None:
            return indices.rows.popularity(rows)
        if indices.exponent is not None:
            return zipf(rows, indices.exponent, indices.order)
        count = np.array([float(rows)])
        wanted = (indices.unique_ratio or 0.0) * lookups
        if self.reuse is not None:
            wanted = float(distinct_rows(count, np.array([lookups]), samples, self.reuse)[0])
        return zipf_touching(rows, lookups, wanted, indices.order)


def make_law(value: IndexLaw) -> Law:
    """The law that a model names.

    Raises:
        InputError: there is no such histogram; or a file of indices stands among alternatives, where none is read.
    """
    indices = spelled_out(value)
    if indices.file is not None:
        raise InputError(
            "a file of indices stands where none is read",
            given=indices.file,
            expected="the model's index_reuse, the indices of its tables or workload.indices",
        )
    return _law(indices.model_dump_json())


def spelled_out(value: IndexLaw) -> Indices:
    """A law by name as the mapping it stands for."""
    if isinstance(value, Indices):
        return value
    if value == UNIFORM:
        return Indices(distribution="uniform")
    return Indices(distribution="reuse", histogram=value)


@lru_cache(maxsize=256)
def _law(text: str) -> Law:
    indices = Indices.model_validate_json(text)
    histogram = indices.histogram
    if histogram is None:
        return Law(indices)
    return Law(indices, load_reuse(histogram) if isinstance(histogram, str) else reuse_of(histogram))


UNIFORM_LAW = make_law(UNIFORM)


@lru_cache(maxsize=16384)
def salt_of(name: str) -> int:
    """Salt of the hash of a table, from its name: popular rows of different tables stand at different places."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=7).digest(), "little")

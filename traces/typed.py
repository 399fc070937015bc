"""Ranks and sizes of traces as msgspec types, and messages about ranks of traces."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec

from inputs.errors import InputError
from inputs.given import cut
from inputs.typed import typed

MAX_RANKS = 1 << 20
"""Ranks a job may have: several times those of the largest machine."""
_DIGITS = 12
"""Digits of a rank in a file's name that are read: more than any job needs."""
MAX_BYTES = 1 << 60
"""Largest size of a message, copy or tensor, bytes: more than any memory."""

Rank: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=MAX_RANKS)]
"""A global rank."""
RankCount: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MAX_RANKS)]
"""Ranks of a job or group."""
Bytes: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_BYTES)] | Annotated[float, msgspec.Meta(ge=0, le=MAX_BYTES)]
"""A size."""

ONE_EACH = "one trace of each rank"
"""Expected files of importers."""
SAME_CALLS = "the same calls on each rank of a group, in the same order"
"""Expected collectives of importers."""


def rank_in_name(digits: str, file: Path) -> int:
    """The rank that a file's name ends in.

    Raises:
        InputError: no job has so many.
    """
    return int(typed(int(digits[:_DIGITS]), Rank, file, "rank in its name"))


def no_such_ranks(asked: Iterable[int], known: Iterable[int]) -> InputError:
    """The message of ``--ranks`` that no trace has."""
    expected = f"some of {cut(', '.join(map(str, sorted(known))))}"
    return InputError("no trace is of these ranks", file="--ranks", given=",".join(map(str, asked)), expected=expected)

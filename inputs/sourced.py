"""Values with an origin: where a number is from and how sure it is."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeAlias, TypeVar

from pydantic import Field

from inputs.model import Strict

Grade: TypeAlias = Literal["read", "secondary", "memory", "derived", "assumed"]
"""Evidence for a value.

read: seen in the source itself. secondary: a third party quotes the source. memory: recalled, not seen.
derived: computed from other values, the note has the formula. assumed: taken from the nearest machine or rule, the
note says which.
"""

Source = Annotated[str, Field(min_length=1)]
"""Source of a value that was read, quoted or recalled: a page, a file, a paper; never empty."""

T = TypeVar("T")


class Sourced(Strict, Generic[T]):
    """A value with its origin. Quantities are SI."""

    value: T
    source: Source
    grade: Grade
    note: str = ""

"""Values with an origin: where a number is from and how sure it is."""

from __future__ import annotations

import hashlib
import sys
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from pydantic import Field

from inputs.model import Strict

Grade: TypeAlias = Literal["read", "secondary", "memory", "derived", "assumed"]
"""How a value is known.

read: seen in the source itself. secondary: a third party quotes the source. memory: recalled, not seen.
derived: computed from other values, the note has the formula. assumed: taken from the nearest machine or rule, the
note says which.
"""

Source = Annotated[str, Field(min_length=1)]
"""What was read, quoted or recalled: a page, a file, a paper; never empty."""

T = TypeVar("T")


class Sourced(Strict, Generic[T]):
    """A value with its origin. Quantities are SI.

    Kinds of values, such as ``Sourced[Bandwidth]``, can be pickled: processes are told of machines.
    """

    value: T
    source: Source
    grade: Grade
    note: str = ""

    @classmethod
    def __class_getitem__(cls, kind: Any) -> Any:
        """The class of a kind of values, under a name of its own in its module, by which pickle finds it."""
        made: Any = super().__class_getitem__(kind)
        if made.__pydantic_generic_metadata__["parameters"]:  # of kinds that are still to be named
            return made
        module = sys.modules[cls.__module__]
        name = f"{cls.__name__}_{hashlib.sha256(repr(kind).encode()).hexdigest()[:16]}"
        if not hasattr(module, name):
            made.__qualname__ = name
            setattr(module, name, made)
        return getattr(module, name)

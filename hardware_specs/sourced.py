"""A number with its origin, and the bounded quantities that specs are made of."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from inputs.model import Strict
from inputs.quantities import Bytes, BytesPerSecond, Count, FlopsPerSecond, Fraction, Hertz

Grade = Literal["read", "secondary", "memory", "derived", "assumed"]
"""How a value is known.

read: seen in the source itself. secondary: a third party quotes the source. memory: recalled, not seen.
derived: computed here from other values, the note has the formula. assumed: taken from the nearest machine or rule,
the note says which.
"""

Name = Annotated[str, Field(min_length=1)]
Amount = Annotated[Bytes, Field(gt=0)]
"""Bytes, above 0."""
Bandwidth = Annotated[BytesPerSecond, Field(gt=0)]
"""Bytes per second, above 0."""
Share = Annotated[Fraction, Field(gt=0)]
"""Above 0, at most 1."""
ComputeRate = Annotated[FlopsPerSecond, Field(gt=0)]
"""Floating point operations per second, above 0."""
Clock = Annotated[Hertz, Field(gt=0)]
"""Hertz, above 0."""
Number = Annotated[Count, Field(ge=1)]
"""A whole number, 1 or more."""
Ratio = Annotated[float, Field(gt=0)]
"""A dimensionless factor above 0."""

T = TypeVar("T")


class ByName:
    """Marks a part that YAML may name instead of spelling out; the JSON Schema then offers a string too."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Offer the name of a shipped file or a path beside the part itself."""
        name = {"type": "string", "description": "name of a shipped file, or a path to a YAML file"}
        return {"anyOf": [name, handler(schema)]}


class Sourced(Strict, Generic[T]):
    """A value with its origin. ``value`` is SI."""

    value: T
    source: Name
    grade: Grade
    note: str = ""

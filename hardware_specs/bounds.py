"""The bounded quantities that specs are made of."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from inputs.quantities import Bytes, BytesPerSecond, Count, FlopsPerSecond, Fraction, Hertz

Name = Annotated[str, Field(min_length=1)]
Amount = Annotated[Bytes, Field(gt=0)]
"""Bytes, above 0."""
Bandwidth = Annotated[BytesPerSecond, Field(gt=0)]
"""Bytes per second, above 0."""
Share = Annotated[Fraction, Field(gt=0)]
"""A fraction above 0, at most 1."""
ComputeRate = Annotated[FlopsPerSecond, Field(gt=0)]
"""Floating point operations per second, above 0."""
Clock = Annotated[Hertz, Field(gt=0)]
"""Hertz, above 0."""
Number = Annotated[Count, Field(ge=1)]
"""A whole number, 1 or more."""
Ratio = Annotated[float, Field(gt=0)]
"""A dimensionless factor above 0."""


class ByName:
    """Marks a part that YAML may name instead of spelling out; the JSON Schema then offers a string too."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Offer the name of a shipped file or a path beside the part itself."""
        name = {"type": "string", "description": "name of a shipped file, or a path to a YAML file"}
        return {"anyOf": [name, handler(schema)]}

"""Values with an origin: the source of a number and the grade of its certainty.

Users may write plain values in files of their own and with ``--set``; their grade is `given`.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from inputs.model import Strict

Grade: TypeAlias = Literal["read", "secondary", "memory", "derived", "assumed", "given"]
"""Evidence for a value.

read: seen in the source itself. secondary: a third party quotes the source. memory: recalled, not seen.
derived: computed from other values, the note has the formula. assumed: taken from the nearest machine or rule, the
note says which. given: written by the user without a source; no shipped file has it.
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

    @model_validator(mode="before")
    @classmethod
    def _with_origin(cls, data: object) -> object:
        """A plain value of a user with the origin `GIVEN`."""
        if isinstance(data, Sourced) or is_sourced(data):
            return data
        return {"value": data, **GIVEN}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler, /) -> JsonSchemaValue:
        """Schema of a plain value or of a value with its source."""
        found = handler(schema)
        written = handler.resolve_ref_schema(found)
        whole = dict(written)
        value = {key: part for key, part in whole["properties"]["value"].items() if key != "title"}
        written.clear()
        written["anyOf"] = [value, whole]
        return found


GIVEN: dict[str, Any] = {"source": "given by the user", "grade": "given"}
"""Origin of a plain value."""


def is_sourced(data: object) -> bool:
    """Whether a value has one of the keys of a value with a source."""
    return isinstance(data, dict) and bool(data.keys() & {"value", "source", "grade", "note", "alternatives"})

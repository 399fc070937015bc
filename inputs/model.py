"""The base of all models that check what people write."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError

_STRICT_SCALARS = frozenset({"bool", "int", "float"})
_NOT_SCHEMAS = frozenset({"default", "metadata", "serialization", "cls", "config", "ref"})

PROBLEM = "input_problem"
"""Type of the errors that `problem` makes."""


def _make_scalars_strict(schema: Any) -> None:
    """Mark every bool, int and float in a core schema (nested dicts and lists) as strict."""
    if isinstance(schema, dict):
        is_schema = isinstance(schema.get("type"), str)  # else: name -> schema, where any name may stand
        if is_schema and schema["type"] in _STRICT_SCALARS:
            schema.setdefault("strict", True)
        for key, part in schema.items():
            if not (is_schema and key in _NOT_SCHEMAS):
                _make_scalars_strict(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            _make_scalars_strict(part)


class Strict(BaseModel):
    """Frozen; unknown keys are errors; scalars are not converted, containers are.

    ``yes``, ``"1"`` and ``1`` are no booleans, ``"3"`` and ``true`` are no numbers; a list is fine for a tuple.
    """

    model_config = ConfigDict(
        defer_build=True, frozen=True, extra="forbid", allow_inf_nan=False, validate_default=False
    )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[BaseModel], handler: GetCoreSchemaHandler, /) -> CoreSchema:
        """The usual schema with strict scalars (pydantic's own strict mode would refuse a list for a tuple)."""
        schema = handler(source)
        _make_scalars_strict(schema)
        return schema


def problem(
    message: str,
    *,
    expected: str | None = None,
    nearest: str | None = None,
    key: str = "",
) -> PydanticCustomError:
    """The error to raise in a validator of a `Strict` model; its parts end up in the `InputError`.

    Args:
        key: dotted key of the wrong value, from the validated value on; empty: that value itself.
    """
    parts: dict[str, Any] = {"message": message, "expected": expected, "nearest": nearest, "key": key}
    return PydanticCustomError(PROBLEM, "{message}", parts)

"""Quantities with a source: every number of a model or framework says where it is from and how sure it is.

A quantity may have alternatives: values of other sources, which a scenario selects by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from inputs.errors import InputError, nearest_name
from inputs.keys import KeyPath, value_at
from inputs.sourced import Sourced, is_sourced
from inputs.yaml_lines import Document

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class Graded(Sourced[T], Generic[T]):
    """A value, its source and grade, and the values that other sources give."""

    alternatives: tuple[Sourced[T], ...] = ()

    def pick(self, value: object) -> Graded[T] | None:
        """This quantity with a listed alternative as its value (or unchanged), None when ``value`` is not listed."""
        if _same(self.value, value):
            return self
        for other in self.alternatives:
            if _same(other.value, value):
                return self.model_copy(
                    update=other.model_dump(include={"source", "grade", "note"}) | {"value": other.value}
                )
        return None

    def listed(self) -> list[T]:
        """The value and its alternatives."""
        return [self.value, *(other.value for other in self.alternatives)]


def value_path(document: Document, path: KeyPath) -> KeyPath:
    """Path of the value of the quantity at ``path``: ``path`` itself where the value is plain."""
    return (*path, "value") if is_sourced(value_at(document.data, path)) else path


def _same(one: object, two: object) -> bool:
    """Equality of values as they are written: a list is a tuple, a mapping is a model."""
    return _plain(one) == _plain(two)


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump()
    return tuple(value) if isinstance(value, list | tuple) else value


def graded_quantities(model: BaseModel) -> Iterator[tuple[str, Graded[Any]]]:
    """All graded quantities of a model and the models in it, as (key, quantity); keys are the last part of the path."""
    for key in type(model).model_fields:
        part = getattr(model, key)
        if isinstance(part, Graded):
            yield key, part
        elif isinstance(part, BaseModel):
            yield from graded_quantities(part)


def check_choices(models: Sequence[BaseModel], choices: Mapping[str, object]) -> None:
    """Check that each choice is a listed value of a quantity in one of ``models``.

    Raises:
        InputError: it is not; with what is listed.
    """
    known = {key: quantity for model in models for key, quantity in graded_quantities(model)}
    for key, value in choices.items():
        if key not in known:
            raise InputError(
                "no such quantity",
                key=f"alternatives.{key}",
                given=key,
                expected=f"one of {', '.join(k for k, q in known.items() if q.alternatives)}",
                nearest=nearest_name(key, known),
            )
        if known[key].pick(value) is None:
            listed = ", ".join(str(v) for v in known[key].listed())
            raise InputError("not a listed value", key=f"alternatives.{key}", given=value, expected=f"one of {listed}")


def picked(model: M, choices: Mapping[str, object]) -> M:
    """``model`` with those of the checked ``choices`` that are its own."""
    update: dict[str, object] = {}
    for key in type(model).model_fields:
        part = getattr(model, key)
        if isinstance(part, Graded) and key in choices:
            update[key] = part.pick(choices[key])
        elif isinstance(part, BaseModel) and not isinstance(part, Graded):
            update[key] = picked(part, choices)
    return model.model_copy(update=update)

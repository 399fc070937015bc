"""Keys and types that a model accepts at a path, for messages on unknown keys and missing values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import PurePath
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo

from inputs.keys import KeyPath
from inputs.quantities import Quantity
from inputs.sourced import Sourced

MAPPING = "a mapping (lines 'key: value')"

_UNIONS = (Union, UnionType)
_TYPE_WORDS: tuple[tuple[type, str], ...] = (  # the first that fits: bool is an int
    (bool, "true or false"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "text"),
    (PurePath, "a path"),
    (dict, MAPPING),
    (BaseModel, MAPPING),
    (list, "a list"),
    (tuple, "a list"),
    (set, "a list"),
    (frozenset, "a list"),
)


def keys_at(model: type[BaseModel], path: KeyPath, labels: Sequence[str] = ()) -> list[str]:
    """The keys of the mapping at ``path`` below a ``model``, in the order of declaration.

    Args:
        labels: pydantic's names of the union branches taken on the way (class names or tags); none: all branches.
    """
    models = _models_at(model, path, labels)
    return list(dict.fromkeys(_key(name, field) for kind in models for name, field in kind.model_fields.items()))


def expected_at(model: type[BaseModel], path: KeyPath, labels: Sequence[str] = ()) -> str | None:
    """Description of the values allowed at ``path``, with the field's description; None when nothing is known."""
    models = _models_at(model, path[:-1], labels)
    fields = [f for kind in models for name, f in kind.model_fields.items() if _key(name, f) == path[-1]]
    words = " or ".join(dict.fromkeys(text for f in fields if (text := _words(f.annotation, f.metadata))))
    description = next((f.description for f in fields if f.description), None)
    return f"{words} ({description})" if words and description else words or description


def _models_at(model: type[BaseModel], path: KeyPath, labels: Sequence[str]) -> list[type[BaseModel]]:
    types: list[Any] = [model]
    for part in path:
        types = [child for kind in types for child in _children(kind, part)]
    models = [kind for kind in types if _is_class(kind, BaseModel)]
    chosen = [kind for kind in models if kind.__name__ in labels or _has_tag(kind, labels)]
    return chosen or models


def _key(name: str, field: FieldInfo) -> str:
    """The key that people write for a field."""
    alias = field.validation_alias or field.alias
    if isinstance(alias, AliasChoices):
        alias = alias.choices[0]
    return alias if isinstance(alias, str) else name


def _children(kind: Any, part: str | int) -> Iterable[Any]:
    """The types that the value at ``part`` of a value of type ``kind`` may have, unions taken apart."""
    if _is_class(kind, Sourced) and part not in kind.model_fields:  # a plain value where one with its source may stand
        return [child for arm in _arms(kind.model_fields["value"].annotation) for child in _children(arm, part)]
    if _is_class(kind, BaseModel) and isinstance(part, str):
        fields: dict[str, FieldInfo] = kind.model_fields
        return [arm for name, f in fields.items() if _key(name, f) == part for arm in _arms(f.annotation)]
    arguments = [a for a in get_args(kind) if a is not Ellipsis]
    if not arguments:
        return []
    is_tuple = get_origin(kind) is tuple and isinstance(part, int) and part < len(arguments)
    return _arms(arguments[part] if is_tuple and isinstance(part, int) else arguments[-1])


def _arms(kind: Any) -> list[Any]:
    """A type as the list of its union members, without annotations."""
    if get_origin(kind) is Annotated:
        return _arms(get_args(kind)[0])
    if get_origin(kind) in _UNIONS:
        return [arm for member in get_args(kind) for arm in _arms(member)]
    return [kind]


def _words(kind: Any, metadata: Sequence[Any] = ()) -> str | None:
    """A type in words."""
    quantity = next((mark for mark in metadata if isinstance(mark, Quantity)), None)
    if quantity is not None:
        return quantity.described()
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _words(arguments[0], arguments[1:])
    if origin in _UNIONS:
        return " or ".join(dict.fromkeys(text for a in arguments if (text := _words(a)))) or None
    if origin is Literal:
        return _one_of(arguments)
    if _is_class(kind, Enum):
        return _one_of([member.value for member in kind])
    return next((words for known, words in _TYPE_WORDS if _is_class(origin or kind, known)), None)


def _one_of(choices: Sequence[object]) -> str:
    return f"one of {', '.join(map(str, choices))}" if len(choices) > 1 else str(choices[0])


def _is_class(kind: Any, base: type) -> bool:
    return isinstance(kind, type) and issubclass(kind, base)


def _has_tag(model: type[BaseModel], labels: Sequence[str]) -> bool:
    literals = [f.annotation for f in model.model_fields.values() if get_origin(f.annotation) is Literal]
    return any(value in labels for literal in literals for value in get_args(literal))

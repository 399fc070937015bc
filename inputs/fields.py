"""Which keys a model accepts at a path: for the nearest valid name of an unknown key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo

from inputs.keys import KeyPath

_UNIONS = (Union, UnionType)


def keys_at(model: type[BaseModel], path: KeyPath, labels: Sequence[str] = ()) -> list[str]:
    """The keys of the mapping at ``path`` below a ``model``, in the order of declaration.

    Args:
        model: the model of the root.
        path: keys and list positions.
        labels: pydantic's names of the union branches taken on the way (class names or tags).
    """
    types: list[Any] = [model]
    for part in path:
        types = [child for kind in types for child in _children(kind, part)]
    models = [kind for kind in types if _is_model(kind)]
    chosen = [kind for kind in models if kind.__name__ in labels or _has_tag(kind, labels)]
    return list(dict.fromkeys(key for kind in chosen or models for key in model_keys(kind)))


def model_keys(model: type[BaseModel]) -> list[str]:
    """The keys that people write for the fields of a model."""
    return [_key(name, field) for name, field in model.model_fields.items()]


def _key(name: str, field: FieldInfo) -> str:
    alias = field.validation_alias or field.alias
    if isinstance(alias, AliasChoices):
        alias = alias.choices[0]
    return alias if isinstance(alias, str) else name


def _children(kind: Any, part: str | int) -> Iterable[Any]:
    """The types that the value at ``part`` of a value of type ``kind`` may have, unions taken apart."""
    if _is_model(kind) and isinstance(part, str):
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


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _has_tag(model: type[BaseModel], labels: Sequence[str]) -> bool:
    literals = [f.annotation for f in model.model_fields.values() if get_origin(f.annotation) is Literal]
    return any(value in labels for literal in literals for value in get_args(literal))

"""Every number that a file may hold has a least and a most, which the message states."""

from __future__ import annotations

import math
import re
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from dlrmsim.formats import KINDS, _model
from hardware_specs.loader import _PARTS
from inputs.model import PROBLEM
from inputs.problems import in_words
from inputs.quantities import Quantity
from inputs.units import DIMENSIONS
from workloads.dlrm.laws.reuse import ReuseFile
from workloads.dlrm.model.table_list import TableList

ROOTS = {
    **{kind: _model(kind) for kind in KINDS},
    **{part.kind: part.model for parts in _PARTS.values() for part in parts},
    "reuse": ReuseFile,
    "table_list": TableList,
}


def numbers(kind: Any, marks: tuple[Any, ...], path: str, seen: set[type]) -> dict[str, Any]:
    """Annotated types of all numbers that a type may hold, by their path."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return numbers(arguments[0], (*arguments[1:], *marks), path, seen)
    if origin in (Union, UnionType):
        found: dict[str, Any] = {}
        for number, arm in enumerate(arguments):
            found |= numbers(arm, marks if arm in (int, float) else (), f"{path}|{number}", seen)
        return found
    if kind in (int, float):
        return {path: Annotated[kind, *marks] if marks else kind}
    if origin is Literal or kind in (Any, bool, str) or (isinstance(kind, type) and issubclass(kind, Enum)):
        return {}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if kind in seen:
            return {}
        found = {}
        for name, field in kind.model_fields.items():
            marks = tuple(field.metadata)
            found |= numbers(field.annotation, marks, f"{path}.{name}", {*seen, kind})
        return found
    found = {}
    for part in arguments:
        found |= {} if part is Ellipsis else numbers(part, (), f"{path}[]", seen)
    return found


FOUND = {path: kind for name, model in ROOTS.items() for path, kind in numbers(model, (), name, set()).items()}


def beyond(kind: Any, sign: int) -> object:
    """A finite number of the type that no quantity reaches, written as people do."""
    marks = [mark for mark in get_args(kind)[1:] if isinstance(mark, Quantity)]
    base = kind if kind in (int, float) else get_args(kind)[0]
    if marks and DIMENSIONS[marks[0].dimension].base:
        return f"{'-' if sign < 0 else ''}1e250 {DIMENSIONS[marks[0].dimension].base}"
    return sign * 10**40 if base is int else sign * 1e250


def test_the_walk_finds_numbers_of_every_kind_of_file():
    assert {re.split(r"[.|\[]", path)[0] for path in FOUND} == set(ROOTS)
    assert len(FOUND) > 250


@pytest.mark.parametrize("path", sorted(FOUND))
def test_each_number_has_a_least_and_a_most(path):
    adapter = TypeAdapter(FOUND[path], config={"allow_inf_nan": False})
    for sign in (-1, 1):
        with pytest.raises(ValidationError) as caught:
            adapter.validate_python(beyond(FOUND[path], sign))
        (error,) = caught.value.errors(include_url=False)
        words = in_words(error)
        assert words.message == "impossible value", words
        assert re.search(r"\d", words.expected), f"the message states no limit: {words}"


@pytest.mark.parametrize("path", sorted(FOUND))
def test_no_number_may_be_infinite_or_not_a_number(path):
    adapter = TypeAdapter(FOUND[path], config={"allow_inf_nan": False})
    for wrong in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValidationError):
            adapter.validate_python(wrong)


def test_problems_keep_their_words():
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Annotated[float, Quantity("bytes", 1.0, 1e15)]).validate_python("0.5 B")
    (error,) = caught.value.errors(include_url=False)

    assert error["type"] == PROBLEM
    assert in_words(error).expected == "from 1 B to 1 PB"

"""Every number that a file may hold has a least and a most, which the message states."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from dlrmsim.formats import KINDS, _model
from hardware_specs.loader import _PARTS
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
"""Models of all files that people write."""


def numbers(kind: Any, marks: tuple[Any, ...], path: str) -> Iterator[tuple[str, Any]]:
    """Path and annotated type of each number that a type may hold."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        yield from numbers(arguments[0], (*arguments[1:], *marks), path)
    elif kind in (int, float):
        yield path, Annotated[kind, *marks] if marks else kind
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            yield from numbers(field.annotation, tuple(field.metadata), f"{path}.{name}")
    else:
        of_union = marks if origin in (Union, UnionType) else ()
        for part in arguments:
            if part is not Ellipsis:
                yield from numbers(part, of_union if part in (int, float) else (), path)


FOUND = {name: dict(numbers(model, (), name)) for name, model in ROOTS.items()}


def beyond(kind: Any, sign: int) -> object:
    """A finite number of the type that no quantity reaches, written as people do."""
    marks = [mark for mark in get_args(kind)[1:] if isinstance(mark, Quantity)]
    whole = kind is int or int in get_args(kind)
    if marks and DIMENSIONS[marks[0].dimension].base:
        return f"{'-' if sign < 0 else ''}1e250 {DIMENSIONS[marks[0].dimension].base}"
    return sign * 10**40 if whole else sign * 1e250


def refusal(kind: Any, wrong: object) -> Any:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind, config={"allow_inf_nan": False}).validate_python(wrong)
    (error,) = caught.value.errors(include_url=False)
    return in_words(error)


def test_the_walk_finds_the_numbers_of_every_kind_of_file():
    assert all(FOUND.values())
    assert {"scenario.nodes", "scenario.network.background.on"} <= FOUND["scenario"].keys()
    assert {"framework.launch_s.value", "framework.launch_s.alternatives.value"} <= FOUND["framework"].keys()
    assert {"suite.cases.measured", "suite.cases.measured.low"} <= FOUND["suite"].keys()
    assert sum(map(len, FOUND.values())) > 300


@pytest.mark.parametrize("root", ROOTS)
def test_each_number_has_a_least_and_a_most(root):
    for path, kind in FOUND[root].items():
        for sign in (-1, 1):
            words = refusal(kind, beyond(kind, sign))
            assert words.message == "impossible value", (path, words)
            assert re.search(r"\d", words.expected), f"{path}: the message states no limit: {words}"


@pytest.mark.parametrize("root", ROOTS)
def test_no_number_is_infinite_or_not_a_number(root):
    for kind in FOUND[root].values():
        for wrong in (math.nan, math.inf, -math.inf):
            assert refusal(kind, wrong).message


def test_a_range_is_told_with_its_unit():
    assert refusal(Annotated[float, Quantity("bytes", 1.0, 1e15)], "0.5 B").expected == "from 1 B to 1 PB"
    assert refusal(Annotated[float, Quantity("s", 0.0, 1.0)], "1e6 s").expected == "from 0 s to 1 s"
    assert refusal(Annotated[int, Quantity("count", 1, 1024)], 10**9).expected == "from 1 to 1,024"

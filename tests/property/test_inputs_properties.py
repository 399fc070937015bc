"""What holds for any input: nothing but `InputError` comes out, and nothing that was written is lost."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import Field

from inputs.errors import InputError
from inputs.keys import key_text, parse_key, value_at
from inputs.model import Strict
from inputs.quantities import Bytes, Count, Fraction, Seconds, exact_text, format_quantity, parse_quantity
from inputs.units import DIMENSIONS
from inputs.validate import validate
from inputs.yaml_lines import Document, parse_yaml

FILE = Path("job.yaml")
ALPHABET = "ab01.-_:# \n\té\u2028\U0001f600'\"{}[]%"
NAMES = st.text("abcdefghijklmnopqrstuvwxyz_-0123456789", min_size=1, max_size=8).filter(lambda name: name[0].isalpha())
YAML_LIKE = st.text(st.sampled_from("abk019:-[]{}&*!|>'\"%@`#,? \n\t\r.~<é\x85"), max_size=40)
WITH_UNIT = sorted(name for name, kind in DIMENSIONS.items() if kind.base)


SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # machines are shared, clocks lie
T = TypeVar("T")


def attempt(function: Callable[..., T], *arguments: object) -> tuple[T | None, InputError | None]:
    """The result or the `InputError`; anything else that is raised fails the test."""
    try:
        return function(*arguments), None
    except InputError as error:
        return None, error


@SETTINGS
@given(YAML_LIKE)
@example("a: !")
@example("&a")
@example("? ")
@example("%YAML 9.9\n---\na: 1")
def test_any_text_is_a_document_or_one_input_error_with_a_line_of_the_text(text):
    document, error = attempt(parse_yaml, text, FILE)
    if error is not None:
        assert error.file == FILE
        assert error.line is not None
        assert 1 <= error.line <= len(text.splitlines()) + 1
    if document is not None:
        assert all(value_at(document.data, path[:-1]) is not None for path in document.lines if path)


@SETTINGS
@given(st.binary(max_size=60))
def test_any_bytes_are_a_document_or_one_input_error(raw):
    _, error = attempt(parse_yaml, raw.decode("utf-8", errors="replace"), FILE)
    assert error is None or str(error).startswith("job.yaml")


SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(ALPHABET, max_size=8)
TREES = st.dictionaries(
    NAMES,
    st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3)),
    max_size=5,
)


def _same(one: object, two: object) -> bool:
    """Equal, and a number stays a number; NaN equals NaN; a whole float may have become an int."""
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(_same(one[key], two[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_same, one, two))
    if isinstance(one, float) and math.isnan(one):
        return isinstance(two, float) and math.isnan(two)
    return one == two and isinstance(one, bool) == isinstance(two, bool)


@SETTINGS
@given(TREES.filter(bool))
def test_data_written_by_pyyaml_is_read_unchanged_and_every_value_has_a_line(data):
    document = parse_yaml(yaml.safe_dump(data), FILE)
    assert _same(data, document.data)
    assert all(value_at(document.data, path) is not None or path in document.lines for path in document.lines)
    assert len(document.lines) == 1 + _count(data)


def _count(data: object) -> int:
    children = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return sum(1 + _count(child) for child in children)


@SETTINGS
@given(st.lists(NAMES | st.integers(0, 999), min_size=1, max_size=6).filter(lambda path: isinstance(path[0], str)))
def test_keys_and_paths_are_inverse(path):
    assert parse_key(key_text(tuple(path))) == tuple(path)


@SETTINGS
@given(st.sampled_from(WITH_UNIT), st.floats(0, 1))
def test_exact_text_is_read_back_to_the_same_float(dimension, part):
    value = part * DIMENSIONS[dimension].maximum
    assert parse_quantity(exact_text(value, dimension), dimension) == value


@SETTINGS
@given(st.sampled_from(WITH_UNIT), st.floats(-12, 0), st.booleans())
def test_formatted_text_is_a_quantity_within_its_three_digits(dimension, decades, binary):
    value = 10.0**decades * DIMENSIONS[dimension].maximum / 1.01
    text = format_quantity(value, dimension, binary=binary).replace(",", "")
    number = parse_quantity(text, dimension)
    smallest = DIMENSIONS[dimension].units[DIMENSIONS[dimension].scale[0]]
    assert math.isclose(number, value, rel_tol=0.0051, abs_tol=1e-6 * smallest)


@SETTINGS
@given(SCALARS | st.text("0123456789.e-+_ kMGiBb/s%", max_size=12), st.sampled_from(sorted(DIMENSIONS)))
def test_a_quantity_is_finite_and_not_negative_or_an_input_error(text, dimension):
    value, error = attempt(parse_quantity, text, dimension)
    assert error.expected if error is not None else (value is not None and math.isfinite(value) and value >= 0)


class Ring(Strict):
    kind: Literal["ring"] = "ring"
    chunks: int


class Tree(Strict):
    kind: Literal["tree"] = "tree"
    widths: list[int] = Field(default_factory=list)
    inner: "Ring | Tree | None" = None


class Job(Strict):
    a: int | Literal["auto"] = "auto"
    b: Annotated[Ring | Tree, Field(discriminator="kind")] | None = None
    c: Ring | Tree | str | None = None
    d: dict[Literal["x", "y"], tuple[Seconds, ...]] = Field(default_factory=dict)
    e: tuple[int, Bytes] | bool = False
    f: list[Tree] | Count | Fraction = 0


def _values(depth: int) -> st.SearchStrategy[object]:
    words = st.sampled_from(["auto", "ring", "tree", "3 us", "x", "", "1 B"])
    leaves = words | st.integers(-2, 3) | st.floats() | st.none() | st.booleans()
    if not depth:
        return leaves
    inner = _values(depth - 1)
    keys = st.sampled_from(["kind", "chunks", "widths", "inner", "x", "y", "ring", "tree", "Tree", "int"])
    return leaves | st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3)


@SETTINGS
@given(st.dictionaries(st.sampled_from("abcdefg"), _values(3), max_size=3))
def test_any_data_is_a_model_or_one_input_error_about_a_place_in_the_data(data):
    text = yaml.safe_dump(data) if data else "{}"
    document = parse_yaml(text, FILE)
    job, error = attempt(validate, Job, document)
    if error is not None:
        assert error.key is None or _stands_or_is_missing(document, error)
        assert "Input should" not in str(error)
        assert "[" not in (error.expected or "")
    if job is not None:
        assert validate(Job, Document(job.model_dump(mode="json"), {}, FILE)) == job


def _stands_or_is_missing(document: Document, error: InputError) -> bool:
    path = parse_key(error.key or "")
    return path in document.lines or (path[:-1] in document.lines and "missing" in error.message)

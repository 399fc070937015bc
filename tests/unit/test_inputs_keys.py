"""Dotted keys and paths are two forms of the same thing."""

import pytest

from inputs.errors import InputError
from inputs.keys import MAX_DEPTH, key_text, parse_key, stands_at, value_at


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("name", ("name",)),
        ("tables[3].dim", ("tables", 3, "dim")),
        ("a.b[0][12].c", ("a", "b", 0, 12, "c")),
        ("run.max-iterations", ("run", "max-iterations")),
        ("plan['model.tables'].t0", ("plan", "model.tables", "t0")),
        ("plan['a.b']['c[0]'][1].d", ("plan", "a.b", "c[0]", 1, "d")),
    ],
)
def test_text_and_path_are_inverse(text, path):
    assert parse_key(text) == path
    assert key_text(path) == text


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "[3]", "a[", "a[x]", "a[-1]", "a]b", "a[99999999999]"])
def test_what_is_no_key_is_refused(text):
    with pytest.raises(InputError, match=r"tables\[3\]\.dim"):
        parse_key(text)


def test_a_key_deeper_than_any_document_is_refused():
    with pytest.raises(InputError, match=f"at most {MAX_DEPTH} levels"):
        parse_key(".".join("a" * (MAX_DEPTH + 1)))


def test_value_at_walks_mappings_and_lists_and_gives_none_elsewhere():
    data = {"a": [{"b": 1}, None]}
    assert value_at(data, ("a", 0, "b")) == 1
    assert value_at(data, ()) is data
    assert [value_at(data, path) for path in (("x",), ("a", 2), ("a", "b"), ("a", 0, "b", "c"))] == [None] * 4
    assert stands_at(data["a"], 1)
    assert not stands_at(data["a"], 2)

"""One message with all parts that are known, short and in the words of YAML."""

from pathlib import Path

import pytest

from inputs.errors import DeadlockError, DlrmsimError, InfeasibleError, InputError, ProgramError, nearest_name
from inputs.given import Plain, shown


def test_message_joins_all_parts_in_reading_order():
    error = InputError(
        "unknown key",
        file=Path("job.yaml"), line=3, key="workload.modle", given="modle", expected="one of model", nearest="model",
        others=[InputError("bad", key="nodes")],
    )  # fmt: skip
    assert str(error) == (
        "job.yaml:3: workload.modle: unknown key; given 'modle'; expected one of model; did you mean 'model'?\n"
        "nodes: bad"
    )


def test_message_leaves_out_what_is_unknown():
    assert str(InputError("no such file", file="a.yaml")) == "a.yaml: no such file"
    assert str(InputError("bad")) == "bad"


@pytest.mark.parametrize(("count", "last"), [(19, "18"), (20, "and 1 more problem"), (31, "and 12 more problems")])
def test_problems_are_listed_up_to_twenty(count, last):
    lines = str(InputError("first", others=[InputError(str(number)) for number in range(count)])).splitlines()
    assert lines[:20] == ["first", *map(str, range(19))]
    assert lines[-1] == last


def test_exit_codes_are_those_of_the_design():
    codes = {kind: kind.exit_code for kind in (DlrmsimError, InputError, ProgramError, DeadlockError, InfeasibleError)}
    assert codes == {DlrmsimError: 1, InputError: 2, ProgramError: 2, DeadlockError: 2, InfeasibleError: 3}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (None, "nothing (null)"),
        (3, "3"),
        ("3", "'3'"),
        (float("inf"), ".inf"),
        (-float("inf"), "-.inf"),
        (float("nan"), ".nan"),
        ([1], "a list of 1 item"),
        ({}, "an empty mapping"),
        ({"a": 1}, "a mapping with key a"),
        (dict.fromkeys("abcdefg"), "a mapping with keys a, b, c, d, e, ..."),
        (Plain("as is"), "as is"),
    ],
)
def test_given_values_are_shown_in_the_words_of_yaml(value, text):
    assert repr(shown(value)) == text


def test_long_input_does_not_flood_the_message():
    assert len(str(InputError("bad", key="k" * 10_000, given="x" * 10_000))) < 400
    assert len(str(InputError("bad", given=10**299))) < 200


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("zionx", "zionex"), ("ZionEX", "zionex"), ("dgx-h100", "dgx_h100"), ("DGX H100", "dgx_h100"), ("qqqq", None)],
)
def test_nearest_name_forgives_typing_case_and_separators(name, nearest):
    assert nearest_name(name, ["zionex", "dgx_h100", "dgx_a100_40"]) == nearest


def test_nearest_name_of_a_huge_name_is_found_at_once():
    assert nearest_name("x" * 10**6, ["zionex"]) is None

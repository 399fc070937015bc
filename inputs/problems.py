"""Pydantic's errors in plain words.

The error types that a model of plain YAML values can give are in the tables; for others the sentence is turned round.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import ErrorDetails

from inputs.fields import MAPPING
from inputs.model import PROBLEM


@dataclass(frozen=True, slots=True)
class Words:
    """A mistake and the expected value.

    Attributes:
        message: the mistake, in words.
        expected: the accepted values, in words.
        nearest: the nearest valid name, if the error knows it.
        choices: the valid values, if they are few names.
        key: dotted key of the wrong value, from the place of the error on.
    """

    message: str
    expected: str | None = None
    nearest: str | None = None
    choices: tuple[str, ...] = ()
    key: str = ""


WRONG_TYPE = "wrong type"
IMPOSSIBLE = "impossible value"

_TYPES: dict[str, str] = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "decimal_type": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "string_sub_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "iterable_type": "a list",
    "dict_type": MAPPING,
    "mapping_type": MAPPING,
    "model_type": MAPPING,
    "model_attributes_type": MAPPING,
    "dataclass_type": MAPPING,
    "dataclass_exact_type": MAPPING,
    "path_type": "a path",
    "none_required": "nothing (null)",
}
"""Error types that say the value is of the wrong kind -> the kind that is right."""

_LIMITS: dict[str, str] = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "multiple_of": "a multiple of {multiple_of}",
    "finite_number": "a finite number",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
    "string_pattern_mismatch": "text that matches {pattern}",
    "too_short": "at least {min_length} items, there are {actual_length}",
    "too_long": "at most {max_length} items, there are {actual_length}",
    "int_parsing_size": "a smaller number",
}
"""Error types that say the value is out of range -> the range, with the error's context filled in."""


def is_wrong_kind(error: ErrorDetails) -> bool:
    """Whether the value itself is of another kind (text for a number, list for a mapping...)."""
    return error["type"] in _TYPES


def in_words(error: ErrorDetails) -> Words:
    """The words for one error."""
    kind, context = error["type"], error.get("ctx", {})
    if kind in _TYPES:
        return Words(WRONG_TYPE, _TYPES[kind])
    if kind in _LIMITS:
        return Words(IMPOSSIBLE, _filled(_LIMITS[kind], context))
    special = _SPECIAL.get(kind)
    return special(context) if special else _from_message(error["msg"])


def _filled(template: str, context: Mapping[str, Any]) -> str:
    text = template.format_map(context)
    return text.replace("at least 1 items, there are 0", "at least one item")


def _from_message(message: str) -> Words:
    """Words for an error that is in no table: pydantic's sentence turned round."""
    expected = re.match(r"(?:Input|Value|Keys?|Field) should (?:be |have |match )?(.*)", message)
    if expected:
        return Words("not valid", expected[1])
    text = re.sub(r"^(?:Value error|Assertion failed),\s*", "", message)
    return Words(text)


def _own(context: Mapping[str, Any]) -> Words:
    return Words(context["message"], context["expected"], context["nearest"], key=context["key"])


def _choice(context: Mapping[str, Any]) -> Words:
    return _one_of(str(context["expected"]))


def _tag(context: Mapping[str, Any]) -> Words:
    return replace(_one_of(str(context["expected_tags"])), key=_discriminator(context))


def _no_tag(context: Mapping[str, Any]) -> Words:
    return Words("the key is missing", key=_discriminator(context))


def _discriminator(context: Mapping[str, Any]) -> str:
    """The key that chooses the branch; empty when a function chooses."""
    quoted = re.fullmatch(r"'(\w+)'(?: \| '\w+')*", str(context["discriminator"]))
    return quoted[1] if quoted else ""


def _one_of(choices_text: str) -> Words:
    """Words for choices as pydantic lists them: ``'a', 'b' or 'c'``, numbers without quotes."""
    choices = tuple(text.strip("'\"") for text in re.split(r", | or ", choices_text))
    expected = f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0]
    return Words("unknown value", expected, choices=choices)


_SPECIAL: dict[str, Callable[[Mapping[str, Any]], Words]] = {
    PROBLEM: _own,
    "missing": lambda _: Words("the key is missing"),
    "extra_forbidden": lambda _: Words("unknown key"),
    "literal_error": _choice,
    "enum": _choice,
    "union_tag_invalid": _tag,
    "union_tag_not_found": _no_tag,
    "invalid_key": lambda _: Words("unknown key", "a name"),
    "recursion_loop": lambda _: Words("the value contains itself"),
}

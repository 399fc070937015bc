"""Rules over the inputs of a case, such as ``nodes == 1 or ranks_per_node == 1``: nobody picks the cases."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import AfterValidator

from inputs.errors import InputError
from inputs.model import problem
from scenarios.located import of_file

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
_RULE = re.compile(r"^(\w+)\s*(<=|>=|==|!=|<|>)\s*(\S+)$")


def require_rule(text: str) -> str:
    """The text, if it is a rule.

    Raises:
        PydanticCustomError: it is none.
    """
    if any(_RULE.match(part.strip()) is None for part in text.split(" or ")):
        raise problem("not a rule", expected="KEY OP VALUE, e.g. 'world_size <= 128', or several joined by ' or '")
    return text


Rule = Annotated[str, AfterValidator(require_rule)]
"""Comparisons of an input with a value, joined by ``or``: ``world_size <= 128``."""


def holds(rule: str, inputs: Mapping[str, Any]) -> bool:
    """Whether one of the rule's comparisons is true of ``inputs``; a key that is not there makes its own false.

    Raises:
        InputError: a number is compared with a word.
    """
    return any(_compare(part.strip(), inputs) for part in rule.split(" or "))


def _compare(comparison: str, inputs: Mapping[str, Any]) -> bool:
    match = _RULE.match(comparison)
    if match is None or match[1] not in inputs:
        return False
    value = inputs[match[1]]
    try:
        limit = match[3] if isinstance(value, str) else float(match[3])
    except ValueError:
        raise InputError(
            f"{match[1]} is a number", given=comparison, expected=f"{match[1]} {match[2]} NUMBER"
        ) from None
    return _COMPARISONS[match[2]](value, limit)


class HasInputs(Protocol):
    """A row of measurements."""

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Values by name, which rules compare."""
        ...


Row = TypeVar("Row", bound=HasInputs)


def rows_to_fit(rows: Sequence[Row], rule: str | None) -> list[Row]:
    """The rows that the rule holds for; all without a rule.

    Raises:
        InputError: it is no rule, or leaves no row.
    """
    if rule is None:
        return list(rows)
    try:
        require_rule(rule)
    except ValueError as error:
        raise InputError(
            "not a rule", file="--rule", given=rule, expected="KEY OP VALUE, e.g. 'nodes <= 2', joined by ' or '"
        ) from error
    with of_file("--rule"):
        used = [row for row in rows if holds(rule, row.inputs)]
    if not used:
        raise InputError(
            "the rule leaves no row to fit on", file="--rule", given=rule, expected="a rule that a row follows"
        )
    return used

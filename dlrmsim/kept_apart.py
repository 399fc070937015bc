"""Rows that a fit uses, and rows that only check it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from inputs.errors import InputError
from validation.fits.rules import holds, require_rule


class Measured(Protocol):
    """A row of measurements."""

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Inputs that a rule may use."""
        ...


Row = TypeVar("Row", bound=Measured)


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
    used = [row for row in rows if holds(rule, row.inputs)]
    if not used:
        raise InputError("the rule leaves no row to fit on", file="--rule", given=rule)
    return used

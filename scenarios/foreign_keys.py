"""Keys of another kind of workload than a scenario's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from inputs.errors import listed, nearest_name
from inputs.fields import keys_at
from inputs.keys import KeyPath, value_at
from inputs.yaml_lines import Document
from scenarios.family import FAMILIES, Family

SECTIONS: tuple[KeyPath, ...] = (("workload",), ("precision",))
"""Sections whose keys depend on the kind of workload."""


def refuse_foreign_keys(document: Document, family: Family[Any, Any]) -> None:
    """Refuse keys that other families have and the scenario's own does not.

    Raises:
        InputError: the first of them.
    """
    for section in SECTIONS:
        for path in _unknown(document, family, section):
            kinds = [kind for kind, other in FAMILIES.items() if path[-1] in keys_at(other.scenario, path[:-1])]
            if kinds:
                own = keys_at(family.scenario, path[:-1])
                raise document.error(
                    path,
                    f"{path[-1]} is a key of {listed(kinds)} workloads, and this workload is {family.kind}",
                    given=path[-1],
                    expected=f"one of {', '.join(own)}",
                    nearest=nearest_name(str(path[-1]), own),
                )


def _unknown(document: Document, family: Family[Any, Any], parent: KeyPath) -> Iterator[KeyPath]:
    """Places of keys below ``parent`` that the family does not know, in the order of the file."""
    given, own = value_at(document.data, parent), keys_at(family.scenario, parent)
    for key in given if own and isinstance(given, dict) else ():
        if key in own:
            yield from _unknown(document, family, (*parent, key))
        else:
            yield (*parent, key)

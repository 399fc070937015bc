"""docs/reference/scenario.md names every key with the default it has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from scenarios.types import Scenario

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "scenario.md"


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, object, str]]:
    """(dotted key, default, description) of every value below ``model``."""
    for name, field in model.model_fields.items():
        key = prefix + (field.alias or name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from keys(field.annotation, f"{key}.")
        else:
            default = "required" if field.is_required() else field.get_default(call_default_factory=True)
            yield key, default, field.description or ""


def table() -> dict[str, tuple[str, str]]:
    """Key -> (default, meaning) as the page has them."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    cells = [[cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in lines]
    return {key: (default, meaning) for key, default, meaning in cells}


@pytest.mark.parametrize(("key", "default", "description"), list(keys(Scenario)), ids=lambda value: str(value)[:30])
def test_every_key_stands_with_its_default_and_meaning(key: str, default: object, description: str) -> None:
    shown, meaning = table()[key]
    assert meaning == description
    assert shown == {"None": "", "()": "none", "{}": "none"}.get(str(default), str(default))


def test_no_key_stands_that_is_gone() -> None:
    assert set(table()) == {key for key, _, _ in keys(Scenario)}

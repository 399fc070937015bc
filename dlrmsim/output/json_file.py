"""JSON as files have it."""

from __future__ import annotations

import json
from pathlib import Path

from inputs.given import json_escaped


def json_text(value: object, *, unicode: bool = True) -> str:
    """JSON for people and tools: indented, keys in the order they have; characters that are not shown as escapes.

    Args:
        unicode: whether characters beyond ASCII stand for themselves.
    """
    return json_escaped(json.dumps(value, indent=2, ensure_ascii=not unicode, allow_nan=False)) + "\n"


def write_json(path: Path, value: object) -> None:
    """Write JSON of `json_text`."""
    path.write_text(json_text(value), encoding="utf-8")

"""JSON as files have it."""

from __future__ import annotations

import json
from pathlib import Path


def write_json(path: Path, value: object) -> None:
    """Write JSON for people and tools: indented, keys in the order they have."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")

"""One-line descriptions of YAML files, read without making their contents."""

from __future__ import annotations

from pathlib import Path

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def about(path: Path) -> str:
    """Title of a file that ships, else its description, else its first comment line; on one line."""
    text = path.read_text(encoding="utf-8")
    found = _title(text)
    if found:
        return " ".join(found.split())
    first = text.split("\n", 1)[0]
    return first.removeprefix("#").strip() if first.startswith("#") else ""


def _title(text: str) -> str:
    """Value of the top-level key ``title``, else of ``description``; reading ends at a title."""
    depth, key, description = 0, None, ""
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth != 1:
            continue
        if key is None and isinstance(event, yaml.ScalarEvent):
            key = event.value
            continue
        value = event.value if isinstance(event, yaml.ScalarEvent) else ""
        if key == "title" and value:
            return str(value)
        if key == "description":
            description = value
        key = None
    return description

"""One-line descriptions of Python files, read without importing them."""

from __future__ import annotations

import ast
from pathlib import Path


def first_line(path: Path) -> str:
    """First line of the docstring of a module; empty without one."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]

"""Errors of models and generators, reported with the file, and the line, that caused them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inputs.errors import InputError
from inputs.keys import KeyPath, parse_key
from inputs.yaml_lines import Document


@contextmanager
def located(document: Document, prefix: KeyPath = ()) -> Iterator[None]:
    """Give an `InputError` that names no file the file and line of its key below ``prefix``.

    Raises:
        InputError: the error with its place, or unchanged when it has one.
    """
    try:
        yield
    except InputError as error:
        if error.file is not None:
            raise
        raise document.error(
            (*prefix, *(parse_key(error.key) if error.key else ())),
            error.message,
            given=error.given,
            expected=error.expected,
            nearest=error.nearest,
            others=error.others,
        ) from None


@contextmanager
def of_file(name: str | Path | None, *, key: str | None = None) -> Iterator[None]:
    """Give an `InputError` this file, such as the cluster of a command, and this key where it has none.

    Raises:
        InputError: the error with both; its own file and key stay.
    """
    try:
        yield
    except InputError as error:
        error.file, error.key = error.file or name, error.key or key
        raise

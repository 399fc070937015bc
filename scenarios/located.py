"""Errors of models and generators, reported at the line of the scenario that caused them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from inputs.errors import InputError
from inputs.keys import KeyPath, parse_key
from inputs.yaml_lines import Document


@contextmanager
def located(document: Document, prefix: KeyPath = ()) -> Iterator[None]:
    """Give an `InputError` that names a key but no file the file and line of that key below ``prefix``.

    Raises:
        InputError: the error with its place, or unchanged when it has one or names no key.
    """
    try:
        yield
    except InputError as error:
        if error.file is not None or error.key is None:
            raise
        raise document.error(
            (*prefix, *parse_key(error.key)),
            error.message,
            given=error.given,
            expected=error.expected,
            nearest=error.nearest,
            others=error.others,
        ) from None

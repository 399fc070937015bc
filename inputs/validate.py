"""A document checked against a model: the model, or one `InputError` a person understands."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from inputs.errors import InputError
from inputs.fields import MAPPING
from inputs.findings import UNKNOWN, Finding, findings
from inputs.given import shown
from inputs.keys import KeyPath, parse_key, stands_at, value_at
from inputs.yaml_lines import Document

M = TypeVar("M", bound=BaseModel)

MOST_ERRORS = 200
"""Errors of a file that are looked at, ten times those that a message lists: the time to choose is quadratic."""


def validate(model: type[M], document: Document, *, prefix: KeyPath = ()) -> M:
    """The model that a document describes.

    Args:
        model: a pydantic model, normally derived from `inputs.model.Strict`.
        prefix: path of the part of the document to read; the root by default.

    Raises:
        InputError: every problem in the order of the file, with file, line, key, given, expected, and nearest valid
            name.
    """
    data: object = document.data
    for depth, part in enumerate(prefix, start=1):
        if not stands_at(data, part):
            raise document.error(prefix[:depth], "the key is missing", expected=MAPPING)
        data = value_at(data, (part,))
    try:
        return model.model_validate(data)
    except ValidationError as error:
        found = findings(model, data, error.errors(include_url=False, include_input=False)[:MOST_ERRORS])
        first, *others = [_error(document, prefix, data, one) for one in _in_order(document, prefix, found)]
        first.others = tuple(others)
        raise first from None
    except InputError as error:
        if error.file is not None:
            raise
        path = (*prefix, *(parse_key(error.key) if error.key else ()))
        raise document.error(
            path, error.message, given=error.given, expected=error.expected, nearest=error.nearest, others=error.others
        ) from None


def _in_order(document: Document, prefix: KeyPath, found: list[Finding]) -> list[Finding]:
    """Problems in the order of the file; problems of command-line values come first."""
    return sorted(found, key=lambda finding: document.where((*prefix, *finding.path))[1] or 0)


def _error(document: Document, prefix: KeyPath, data: object, finding: Finding) -> InputError:
    words = finding.words
    return document.error(
        (*prefix, *finding.path),
        words.message,
        given=_given(data, finding),
        expected=words.expected,
        nearest=words.nearest,
    )


def _given(data: object, finding: Finding) -> object:
    """The written value, as far as it helps."""
    path = finding.path
    if finding.type == UNKNOWN and path:
        return path[-1]
    if path and not stands_at(value_at(data, path[:-1]), path[-1]):
        return None
    value = value_at(data, path)
    return None if isinstance(value, dict | list) and not finding.wrong_kind else shown(value)

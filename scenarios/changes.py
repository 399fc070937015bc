"""Changes of a scenario's file by ``--set KEY=VALUE``, before it is checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hardware_specs import read_cluster
from inputs.errors import InputError
from inputs.keys import KeyPath, key_text, parse_key, value_at
from inputs.yaml_lines import Document
from scenarios.family import default_of, family_of_document
from scenarios.shared_keys import CLUSTER, FRAMEWORK, MODEL, plain
from simulator.network.calibration import with_shares
from workloads.graph.framework import load_framework

SIZE: tuple[KeyPath, KeyPath] = (("world_size",), ("nodes",))
"""Pairs of keys; a scenario has one of each pair."""


def with_settings(document: Document, settings: Sequence[str]) -> Document:
    """A scenario with ``KEY=VALUE`` settings applied.

    Raises:
        InputError: a setting is not of that form, or reaches into a part that does not exist or is wrong.
    """
    for setting in settings:
        key, value = key_and_value(setting)
        document = _with_part_in_place(document, key).set(key, value)
    return _one_of_each(document)


def in_place_of(document: Document, settings: Sequence[str]) -> tuple[str, ...]:
    """Settings for the end of a command line: null for keys, set on it before, that cannot stand beside them."""
    named = {parse_key(key_and_value(setting)[0]) for setting in settings}
    pairs = [both for pair in (SIZE, *family_of_document(document).exclusive) for both in (pair, pair[::-1])]
    set_before = {path for path in document.overrides if value_at(document.data, path) is not None}
    dropped = [other for mine, other in pairs if mine in named and other in set_before - named]
    return (*settings, *(f"{key_text(path)}=null" for path in dropped))


def key_and_value(setting: str) -> tuple[str, str]:
    """Key and value of a ``KEY=VALUE`` setting.

    Raises:
        InputError: it is not of that form.
    """
    key, equals, value = setting.partition("=")
    if not equals or not key.strip():
        raise InputError("not a setting", file="--set", given=setting, expected="KEY=VALUE, e.g. nodes=32")
    return key.strip(), value


def _with_part_in_place(document: Document, dotted_key: str) -> Document:
    """The document with the named part that a setting reaches into written in place of its name.

    A cluster gets the shares of its calibration points first, computed for the measured machine.

    Raises:
        InputError: there is no such part, or its file is wrong.
    """
    family = family_of_document(document)
    for path in (CLUSTER, MODEL, FRAMEWORK):
        if not dotted_key.startswith((f"{key_text(path)}.", f"{key_text(path)}[")):
            continue
        given = value_at(document.data, path)
        if path == CLUSTER and given is not None:
            return document.replaced(path, with_shares(read_cluster(document, path)).to_dict())
        if path == FRAMEWORK and given is None:
            given = default_of(family, "framework")
        if path == FRAMEWORK and isinstance(given, str):
            return document.replaced(path, plain(load_framework(given, origin=document, key=key_text(path))))
        if isinstance(given, str):
            return document.replaced(path, plain(family.load_model(given, origin=document, key=key_text(path))))
    return document


def _one_of_each(document: Document) -> Document:
    """Let ``--set world_size`` take the place of the file's ``nodes``, a plan that of a planner, and the other way."""
    for pair in (SIZE, *family_of_document(document).exclusive):
        for mine, other in (pair, pair[::-1]):
            if mine in document.overrides and other not in document.overrides:
                document = replace(document, data=_without(document.data, other))
    return document


def _without(data: dict[str, Any], path: KeyPath) -> dict[str, Any]:
    """A copy of ``data`` in which the key at ``path`` is missing."""
    head, rest = str(path[0]), path[1:]
    if head not in data or (rest and not isinstance(data[head], dict)):
        return data
    kept = {key: value for key, value in data.items() if key != head}
    return {**kept, head: _without(data[head], rest)} if rest else kept

"""Constraints of single tables: from the keys of a scenario to the arrays that planners take."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from inputs.errors import InputError, nearest_name
from inputs.given import listed
from inputs.keys import KeyPath, key_text
from scenarios.dlrm.section import RANGES, Sharding, TableConstraint
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.conforming import CONSTRAINTS
from workloads.dlrm.sharding.constraints import ALONE, KERNELS, TYPES, TableConstraints, free_tables
from workloads.dlrm.sharding.plan_file import OF_SEQUENCES


def constraints_by_table(sharding: Sharding, tables: Tables) -> dict[int, TableConstraint]:
    """Constraints of the tables that have any, by number of the table.

    An entry's name is a table, or a pattern with ``*`` and ``?``. Keys of the table's own entry go before those of
    patterns, keys of later patterns before those of earlier ones.

    Raises:
        InputError: an entry names no table.
    """
    number = {name: table for table, name in enumerate(tables.names)}
    found: dict[int, TableConstraint] = {}
    named = {name: entry for name, entry in sharding.constraints.items() if name in number}
    patterns = {name: entry for name, entry in sharding.constraints.items() if name not in number}
    for name, entry in {**patterns, **named}.items():
        given = {key: value for key, value in dict(entry).items() if value is not None}
        for table in [number[name]] if name in number else _matching(name, number):
            found[table] = found.get(table, TableConstraint()).model_copy(update=given)
    return found


def _matching(pattern: str, number: Mapping[str, int]) -> list[int]:
    """The tables that a pattern names.

    Raises:
        InputError: there is none.
    """
    key = _key(pattern)
    if not re.search(r"[*?]", pattern):
        near, expected = nearest_name(pattern, number), "a table of the model, or a pattern with * and ?"
        raise InputError("no such table", key=key, given=pattern, expected=expected, nearest=near)
    found = [table for name, table in number.items() if fnmatchcase(name, pattern)]
    if not found:
        near, expected = nearest_name(pattern, number), "a pattern of tables of the model"
        raise InputError("no table has such a name", key=key, given=pattern, expected=expected, nearest=near)
    return found


def table_constraints(
    sharding: Sharding, tables: Tables, world_size: int, local_world_size: int
) -> TableConstraints | None:
    """Constraints of all tables; None where none of them limits a plan.

    Raises:
        InputError: an entry names no table, a rank does not exist, or constraints contradict each other.
    """
    own = constraints_by_table(sharding, tables)
    limits = free_tables(len(tables), world_size, local_world_size)
    asked: dict[int, NDArray[np.bool_]] = {}
    for table, entry in own.items():
        name = tables.names[table]
        _set_types(limits, table, entry, name)
        if tables.sequences:
            _keep_types_of_sequences(limits, table, name)
        limits.least_dim[table] = entry.min_partition or 0
        if entry.device_group is not None:
            asked[table] = _ranks(entry.device_group, world_size, local_world_size, _key(name, "device_group"))
    limits = replace(limits, together=_sets(own, tables))
    _share(limits, asked, tables)
    masks = [limits.ranks[0]]
    for table, mask in asked.items():
        known = next((group for group, other in enumerate(masks) if np.array_equal(mask, other)), len(masks))
        masks += [mask] if known == len(masks) else []
        limits.group[table] = known
    limits = replace(limits, ranks=np.stack(masks))
    if tables.sequences:  # other tables stay free: planners give those of sequences no other types
        limits.types[limits.bound] &= np.isin(TYPES, OF_SEQUENCES)
    return limits if limits.bound.any() or not limits.kernels.all() else None


def _keep_types_of_sequences(limits: TableConstraints, table: int, name: str) -> None:
    """Limit constrained tables to the sharding types of sequences.

    Raises:
        InputError: it has none of them.
    """
    given, possible = limits.types[table].copy(), np.isin(TYPES, OF_SEQUENCES)
    if given.all():
        return
    limits.types[table] &= possible
    if not limits.types[table].any():
        raise InputError(
            f"the table {name} is one of a sequence, which TorchRec shards otherwise",
            key=_key(name, "sharding_types"),
            given=", ".join(np.array(TYPES)[given].tolist()),
            expected=f"some of {', '.join(OF_SEQUENCES)}",
        )


def _set_types(limits: TableConstraints, table: int, entry: TableConstraint, name: str) -> None:
    """Sharding types and kernels of a table: copies have the kernel ``dense``, and other tables another one.

    Raises:
        InputError: its kernels allow none of its sharding types.
    """
    if entry.sharding_types is not None:
        limits.types[table] = np.isin(TYPES, entry.sharding_types)
    if entry.compute_kernels is None:
        return
    limits.kernels[table] = np.isin(KERNELS, entry.compute_kernels)
    copied = np.array(TYPES) == "data_parallel"
    if "dense" not in entry.compute_kernels:
        limits.types[table] &= ~copied
    elif set(entry.compute_kernels) == {"dense"}:
        limits.types[table] &= copied
    if not limits.types[table].any():
        raise InputError(
            f"the compute_kernels of {name} allow none of its sharding_types",
            key=_key(name, "compute_kernels"),
            given=", ".join(entry.compute_kernels),
            expected="dense for data_parallel, other kernels for other types",
        )


def _ranks(given: tuple[int, ...] | str, world_size: int, local_world_size: int, key: str) -> NDArray[np.bool_]:
    """Whether a rank is in a device group ``[P]``.

    Raises:
        InputError: a rank or node does not exist.
    """
    found = np.zeros(world_size, dtype=np.bool_)
    places = list(_places(given)) if isinstance(given, str) else [(rank, rank) for rank in given]
    nodes = isinstance(given, str) and given.startswith("nodes")
    count = -(-world_size // local_world_size) if nodes else world_size
    each = local_world_size if nodes else 1
    for first, last in places:
        if first > last:
            message, expected = "a range that ends before it begins", "FIRST-LAST"
            raise InputError(message, key=key, given=given, expected=expected)
        if last >= count:
            word = "node" if nodes else "rank"
            message, expected = f"a device group with a {word} that does not exist", f"{word}s from 0 to {count - 1}"
            shown = given if isinstance(given, str) else first
            raise InputError(message, key=key, given=shown, expected=expected)
        found[first * each : (last + 1) * each] = True
    return found


def _places(given: str) -> Iterator[tuple[int, int]]:
    """First and last of the ranges of a text such as ``0-7,16``."""
    for part in RANGES.findall(given):
        first, _, last = part.partition("-")
        yield int(first), int(last or first)


def _sets(own: Mapping[int, TableConstraint], tables: Tables) -> NDArray[np.int64]:
    """Number of the set of each table, by name of the set ``[N]``.

    Raises:
        InputError: a set has a single table.
    """
    asked = {table: entry.together for table, entry in own.items() if entry.together is not None}
    members = Counter(asked.values())
    number = {name: place for place, name in enumerate(sorted(members))}
    found = np.full(len(tables), ALONE, dtype=np.int64)
    for table, name in asked.items():
        found[table] = number[name]
        if members[name] == 1:
            near = nearest_name(name, [other for other in number if other != name])
            key, expected = _key(tables.names[table], "together"), "two or more tables with the same name of a set"
            raise InputError("a set of a single table", key=key, given=name, expected=expected, nearest=near)
    return found


def _share(limits: TableConstraints, asked: dict[int, NDArray[np.bool_]], tables: Tables) -> None:
    """Give the tables of a set the sharding types and ranks that all of them may have.

    Raises:
        InputError: there are none.
    """
    for number in range(int(limits.together.max(initial=ALONE)) + 1):
        members = np.flatnonzero(limits.together == number)
        masks = [asked[table] for table in members.tolist() if table in asked]
        types, ranks = limits.types[members].all(axis=0), np.asarray(np.logical_and.reduce(masks or limits.ranks))
        for key, shared in (("sharding_types", types), ("device_group", ranks)):
            if not shared.any():
                names = listed([tables.names[table] for table in members.tolist()])
                raise InputError(
                    f"tables placed together have no {key} in common",
                    key=_key(tables.names[members[0]], "together"),
                    given=names,
                    expected=f"{key} that share a value",
                )
        limits.types[members] = types
        asked.update(dict.fromkeys(members.tolist(), ranks))


def _key(name: str, *rest: str) -> str:
    """Key of a table's entry, or of a part of it."""
    path: KeyPath = (*CONSTRAINTS, name, *rest)
    return key_text(path)

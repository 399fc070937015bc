"""Files of indices and reuse histograms that a model or scenario names, written out in their place."""

from __future__ import annotations

from pathlib import Path

from inputs.errors import InputError
from inputs.keys import KeyPath, key_text
from inputs.yaml_lines import Document
from workloads.catalogs import REUSE
from workloads.dlrm.laws.index_files import read_counts
from workloads.dlrm.laws.index_laws import IndexLaw, Indices, spelled_out
from workloads.dlrm.laws.reuse import UNIFORM, read_reuse
from workloads.dlrm.model.table_list import TableGroup
from workloads.graded import Graded


def with_counts(groups: tuple[TableGroup, ...], document: Document, path: KeyPath) -> tuple[TableGroup, ...]:
    """Groups of tables with the counts of their own files of indices, and their own histograms.

    Args:
        groups: groups at ``path`` of ``document``.

    Raises:
        InputError: a file is missing or wrong, or looks up rows that a table lacks.
    """
    found = []
    for number, (group, name) in enumerate(zip(groups, _names(groups), strict=True)):
        place = (*path, number, "indices")
        if _file(group.indices) is not None:
            found.append(_counted(group, name, group.indices, document, (*place, "file")))
        elif group.indices is not None:
            found.append(group.model_copy(update={"indices": _with_histogram(group.indices, document, place)}))
        else:
            found.append(group)
    return tuple(found)


def everywhere(
    law: Graded[IndexLaw], groups: tuple[TableGroup, ...] | None, document: Document, path: KeyPath
) -> tuple[Graded[IndexLaw], tuple[TableGroup, ...] | None]:
    """A model's law and groups of tables, the law read from a file given to each group that has none of its own.

    Args:
        groups: its tables; None for a population.
        path: path of the law in it.

    Raises:
        InputError: as `with_counts`; or the tables are not listed.
    """
    file = _file(law.value)
    if file is None:
        return law.model_copy(update={"value": _with_histogram(law.value, document, path)}), groups
    if groups is None:
        raise document.error(path, "measured indices need tables that are listed", expected="tables or table_list")
    place = (*path, "file")
    given = [
        group if group.indices is not None else _counted(group, name, law.value, document, place)
        for group, name in zip(groups, _names(groups), strict=True)
    ]
    return law.model_copy(update={"value": UNIFORM, "note": f"each table as counted in {file}"}), tuple(given)


def _with_histogram(law: IndexLaw, document: Document, path: KeyPath) -> IndexLaw:
    """The law with a histogram of one's own written out; shipped ones keep their names.

    Raises:
        InputError: there is no such histogram, or its file is wrong.
    """
    indices = spelled_out(law)
    if not isinstance(indices.histogram, str):
        return law
    key = key_text(path if isinstance(law, str) else (*path, "histogram"))
    histogram = read_reuse(indices.histogram, origin=document, key=key)
    return law if indices.histogram in REUSE.names() else indices.model_copy(update={"histogram": histogram})


def _file(law: IndexLaw | None) -> str | None:
    return law.file if isinstance(law, Indices) else None


def _names(groups: tuple[TableGroup, ...]) -> list[str]:
    """Name of each group, or of its first table."""
    names, first = [], 0
    for group in groups:
        names.append(group.name or f"table_{first}")
        first += group.count
    return names


def _counted(group: TableGroup, name: str, law: IndexLaw | None, document: Document, path: KeyPath) -> TableGroup:
    """The group with the counts of its law's file, whose path starts at the file that names it."""
    given = Path(_file(law) or "").expanduser()
    _, line = document.where(path)
    file = given if line is None else document.file.parent / given
    try:
        counts = read_counts(file, name)
        counts.popularity(group.rows)
    except InputError as error:
        raise document.error(
            path,
            error.message if error.file is None else f"{error.file}: {error.message}",
            given=error.given,
            expected=error.expected,
            nearest=error.nearest,
        ) from None
    return group.model_copy(update={"indices": Indices(distribution="measured", rows=counts)})

"""Folders in which studies keep what they recorded, to be predicted anew."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inputs.errors import InputError

ROWS = "rows.csv"
"""In a folder of a set or configuration, once all of it is measured: its rows."""


@contextmanager
def folder_of(keep: Path | None) -> Iterator[Path]:
    """The folder to keep things in, made where there is none; None: one that is gone afterwards."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="dlrmsim-study-") as name:
            yield Path(name)
    else:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()


def kept_in(folder: Path, prefix: str) -> dict[int, Path]:
    """Folders ``prefix`` and a number, by that, that are whole: a study was not stopped in them.

    Raises:
        InputError: there is none.
    """
    found = {int(file.parent.name.removeprefix(prefix)): file.parent for file in folder.glob(f"{prefix}*/{ROWS}")}
    if not found:
        raise InputError("nothing was kept here", file=folder, expected="what a study with --keep wrote")
    return dict(sorted(found.items()))

"""Folders in which studies keep what they recorded, to be predicted anew."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.rows import read
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
        InputError: there is none, or they are of several studies.
    """
    found = {int(file.parent.name.removeprefix(prefix)): file.parent for file in folder.glob(f"{prefix}*/{ROWS}")}
    if not found:
        raise InputError("nothing was kept here", file=folder, expected="what a study with --keep wrote")
    firsts = [row for file in found.values() for row in read(file / ROWS)[1][:1]]
    studies = sorted({f"seed {row.get('seed')} on {row.get('cluster')}" for row in firsts})
    if len(studies) > 1:
        expected = f"what one study wrote: remove the folders {prefix}N of the others"
        raise InputError("several studies were kept here", file=folder, given=", ".join(studies), expected=expected)
    return dict(sorted(found.items()))

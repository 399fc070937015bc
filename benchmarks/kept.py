"""Folders in which studies keep what they recorded, to be predicted anew."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inputs.errors import InputError


@contextmanager
def folder_of(keep: Path | None) -> Iterator[Path]:
    """The folder to keep things in, made where there is none; None: one that is gone afterwards."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="dlrmsim-study-") as name:
            yield Path(name)
    else:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()


def kept_in(folder: Path, prefix: str) -> dict[int, list[Path]]:
    """Folders ``prefix``, a number and perhaps ``_`` and another, by the first number, in order of both.

    Raises:
        InputError: there is none.
    """
    found: dict[int, dict[int, Path]] = {}
    for path in folder.glob(f"{prefix}*"):
        first, _, second = path.name.removeprefix(prefix).partition("_")
        found.setdefault(int(first), {})[int(second or 0)] = path
    if not found:
        raise InputError("nothing was kept here", file=folder, expected="what a study with --keep wrote")
    return {number: [paths[turn] for turn in sorted(paths)] for number, paths in sorted(found.items())}

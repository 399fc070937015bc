"""Catalogs of shipped files by name, and of the user's own by path."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from inputs.errors import InputError, nearest_name
from inputs.keys import KeyPath, parse_key

if TYPE_CHECKING:  # reading files takes longer to load than listing their names
    from inputs.yaml_lines import Document

SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Catalog:
    """The files in one folder of a package, by name (the file name without suffix); names with ``_`` first are private.

    Attributes:
        kind: noun for an entry in messages, singular: ``cluster``.
        package: the package that ships them.
        folder: the folder within the package, ``/`` between parts.
        others: folders whose files `find` knows, too, though they are of another kind and not listed here.
        inside: name of the file that stands for a folder of the user's own; empty: a folder stands for none.
        suffixes: endings of the files' names.
        format: name of the files' format in messages.
    """

    kind: str
    package: str
    folder: str
    others: tuple[str, ...] = ()
    inside: str = ""
    suffixes: tuple[str, ...] = SUFFIXES
    format: str = "YAML"

    def names(self) -> list[str]:
        """All names, ascending."""
        return sorted(_shipped(self.package, self.folder, self.suffixes))

    def find(self, name_or_path: str | Path, *, origin: Document | None = None, key: str = "") -> Path:
        """The file of a shipped name or of a path.

        Anything that ends in a suffix or contains a separator is a path, and so is a folder with the file
        ``inside``; relative paths start at the folder of the document that holds them, or at the current folder when
        they come from the command line.

        Args:
            origin: the document that holds it.
            key: dotted key of the value in ``origin``.

        Raises:
            InputError: no such name (with the nearest one) or no such file.
        """
        text = str(name_or_path)
        shipped = self._findable()
        if text in shipped:
            return shipped[text]
        path = parse_key(key) if key else ()
        file = _base(origin, path) / _expanded(text)
        own = self._own(file)
        if own is not None:
            return own
        if isinstance(name_or_path, Path) or self.is_path(text):
            if _is_folder(file) and self.inside:
                expected = f"a folder with {self.inside}, or a {self.format} file"
                raise InputError(f"this folder has no {self.inside}", file=file, expected=expected)
            if _exists(file):
                return file
            raise self._error(origin, path, f"no such {self.kind} file", given=str(file), near=Path(text).stem)
        raise self._error(origin, path, f"unknown {self.kind}", given=text, near=text)

    def _own(self, folder: Path) -> Path | None:
        """The file that stands for a folder; None: it has none."""
        if not self.inside or not _is_folder(folder):
            return None
        file = folder / self.inside
        return file if _exists(file) else None

    def is_path(self, text: str) -> bool:
        """Whether a text is a path, not a name."""
        return text.endswith(self.suffixes) or "/" in text or "\\" in text

    def _findable(self) -> dict[str, Path]:
        """Name -> file over all folders; the own folder comes first."""
        found = _shipped(self.package, self.folder, self.suffixes)
        for folder in self.others:
            found = _shipped(self.package, folder, self.suffixes) | found
        return found

    def _error(self, origin: Document | None, path: KeyPath, message: str, *, given: str, near: str) -> InputError:
        names = sorted(self._findable())
        folder = f", or a folder with {self.inside}" if self.inside else ""
        expected = f"one of {', '.join(names) or '(none ships)'}, or the path of a {self.format} file{folder}"
        nearest = nearest_name(near, names)
        if origin is not None:
            return origin.error(path, message, given=given, expected=expected, nearest=nearest)
        return InputError(message, given=given, expected=expected, nearest=nearest)


def shipped_files(package: str, folder: str, suffix: str) -> dict[str, Path]:
    """Files in a folder of a package by their names without ``suffix``."""
    root = Path(str(files(package).joinpath(folder)))
    return {file.name.removesuffix(suffix): file for file in root.glob(f"*{suffix}")}


@cache
def _shipped(package: str, folder: str, suffixes: tuple[str, ...]) -> dict[str, Path]:
    """Name -> file; the package is installed as files, never zipped (it is an application)."""
    found = [entry for suffix in suffixes for entry in shipped_files(package, folder, suffix).items()]
    return {name: file for name, file in found if not name.startswith("_")}


def _expanded(text: str) -> Path:
    """The path with the user's home folder for a leading ``~``."""
    try:
        return Path(text).expanduser()
    except RuntimeError:  # no such user
        return Path(text)


def _exists(path: Path) -> bool:
    """Whether the path exists; reading it finds out whether it is a file."""
    try:
        return path.exists()
    except OSError:  # a name too long, a folder without permission
        return False


def _is_folder(path: Path) -> bool:
    """Whether the path is a folder that can be looked into."""
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name too long, a folder without permission
        return False


def _base(origin: Document | None, path: KeyPath) -> Path:
    from_file = origin is not None and origin.where(path)[1] is not None
    return origin.file.parent if origin is not None and from_file else Path()

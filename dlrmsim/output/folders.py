"""Output folders: written whole or not at all.

A folder is written under a temporary name beside its destination (`dlrmsim.output.partial`) and renamed when it is
complete. A destination that exists is replaced only when its ``run.json`` (`dlrmsim.output.record`) lists everything in
it and below, and only by results with at least the same files: a run never deletes a file that it does not replace.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dlrmsim.output.partial import new_file, new_folder, put_back, remove_dead
from dlrmsim.output.record import foreign_files, recorded_files
from inputs.errors import InputError

_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM}
"""Errors of a disk or folder, which are no errors of this tool."""

RUNS_FOLDER = Path("runs")
"""Folder of results without a folder of their own."""


REPORT_FILE = "report.html"
"""The page of a run, an import or a replay."""


def replaceable(target: str | Path, *, report: bool = True) -> Path:
    """The path of a folder that may be written: it does not exist, is empty, or is one of ours.

    First removes what killed processes left beside it.

    Args:
        target: the folder.
        report: whether the new files include a page.

    Raises:
        InputError: ``target`` is a file, or a folder with files that dlrmsim did not write, or with a page that the new
            files do not replace.
    """
    target = Path(target)
    remove_dead(target.absolute().parent)
    if not target.exists() and not target.is_symlink():
        _require_writable(_existing_parent(target))
        return target
    if target.is_symlink() or not target.is_dir():
        raise InputError("is not a folder; nothing was written", file=target, expected="a folder to create or replace")
    _require_none_foreign(target)
    if not report and (target / REPORT_FILE).exists():
        raise _lost(target, {REPORT_FILE})
    _require_writable(target.absolute().parent)
    return target


def _require_none_foreign(target: Path) -> None:
    """Refuse a folder with anything in it or below that dlrmsim did not write, or that cannot be read."""
    try:
        foreign = foreign_files(target)
    except OSError as error:
        message = f"cannot be read: {error.strerror}; nothing was written"
        raise InputError(message, file=target, expected="a new folder (--out)") from None
    if foreign:
        raise InputError(
            f"holds files that dlrmsim did not write ({', '.join(foreign[:3])}{', ...' if len(foreign) > 3 else ''}); "
            "nothing was written",
            file=target,
            expected="a new folder, an empty one, or one of an earlier run (choose another with --out)",
        )


def _lost(target: Path, names: set[str]) -> InputError:
    """The error for files of an earlier run that the new run does not replace."""
    listed = ", ".join(sorted(names)[:3]) + (", ..." if len(names) > 3 else "")
    return InputError(
        f"holds {listed} of an earlier run, which this one does not write; nothing was written",
        file=target,
        expected="another folder (--out), a run that replaces these files, or no folder (delete it)",
    )


def require_file_writable(file: Path) -> None:
    """Check that a file can be written before anything is done for it.

    Raises:
        InputError: it is a folder, or its folder is none that may be written.
    """
    if file.is_dir():
        raise InputError("is a folder; nothing was written", file=file.absolute(), expected="a file (--out)")
    _require_writable(file.absolute().parent)


@contextmanager
def folder_written_whole(target: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes ``target`` when the block ends without an exception.

    Whatever ends the block early (an error, Ctrl-C) leaves ``target`` as it was and no temporary folder behind. The
    block must write the record (`dlrmsim.output.record`), or the folder cannot be replaced later.

    Raises:
        InputError: ``target`` may not be replaced, see `replaceable`, has files that the block did not write, or cannot
            be written (disk full, quota, a read-only or failing disk).
    """
    target = replaceable(target).absolute()
    try:
        created = _create_parents(target.parent)
        partial = new_folder(target, "partial")
    except OSError as error:
        message = f"cannot be created: {error.strerror}; nothing was written"
        raise InputError(message, file=target, expected="a folder that can be written (--out)") from None
    try:
        yield partial
        partial.chmod(0o777 & ~_umask())
        _flush(partial)
        _require_no_loss(partial, target)
        _swap_in(partial, target)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        for folder in created:
            _remove_if_empty(folder)
        if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
            message = f"cannot be written: {error.strerror}; nothing was written"
            raise InputError(message, file=target, expected="a folder with room (--out)") from None
        raise


def file_written_whole(target: Path, content: str | bytes) -> None:
    """Write a file that appears whole or not at all; an older one is replaced.

    Raises:
        InputError: ``target`` is a folder, or cannot be written.
    """
    if target.is_dir():
        raise InputError("is a folder; nothing was written", file=target.absolute(), expected="a file")
    remove_dead(target.absolute().parent)
    try:
        handle, partial = new_file(target.absolute())
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(handle)
            partial.chmod(0o666 & ~_umask())
            partial.replace(target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        message = f"cannot be written: {error.strerror}; nothing was written"
        raise InputError(message, file=target, expected="a file in a folder with room (--out)") from None


def _require_no_loss(partial: Path, target: Path) -> None:
    """Refuse to replace a folder that now has files of others, or recorded files that ``partial`` lacks."""
    if not target.exists():
        return
    _require_none_foreign(target)
    lost = {name for name in recorded_files(target) if (target / name).exists() and not (partial / name).exists()}
    if lost:
        raise _lost(target, lost)


def _swap_in(partial: Path, target: Path) -> None:
    """Rename ``partial`` to ``target``; an older ``target`` stands aside until that has worked."""
    if not target.exists():
        partial.rename(target)
        return
    aside = new_folder(target, "replaced")
    try:
        target.rename(aside / target.name)
        partial.rename(target)
    except BaseException:
        put_back(aside)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _flush(folder: Path) -> None:
    """Have the disk hold all files of a folder before an older one goes: a power cut must not cost both."""
    for place, _, files in os.walk(folder):
        for path in (*(Path(place) / name for name in files), *([Path(place)] if os.name == "posix" else [])):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _create_parents(folder: Path) -> list[Path]:
    """Create ``folder`` and return the folders that were new, innermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def _existing_parent(path: Path) -> Path:
    return next(parent for parent in path.absolute().parents if parent.exists())


def _require_writable(folder: Path) -> None:
    if not folder.is_dir():
        raise InputError("is not a folder; nothing was written", file=folder, expected="a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError("may not be written; nothing was written", file=folder, expected="a writable folder (--out)")


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

"""Temporary files and folders beside an output, named after the process that writes them.

``.NAME.partial-HOST-PID-START-RANDOM`` is not complete yet. ``.NAME.replaced-HOST-PID-START-RANDOM`` holds an older
output while the new one takes its place. Both are gone when that process ends, unless it was killed: then the next run
into the same parent folder removes the first and puts back the second, if its output is missing.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Literal

from dlrmsim.output.record import foreign_files, recorded_files

Kind = Literal["partial", "replaced"]
NAME_CHARACTERS = 48
"""Characters of an output's name in a temporary one, which systems limit to 255 bytes."""
_NAMED = re.compile(
    r"\..+\.(?P<kind>partial|replaced)-(?P<host>[0-9a-f]{8})-(?P<pid>\d+)-(?P<start>\d+)-\w+", re.DOTALL
)
_ZOMBIE = "Z"


def new_folder(target: Path, kind: Kind) -> Path:
    """A new folder beside ``target``, this process's; raises `OSError`."""
    return Path(tempfile.mkdtemp(prefix=_prefix(target, kind), dir=target.parent))


def new_file(target: Path) -> tuple[int, Path]:
    """Descriptor and path of a new file beside ``target``, this process's; raises `OSError`."""
    descriptor, path = tempfile.mkstemp(prefix=_prefix(target, "partial"), dir=target.parent)
    return descriptor, Path(path)


def put_back(aside: Path) -> None:
    """End a replacement: the older output in ``aside`` returns if there is no new one, and goes if that is whole.

    It stays where it is if something else has its name by now.
    """
    for older in list(aside.iterdir()):
        target = aside.parent / older.name
        if not os.path.lexists(target):
            older.rename(target)
        elif not recorded_files(target) or foreign_files(target):
            return
    shutil.rmtree(aside, ignore_errors=True)


def remove_dead(folder: Path) -> None:
    """Remove from a folder all that killed processes of this host left there."""
    try:
        names = [entry.name for entry in os.scandir(folder)]
    except OSError:
        return
    for name in names:
        found = _NAMED.fullmatch(name)
        if found is None or found["host"] != _host() or _is_alive(int(found["pid"]), int(found["start"])):
            continue
        with suppress(OSError):  # another run removes it at the same time, or another user owns it
            _remove(folder / name, found["kind"])


def _remove(path: Path, kind: str) -> None:
    if kind == "replaced":
        put_back(path)
    elif path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()


def _prefix(target: Path, kind: Kind) -> str:
    pid = os.getpid()
    return f".{target.name[:NAME_CHARACTERS]}.{kind}-{_host()}-{pid}-{_state_and_start(pid)[1]}-"


def _host() -> str:
    """Eight digits that stand for this host and its numbering of processes, which containers have of their own."""
    try:
        namespace = Path("/proc/self/ns/pid").readlink().name
    except OSError:
        namespace = ""
    return hashlib.sha256(f"{platform.node()} {namespace}".encode()).hexdigest()[:8]


def _is_alive(pid: int, start: int) -> bool:
    """Whether the process of a temporary name still runs; true where the system does not say."""
    if sys.platform == "win32":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it is another user's
        pass
    state, since = _state_and_start(pid)
    return state != _ZOMBIE and since in (start, 0)


def _state_and_start(pid: int) -> tuple[str, int]:
    """State of a process, and its start in clock ticks since the boot; 0 where there is no ``/proc``."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return "", 0
    return fields[0], int(fields[19])

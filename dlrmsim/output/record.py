"""``run.json``: the record that makes a folder ours, and what differs from run to run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from dlrmsim.output.environment import environment
from dlrmsim.output.json_file import write_json

RECORD_FILE = "run.json"
TOOL = "dlrmsim"


def write_record(folder: Path, facts: Mapping[str, object]) -> None:
    """Write the record of a complete folder: all files in it and below, facts about the run, and the environment."""
    files = sorted({RECORD_FILE, *_files(folder)})
    write_json(folder / RECORD_FILE, {"tool": TOOL, "files": files, **facts, **environment()})


def recorded_files(folder: Path) -> set[str]:
    """Paths in a folder that its record lists, with ``/`` between names; none without a record of ours."""
    try:
        record = json.loads((folder / RECORD_FILE).read_text(encoding="utf-8"))
        names = record["files"] if record["tool"] == TOOL else []
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return set()
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()


def foreign_files(folder: Path) -> list[str]:
    """Paths in a folder and below that its record does not list; all of them without a record of ours."""
    ours = recorded_files(folder)
    return sorted(path for path in _files(folder) if path not in ours)


def _files(folder: Path) -> Iterator[str]:
    """Files, links and empty folders in a folder and below."""
    for place, folders, files in os.walk(folder, onerror=_raised):
        inside = Path(place)
        links = [name for name in folders if (inside / name).is_symlink()]
        for name in (*files, *links):
            yield (inside / name).relative_to(folder).as_posix()
        if not folders and not files and inside != folder:
            yield inside.relative_to(folder).as_posix()


def _raised(error: OSError) -> None:
    """Stop at a folder that cannot be read: its files would be taken for none."""
    raise error

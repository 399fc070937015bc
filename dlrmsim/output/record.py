"""``run.json``: the record that makes a folder ours, and what differs from run to run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from dlrmsim.output.environment import environment
from dlrmsim.output.json_file import write_json

RECORD_FILE = "run.json"
TOOL = "dlrmsim"


def write_record(folder: Path, facts: Mapping[str, object]) -> None:
    """Write the record of a complete folder: its files, facts about the run, and the environment."""
    files = sorted([RECORD_FILE, *(path.name for path in folder.iterdir())])
    write_json(folder / RECORD_FILE, {"tool": TOOL, "files": files, **facts, **environment()})


def recorded_files(folder: Path) -> set[str]:
    """Names that the record of a folder lists; none without a record of ours."""
    try:
        record = json.loads((folder / RECORD_FILE).read_text(encoding="utf-8"))
        names = record["files"] if record["tool"] == TOOL else []
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()

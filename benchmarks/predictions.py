"""``python -m benchmarks predictions --against REV``: predictions that changed since another commit, by class.

All shipped scenarios, all suites and all predicting commands of the documentation run in both trees, in the same
environment. Changed numbers are reported as drift; a command that ran before and fails now is a failure.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.rows import Row

ROOT = Path(__file__).parents[1]
PREDICTED = frozenset({"iteration_time_s", "time_s", "predicted"})
"""Keys of JSON output that hold a prediction."""
NAMES = ("suite", "id", "op", "bytes", "planner", "name", "nodes", "world_size", "setting")
"""Keys that identify an entry of a list."""
PREDICTING = ("run", "sweep", "plan", "collective")
"""Subcommands whose examples are compared."""
MOVED = 1e-3
"""Smallest relative change that is reported."""
MOST_SHOWN = 10
MOST_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Ran:
    """Result of a command in one tree: exit code, predictions by place in the output, first line of the error."""

    code: int
    values: Mapping[str, float]
    error: str


def rows(against: str) -> Iterator[Row]:
    """A row for each class of predictions, for each of the largest changes, and for each command that fails now."""
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder, "other")
        _git("worktree", "add", "--detach", str(other), against)
        try:
            with ThreadPoolExecutor(2) as pool:
                before, now = pool.map(_all, (other, ROOT))
        finally:
            _git("worktree", "remove", "--force", str(other))
    for kind in dict.fromkeys(kind for kind, _ in now):
        keys = [key for key in now if key[0] == kind and key in before]
        yield from _drift(kind, {key[1]: (before[key], now[key]) for key in keys})


def _drift(kind: str, pairs: Mapping[str, tuple[Ran, Ran]]) -> Iterator[Row]:
    changes = {
        f"{command} {place}".strip(): new.values[place] / old.values[place] - 1.0
        for command, (old, new) in pairs.items()
        for place in old.values.keys() & new.values.keys()
        if old.values[place] > 0.0
    }
    moved = {name: change for name, change in changes.items() if abs(change) > MOVED}
    yield Row(f"{kind}_predictions", len(changes), "compared")
    yield Row(f"{kind}_moved", len(moved), "by over 0.1 %")
    if moved:
        yield Row(f"{kind}_median", 100.0 * statistics.median(abs(change) for change in moved.values()), "% of those")
    for name in sorted(moved, key=lambda name: -abs(moved[name]))[:MOST_SHOWN]:
        yield Row(f"  {name}", 100.0 * moved[name], "%")
    broken = {command: new for command, (old, new) in pairs.items() if old.code == 0 and new.code != 0}
    for command, new in broken.items():
        yield Row(f"  {command}: {new.error}"[:160], new.code, "exit code")
    yield Row(f"{kind}_broken", len(broken), "commands", "<= 0")


def _all(tree: Path) -> dict[tuple[str, str], Ran]:
    """Every command in a tree, by kind and text."""
    commands = [
        *(("scenario", f"run {name} --no-report --json") for name in _names(ROOT / "scenarios/library")),
        *(("suite", f"validate {name} --json") for name in _names(ROOT / "validation/suites")),
        *(("docs", f"{command} --json") for command in _documented()),
    ]
    return {(kind, command): _ran(tree, shlex.split(command)) for kind, command in dict.fromkeys(commands)}


def _names(folder: Path) -> list[str]:
    return sorted(file.stem for file in folder.glob("*.yaml"))


def _documented() -> Iterator[str]:
    """Commands in code blocks that make predictions, except commands that need a file of the reader."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for block in re.findall(r"```\w*\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                words = line.split("#")[0].strip().removeprefix("dlrmsim ")
                if line.startswith("dlrmsim ") and words.split(maxsplit=1)[0] in PREDICTING and ".yaml" not in words:
                    yield re.sub(r" --(out \S+|json)", "", words)


def _ran(tree: Path, arguments: list[str]) -> Ran:
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    with tempfile.TemporaryDirectory() as folder:
        out = [] if arguments[0] in ("validate", "collective") else ["--out", str(Path(folder, "out"))]
        command = [sys.executable, "-m", "dlrmsim", *arguments, *out]
        try:
            done = subprocess.run(
                command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=MOST_SECONDS
            )
        except subprocess.TimeoutExpired:
            return Ran(124, {}, f"took over {MOST_SECONDS} s")
    error = next(iter(done.stderr.strip().splitlines()), "")
    try:
        found = json.loads(done.stdout[done.stdout.index("{") :])
    except ValueError:
        return Ran(done.returncode, {}, error)
    return Ran(done.returncode, dict(_predictions(found)), error)


def _predictions(part: Any, place: str = "") -> Iterator[tuple[str, float]]:
    """Place and value of each prediction in JSON output."""
    if isinstance(part, list):
        used: dict[str, int] = defaultdict(int)
        for entry in part:
            name = "/".join(str(entry[key]) for key in NAMES if key in entry) if isinstance(entry, dict) else ""
            used[name] += 1
            yield from _predictions(entry, f"{place} {name}#{used[name]}" if used[name] > 1 else f"{place} {name}")
    elif isinstance(part, dict):
        for key, inner in part.items():
            if key in PREDICTED and isinstance(inner, int | float) and not isinstance(inner, bool):
                yield f"{place} {key}".strip(), float(inner)
            else:
                yield from _predictions(inner, place)


def _git(*arguments: str) -> None:
    subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True)

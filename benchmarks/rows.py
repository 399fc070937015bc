"""Rows that benchmarks print, and cases that run in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One measured number; ``bound`` says what it has to be, such as ``<= 0.6``."""

    name: str
    value: float
    unit: str
    bound: str = ""

    @property
    def holds(self) -> bool:
        """Whether the value keeps its bound; true when there is none."""
        if not self.bound:
            return True
        sign, limit = self.bound.split()
        return self.value <= float(limit) if sign == "<=" else self.value >= float(limit)


def show(rows: Iterable[Row], *, as_json: bool) -> bool:
    """Print rows as they come; returns whether all bounds hold."""
    kept = []
    for row in rows:
        kept.append(row)
        if not as_json:
            mark = "" if not row.bound else ("  ok" if row.holds else "  MISSED")
            print(f"{row.name:32} {row.value:>14.6g} {row.unit:16} {row.bound:12}{mark}", flush=True)
    if as_json:
        print(json.dumps([asdict(row) for row in kept], indent=1))
    return all(row.holds for row in kept)


def in_fresh_process(
    module: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
) -> dict[str, float]:
    """JSON on the last line that ``python -m module arguments`` prints, in a process of its own.

    ``environment`` is added to that of this process.

    Raises:
        RuntimeError: the process failed; its error output is in the message.
    """
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **(environment or {})}
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result

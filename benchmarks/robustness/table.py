"""Cases of a table: a sample, one mutation, the exit code and the words that the message must have."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.robustness.forks import run_all
from benchmarks.robustness.samples import Sample
from benchmarks.robustness.study import MutatedFile
from benchmarks.robustness.values import Change
from benchmarks.robustness.verdicts import judge


@dataclass(frozen=True, slots=True)
class ExpectedVerdict:
    """A row of the table.

    Attributes:
        sample: name of the sample.
        code: exit code.
        words: words that the message has.
    """

    sample: str
    change: Change
    code: int
    words: tuple[str, ...]


def read_table(file: Path) -> list[ExpectedVerdict]:
    """The rows of a CSV of sample, op, place (steps joined by ``/``), value (JSON), code, words (joined by ``|``)."""
    with file.open(encoding="utf-8", newline="") as lines:
        return [
            ExpectedVerdict(
                row["sample"],
                Change(row["op"], _place(row["place"]), _value(row["value"])),
                int(row["code"]),
                tuple(filter(None, row["words"].split("|"))),
            )
            for row in csv.DictReader(lines)
        ]


def differing(rows: Sequence[ExpectedVerdict], samples: Sequence[Sample], processes: int) -> Iterator[str]:
    """Descriptions of rows whose command ends otherwise than expected."""
    by_name = {sample.name: sample for sample in samples}
    cases = [
        MutatedFile(number, by_name[row.sample], by_name[row.sample].form, (row.change,))
        for number, row in enumerate(rows)
    ]
    for ended in run_all((case.job for case in cases), processes):
        row, case = rows[ended.number], cases[ended.number]
        verdict = judge(ended, case.names)
        missing = [word for word in row.words if word not in ended.err]
        if ended.code != row.code or missing or verdict.failed:
            wanted = f"exit code {row.code} with {', '.join(row.words) or 'any words'}"
            yield f"{case}: {ended.code} instead of {wanted}; {verdict.failure} {verdict.place}: {ended.err[-300:]}"


def _place(text: str) -> tuple[int | str, ...]:
    return tuple(int(step) if step.isdecimal() else step for step in text.split("/")) if text else ()


def _value(text: str) -> Any:
    return json.loads(text) if text else None

"""Draws cases, runs them, shrinks failures and groups them by place."""

from __future__ import annotations

import os
import random
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.robustness.forks import Ended, ForkedCommand, run_all
from benchmarks.robustness.lines import Bytes
from benchmarks.robustness.samples import Sample
from benchmarks.robustness.values import Change, Form
from benchmarks.robustness.verdicts import ABOVE, Verdict, judge
from inputs.given import printable, shown

MOST_CHANGES = 3
"""Largest number of mutations of a case."""
AS_BYTES = 0.15
"""Fraction of cases that mutate a structured file as bytes."""
SHRUNK_CASES = 3
"""Cases of a group of failures that are tried with fewer mutations."""


@dataclass(frozen=True, slots=True)
class MutatedFile:
    """A mutated file.

    Attributes:
        number: number of the case; with the seed it determines the mutations.
        form: form that is mutated, that of the sample or bytes.
    """

    number: int
    sample: Sample
    form: Form
    changes: tuple[Change, ...]

    def __str__(self) -> str:
        """The sample and its mutations."""
        return f"{self.sample.name}: {'; '.join(map(str, self.changes))}"

    @property
    def data(self) -> bytes:
        """Bytes of the mutated file."""
        content = self.form.read((self.sample.folder / self.sample.file).read_bytes())
        for change in self.changes:
            content = self.form.change(content, change)
        return self.form.write(content)

    @property
    def names(self) -> list[str]:
        """Names that a message may have: the file, or the arguments of a command line as messages show them."""
        if self.sample.arguments:
            return [self.sample.file.rpartition("/")[2]]
        return [printable(shown(argument)) or "given ''" for argument in self.sample.command(self.data)]

    @property
    def job(self) -> ForkedCommand:
        """The command on the mutated file."""
        data = self.data
        return ForkedCommand(self.number, self.sample.folder, self.sample.file, data, self.sample.command(data))


@dataclass(frozen=True, slots=True)
class Failure:
    """Failures with the same verdict and place.

    Attributes:
        case: the case with the fewest mutations.
        count: number of cases.
    """

    verdict: Verdict
    case: MutatedFile
    count: int


@dataclass(frozen=True, slots=True)
class Study:
    """Verdicts on all cases.

    Attributes:
        counts: number of cases by failure, ``accepted`` and ``refused well``.
        by_kind: the same for each kind of file.
        cpu_s: CPU time of all commands, seconds.
        failures: groups of failures, the most frequent first.
    """

    counts: Mapping[str, int]
    by_kind: Mapping[str, Mapping[str, int]]
    cpu_s: float
    failures: Sequence[Failure]


def draw_cases(samples: Sequence[Sample], count: int, seed: int) -> Iterator[MutatedFile]:
    """Cases of all kinds in turn; a case depends on the seed and its number only."""
    kinds: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        kinds[sample.kind].append(sample)
    names = sorted(kinds)
    for number in range(count):
        yield draw_case(kinds[names[number % len(names)]], number, seed)


def draw_case(samples: Sequence[Sample], number: int, seed: int) -> MutatedFile:
    """One case of a kind of file."""
    draw = random.Random(f"{seed}/{number}")  # noqa: S311 - no secret
    sample = draw.choice(samples)
    unpack, pack = getattr(sample.form, "unpack", bytes), getattr(sample.form, "pack", bytes)
    text = bool(sample.arguments) and draw.random() < AS_BYTES
    form: Form = Bytes(unpack, pack) if text else sample.form
    content: Any = form.read((sample.folder / sample.file).read_bytes())
    changes = []
    for _ in range(draw.randint(1, MOST_CHANGES)):
        changes.append(form.draw(content, draw))
        content = form.change(content, changes[-1])
    return MutatedFile(number, sample, form, tuple(changes))


def refused_samples(samples: Sequence[Sample], processes: int = 0) -> list[str]:
    """Samples that are refused without any mutation, with their messages: cases of them would say nothing."""
    cases = [MutatedFile(number, sample, sample.form, ()) for number, sample in enumerate(samples)]
    ends = _run(cases, processes or os.cpu_count() or 1)
    return [
        f"{case.sample.name}: {ended.err}"
        for case, ended in ends
        if ended.code not in (0, ABOVE) or judge(ended, case.names).failed
    ]


def examine(cases: Iterable[MutatedFile], processes: int = 0) -> Study:
    """Run cases, judge them, shrink and group failures.

    Args:
        processes: number of commands at a time; 0: one per core.
    """
    processes = processes or os.cpu_count() or 1
    counts, by_kind = Counter[str](), defaultdict[str, Counter[str]](Counter)
    groups: dict[tuple[str, str], list[tuple[MutatedFile, Verdict]]] = defaultdict(list)
    cpu_s = 0.0
    for case, ended in _run(cases, processes):
        verdict = judge(ended, case.names)
        counts[verdict.failure] += 1
        by_kind[case.sample.kind][verdict.failure] += 1
        cpu_s += ended.cpu_s
        if verdict.failed:
            groups[verdict.failure, verdict.place].append((case, verdict))
    found = [_smallest(group, processes) for group in groups.values()]
    return Study(counts, by_kind, cpu_s, sorted(found, key=lambda failure: -failure.count))


def _run(cases: Iterable[MutatedFile], processes: int) -> Iterator[tuple[MutatedFile, Ended]]:
    """Run cases and yield each with its end."""
    known: dict[int, MutatedFile] = {}

    def jobs() -> Iterator[ForkedCommand]:
        for case in cases:
            known[case.number] = case
            yield case.job

    for ended in run_all(jobs(), processes):
        yield known.pop(ended.number), ended


def _smallest(group: Sequence[tuple[MutatedFile, Verdict]], processes: int) -> Failure:
    """A group's case with the fewest mutations, after some are tried with fewer."""
    best, verdict = min(group, key=lambda entry: len(entry[0].changes))
    for case, _ in sorted(group, key=lambda entry: entry[0].number)[:SHRUNK_CASES]:
        if len(best.changes) > 1:
            best = min(best, _shrunk(case, verdict, processes), key=lambda own: len(own.changes))
    return Failure(verdict, best, len(group))


def _shrunk(case: MutatedFile, verdict: Verdict, processes: int) -> MutatedFile:
    """The case with as few mutations as still give the same failure at the same place."""
    smaller = True
    while smaller and len(case.changes) > 1:
        fewer = [
            replace(case, number=left, changes=case.changes[:left] + case.changes[left + 1 :])
            for left in range(len(case.changes))
        ]
        same = [
            one
            for one, ended in _run(fewer, processes)
            if (own := judge(ended, one.names)).failure == verdict.failure and own.place == verdict.place
        ]
        smaller = bool(same)
        case = replace(min(same, key=lambda one: one.number), number=case.number) if same else case
    return case


def commit() -> str:
    """The commit of this tree, with a mark where files differ from it."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"

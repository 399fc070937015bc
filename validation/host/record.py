"""The measurements of ``calibrate host`` as a file, from which a spec is fitted again on any machine."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from hardware_specs.types import Cluster
from inputs.catalog import shipped_files
from inputs.errors import InputError, nearest_name
from inputs.given import shown
from inputs.typed import typed
from inputs.yaml_lines import Document
from scenarios.resolve import ResolvedScenario, resolve
from validation.host.iteration_parts import TrainedRank
from validation.host.machine import HostFacts
from validation.host.operator_times import TimedRank
from validation.host.ranges import Difference, Duration, Part
from validation.host.record_rows import checked_rows
from validation.host.timed_kernels import Row
from validation.host.usual_times import MAX_STOLEN

SUFFIX = ".record.json.gz"
"""Suffix of record files."""
SCHEMA = 4
"""Version of the file format."""
DIGITS = 6
"""Significant digits of fractions in a file."""
ITERATIONS = 4
"""Iterations that a simulation of a job runs: the first fills the pipeline, the others are alike."""


class _Timed(msgspec.Struct):
    """A `TimedRank` in a file."""

    steps_s: Annotated[list[Duration], msgspec.Meta(min_length=1)]
    groups_s: dict[str, Difference]
    gemms_s: list[Part]


class _Job(msgspec.Struct):
    """A `JobRecord` in a file."""

    scenario: dict[str, Any]
    trained: Annotated[list[TrainedRank], msgspec.Meta(min_length=1)]
    timed: list[_Timed]


class _Record(msgspec.Struct):
    """A `HostRecord` in a file; rows and jobs are checked one by one."""

    facts: HostFacts
    rows: list[Any]
    jobs: list[Any]


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job that was trained.

    Attributes:
        scenario: its scenario with its plan, without a machine.
        trained: measured iterations of each rank.
        timed: operator times of each rank; empty for ranks that share cores in old records.
        file: the record that it is from, for messages; None: it was trained now.
    """

    scenario: Mapping[str, Any]
    trained: Sequence[TrainedRank]
    timed: Sequence[TimedRank]
    file: Path | None = None

    @staticmethod
    def from_dict(found: Mapping[str, Any], file: Path | None = None, key: str = "job") -> JobRecord:
        """The job whose `to_dict` is given.

        Args:
            file: its file, for messages.
            key: its place in the file.

        Raises:
            InputError: it lacks a key, or a value is of another type or out of its range.
        """
        words = typed(found, _Job, file or Path("a trained job"), key)
        if len(words.timed) not in (0, len(words.trained)):
            given, expected = f"{len(words.timed)} ranks", f"the {len(words.trained)} of trained, or none"
            raise InputError("another length", file=file, key=f"{key}.timed", given=given, expected=expected)
        timed = [TimedRank(np.array(of.steps_s), of.groups_s, np.array(of.gemms_s)) for of in words.timed]
        return JobRecord(words.scenario, words.trained, timed, file)

    def to_dict(self) -> dict[str, Any]:
        """The job as JSON values with `DIGITS` digits."""
        ranks = {"trained": [*map(asdict, self.trained)], "timed": [*map(asdict, self.timed)]}
        found: dict[str, Any] = rounded({"scenario": self.scenario, **ranks})
        return found

    @property
    def stolen(self) -> float:
        """Fraction of its cores' time that a hypervisor took, the mean over ranks."""
        return float(np.mean([rank.stolen for rank in self.trained]))

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.trained)

    def on(self, machine: Cluster) -> ResolvedScenario:
        """Its scenario on a machine.

        Raises:
            InputError: the machine cannot run it.
        """
        data = {**self.scenario, "cluster": machine.to_dict(), "run": {"iterations": ITERATIONS}}
        return resolve(Document(data, {}, self.file or Path(str(self.scenario.get("name")))))


def undisturbed(jobs: Sequence[JobRecord]) -> list[JobRecord]:
    """Jobs of one number of ranks from which a hypervisor took at most `MAX_STOLEN`, or the less disturbed half."""
    limit = max(MAX_STOLEN, float(np.median([job.stolen for job in jobs])) if jobs else 0.0)
    return [job for job in jobs if job.stolen <= limit]


@dataclass(frozen=True, slots=True)
class HostRecord:
    """A host and the measurements on it.

    Attributes:
        rows: kernels and collectives timed alone.
        jobs: jobs that were trained.
    """

    facts: HostFacts
    rows: Sequence[Row]
    jobs: Sequence[JobRecord]

    def joined(self, other: HostRecord, name: str) -> HostRecord:
        """This record and another one of the same machine; its source names both.

        Args:
            name: file of the other record, for errors.

        Raises:
            InputError: it is a record of another machine.
        """
        for what in ("cpu", "cores"):
            here, there = getattr(self.facts, what), getattr(other.facts, what)
            if here != there:
                raise InputError(f"a record of another machine: its {what}", file=name, given=there, expected=str(here))
        sources = dict.fromkeys([*self.facts.source.split("; "), *other.facts.source.split("; ")])
        facts = replace(self.facts, source="; ".join(sources))
        return HostRecord(facts, [*self.rows, *other.rows], [*self.jobs, *other.jobs])

    def packed(self) -> bytes:
        """Content of its file: compressed JSON, the same bytes for the same record."""
        jobs = [job.to_dict() for job in self.jobs]
        return packed({"schema": SCHEMA, "facts": asdict(self.facts), "rows": list(self.rows), "jobs": jobs})

    @staticmethod
    def read(name_or_path: str) -> HostRecord:
        """The record of a shipped host by its name, or of a file.

        Raises:
            InputError: the file does not exist, or is not a record.
        """
        shipped = shipped_files("validation", "hosts", SUFFIX)
        file = shipped.get(name_or_path, Path(name_or_path))
        try:
            content = file.read_bytes()
        except OSError as error:
            raise InputError(
                f"cannot be read: {error.strerror}",
                file="--record",
                given=name_or_path,
                expected=f"a file NAME{SUFFIX}, or one of {', '.join(sorted(shipped))}",
                nearest=nearest_name(name_or_path, shipped),
            ) from None
        return HostRecord.unpacked(content, file)

    @staticmethod
    def unpacked(content: bytes, file: Path) -> HostRecord:
        """The record whose `packed` content is given.

        Args:
            file: its path, for errors.

        Raises:
            InputError: the content is not a record.
        """
        found = typed(unpacked(content, SCHEMA, file), _Record, file)
        jobs = [JobRecord.from_dict(job, file, f"jobs[{number}]") for number, job in enumerate(found.jobs)]
        return HostRecord(found.facts, checked_rows(found.rows, file), jobs)


def packed(content: Mapping[str, Any]) -> bytes:
    """Content of a record file: compressed JSON with `DIGITS` digits, the same bytes for the same content."""
    return gzip.compress(json.dumps(rounded(content), separators=(",", ":")).encode(), mtime=0)


def unpacked(content: bytes, schema: object, file: Path) -> dict[str, Any]:
    """The object that `packed` stored.

    Args:
        schema: expected version of the format.
        file: its path, for errors.

    Raises:
        InputError: the content is not such a file.
    """
    try:
        found = json.loads(gzip.decompress(content))
        given = found["schema"]
    except (OSError, EOFError, ValueError, KeyError, TypeError, RecursionError, zlib.error):
        expected = f"a file NAME{SUFFIX} that `dlrmsim calibrate host` wrote beside NAME.yaml"
        raise InputError("not a record of a calibration", file=file, expected=expected) from None
    if given != schema:
        raise InputError("another format", file=file, key="schema", given=shown(given), expected=str(schema))
    return dict(found)


def rounded(value: Any) -> Any:
    """Lists and mappings with all fractions to `DIGITS` significant digits, arrays as lists."""
    if isinstance(value, np.ndarray):
        return rounded(value.tolist())
    if isinstance(value, float):
        return value if value.is_integer() else float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {name: rounded(of) for name, of in value.items()}
    return [rounded(of) for of in value] if isinstance(value, list | tuple) else value

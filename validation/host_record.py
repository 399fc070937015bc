"""What ``calibrate host`` measures, and a file of it: a spec can be fitted anew anywhere, and when models change."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hardware_specs.types import Cluster
from inputs.catalog import shipped_files
from inputs.errors import InputError, nearest_name
from inputs.yaml_lines import Document
from scenarios.resolve import ResolvedScenario, resolve
from simulator.lowered import OTHER_PERIOD, STALL_PERIOD
from simulator.operators import FloatArray
from validation.cpu_fit import Row
from validation.host_fit import HostFacts
from validation.in_situ import TrainedRank
from validation.over_cores import apart_s, part_over_cores
from validation.timed import TimedRank
from validation.yardstick import MOST_STOLEN

SUFFIX = ".record.json.gz"
"""Ends the names of such files."""
SCHEMA = 3
"""Of the files: another one is another format."""
DIGITS = 6
"""Of each fraction."""
COLUMNS = ("seconds", "collectives_s", "calls_s", "core")
"""Of iterations: their times, what own threads were in collectives, the part of that in calls, on which core."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job that was trained.

    Attributes:
        scenario: what it was, with its plan, without a machine.
        trained: what each rank recorded.
        timed: each rank's traced iterations; none of ranks that take turns in records from before they were traced.
        apart_s: how far the work of a rank is from the mean of all in an iteration (`validation.over_cores.apart_s`);
            None in records from before it was told.
        iterations: `COLUMNS` of those that count ``[iterations, ranks]``; None in records from before they were kept.
    """

    scenario: Mapping[str, Any]
    trained: Sequence[TrainedRank]
    timed: Sequence[TimedRank]
    apart_s: float | None = None
    iterations: Mapping[str, FloatArray] | None = None

    @staticmethod
    def of(
        scenario: Mapping[str, Any],
        trained: Sequence[TrainedRank],
        timed: Sequence[TimedRank],
        iterations: Mapping[str, FloatArray],
    ) -> JobRecord:
        """The record of a job, with what its iterations tell of collectives, and of how far ranks are apart.

        Args:
            scenario: what it was, without a machine.
            trained: what each rank recorded beside that.
            timed: each rank's traced iterations.
            iterations: those that count.
        """
        seconds, collectives_s, calls_s = (iterations[name] for name in COLUMNS[:-1])
        cores = iterations[COLUMNS[-1]].astype(np.int64)
        told = [
            replace(
                rank,
                collectives_s=part_over_cores(collectives_s[:, number], seconds[:, number], cores[:, number]),
                calls_s=part_over_cores(calls_s[:, number], seconds[:, number], cores[:, number]),
            )
            for number, rank in enumerate(trained)
        ]
        return JobRecord(scenario, told, timed, apart_s(seconds, collectives_s, cores[:, 0]), iterations)

    @property
    def stolen(self) -> float:
        """Share of its cores' time that the host of a virtual machine took."""
        return float(np.mean([rank.stolen for rank in self.trained]))

    @property
    def ranks(self) -> int:
        """Ranks that trained it."""
        return len(self.trained)

    def on(self, machine: Cluster) -> ResolvedScenario:
        """Its scenario on a machine.

        Raises:
            InputError: the machine cannot run it.
        """
        cores = int(machine.node.cpu.cores.value * machine.node.sockets.value)
        iterations = 1 + (STALL_PERIOD if self.ranks <= cores else OTHER_PERIOD)  # the first one fills the pipeline
        data = {**self.scenario, "cluster": machine.to_dict(), "run": {"iterations": iterations}}
        return resolve(Document(data, {}, Path(str(self.scenario.get("name")))))


def undisturbed(jobs: Sequence[JobRecord]) -> list[JobRecord]:
    """Jobs of which the host took no more than `MOST_STOLEN`; half of them, the least disturbed, where they are fewer.

    Args:
        jobs: of one number of ranks.
    """
    limit = max(MOST_STOLEN, float(np.median([job.stolen for job in jobs])) if jobs else 0.0)
    return [job for job in jobs if job.stolen <= limit]


@dataclass(frozen=True, slots=True)
class HostRecord:
    """A machine and what was measured on it.

    Attributes:
        facts: of the machine.
        turn_s: how long one of two busy processes works before the other does; 0 where no ranks took turns.
        rows: kernels and collectives alone.
        jobs: those trained.
    """

    facts: HostFacts
    turn_s: float
    rows: Sequence[Row]
    jobs: Sequence[JobRecord]

    def and_also(self, other: HostRecord, name: str) -> HostRecord:
        """This and what was measured on the same machine at another time; its source tells both.

        Args:
            other: its record.
            name: what it was called, for errors.

        Raises:
            InputError: it is of another machine.
        """
        for what in ("cpu", "cores"):
            here, there = getattr(self.facts, what), getattr(other.facts, what)
            if here != there:
                raise InputError(f"of another machine: its {what}", file=name, given=there, expected=str(here))
        told = dict.fromkeys([*self.facts.source.split("; "), *other.facts.source.split("; ")])
        jobs = np.array([len(self.jobs), len(other.jobs)])
        turn_s = float(np.average([self.turn_s, other.turn_s], weights=jobs if jobs.any() else None))
        facts = replace(self.facts, source="; ".join(told))
        return HostRecord(facts, turn_s, [*self.rows, *other.rows], [*self.jobs, *other.jobs])

    def packed(self) -> bytes:
        """The file of it: compressed JSON, the same for the same record."""
        content = {
            "schema": SCHEMA,
            "facts": asdict(self.facts),
            "turn_s": self.turn_s,
            "rows": list(self.rows),
            "jobs": [
                {
                    "scenario": job.scenario,
                    "trained": [asdict(rank) for rank in job.trained],
                    "timed": [asdict(rank) for rank in job.timed],
                    "apart_s": job.apart_s,
                    "iterations": job.iterations,
                }
                for job in self.jobs
            ],
        }
        return packed(content)

    @staticmethod
    def read(name_or_path: str) -> HostRecord:
        """The record of a shipped cluster by its name, or of a file.

        Raises:
            InputError: there is none, or it is none.
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
        """The record that `packed` made ``content`` of.

        Args:
            content: of the file.
            file: its name, for errors.

        Raises:
            InputError: it is no such file.
        """
        with unpacking(content, SCHEMA, file) as found:
            jobs = [_job(job) for job in found["jobs"]]
            return HostRecord(HostFacts(**found["facts"]), found["turn_s"], found["rows"], jobs)


def packed(content: Mapping[str, Any]) -> bytes:
    """A file of a record: compressed JSON, fractions to `DIGITS` digits; the same for the same content."""
    return gzip.compress(json.dumps(rounded(content), separators=(",", ":")).encode(), mtime=0)


@contextmanager
def unpacking(content: bytes, schema: object, file: Path) -> Iterator[dict[str, Any]]:
    """What `packed` was given, for a block that makes a record of it.

    Args:
        content: of the file.
        schema: of such records.
        file: its name, for errors.

    Raises:
        InputError: it is no such file, as the block may find, too.
    """
    try:
        found = json.loads(gzip.decompress(content))
        if found["schema"] != schema:
            raise InputError("another format", file=file, key="schema", given=found["schema"], expected=str(schema))
        yield found
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        expected = f"a file NAME{SUFFIX} that `dlrmsim calibrate host` wrote beside NAME.yaml"
        raise InputError("no record of a calibration", file=file, expected=expected) from None


def _job(found: Mapping[str, Any]) -> JobRecord:
    """A job of a file; whatever iterations tell is told anew."""
    trained = [TrainedRank(**rank) for rank in found["trained"]]
    timed = [
        TimedRank(**rank | {name: np.array(rank[name]) for name in ("steps_s", "gemms_s")}) for rank in found["timed"]
    ]
    iterations = found.get("iterations")
    if iterations is None:
        return JobRecord(found["scenario"], trained, timed, found.get("apart_s"))
    return JobRecord.of(found["scenario"], trained, timed, {name: np.array(iterations[name]) for name in COLUMNS})


def rounded(value: Any) -> Any:
    """Lists and mappings with all fractions to `DIGITS` digits, arrays as lists."""
    if isinstance(value, np.ndarray):
        return rounded(value.tolist())
    if isinstance(value, float):
        return value if value.is_integer() else float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {name: rounded(of) for name, of in value.items()}
    return [rounded(of) for of in value] if isinstance(value, list | tuple) else value

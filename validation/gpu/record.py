"""The measurements of ``calibrate host --device cuda`` and their file, from which a spec can be fitted anywhere."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import msgspec

from hardware_specs.loader import read_cluster
from hardware_specs.types import Cluster
from inputs.typed import typed
from inputs.yaml_lines import Document
from scenarios.resolve import ResolvedScenario, resolve
from validation.host.ranges import Duration, Text
from validation.host.record import packed, unpacked
from validation.host.record_rows import checked_rows
from validation.host.timed_kernels import Row

SCHEMA = "gpus 1"
"""Version of the file format."""


@dataclass(frozen=True, slots=True)
class GpuJob:
    """A job that was trained.

    Attributes:
        scenario: its scenario, with its plan, without a machine.
        iteration_s: its usual iteration.
        file: the record that it is from, for messages; None: it was trained now.
    """

    scenario: dict[str, Any]
    iteration_s: Duration
    file: Path | None = field(default=None, compare=False)

    def on(self, machine: Cluster) -> ResolvedScenario:
        """Its scenario on a machine.

        Raises:
            InputError: the machine cannot run it.
        """
        data = {**self.scenario, "cluster": machine.to_dict()}
        return resolve(Document(data, {}, self.file or Path(str(self.scenario.get("name")))))


@dataclass(frozen=True, slots=True)
class GpuRecord:
    """A machine's GPUs and the measurements on them.

    Attributes:
        device: name that the driver gives.
        start: the cluster that counts for all that is not measured.
        source: method and date of the measurement.
        rows: kernels and collectives alone (`trainer.bench.microbench`).
    """

    device: str
    start: Cluster
    source: str
    rows: Sequence[Row]
    jobs: Sequence[GpuJob]

    def packed(self) -> bytes:
        """The file of it: compressed JSON, the same for the same record."""
        values = {own.name: getattr(self, own.name) for own in fields(self)}
        jobs = [{"scenario": job.scenario, "iteration_s": job.iteration_s} for job in self.jobs]
        content = {"schema": SCHEMA, **values, "start": self.start.to_dict(), "jobs": jobs}
        return packed(content)

    @staticmethod
    def read(file: Path) -> GpuRecord | None:
        """The record in a file; None where it is none of GPUs.

        Raises:
            InputError: it is one that this version does not know.
        """
        try:
            content = file.read_bytes()
            schema = str(json.loads(gzip.decompress(content))["schema"])
        except (OSError, EOFError, ValueError, KeyError, TypeError, RecursionError, zlib.error):
            return None
        return GpuRecord.unpacked(content, file) if schema.startswith("gpus") else None

    @staticmethod
    def unpacked(content: bytes, file: Path) -> GpuRecord:
        """The record that `packed` made ``content`` of.

        Args:
            file: its name, for errors.

        Raises:
            InputError: it is no such file, or one that this version does not know.
        """
        found = typed(unpacked(content, SCHEMA, file), _Record, file)
        start = read_cluster(Document({"start": found.start}, {}, file), ("start",))
        jobs = [GpuJob(job.scenario, job.iteration_s, file) for job in found.jobs]
        return GpuRecord(found.device, start, found.source, checked_rows(found.rows, file, on_gpu=True), jobs)


class _Job(msgspec.Struct):
    """A `GpuJob` in a file."""

    scenario: dict[str, Any]
    iteration_s: Duration


class _Record(msgspec.Struct):
    """A `GpuRecord` in a file; rows are checked one by one."""

    device: Text
    start: dict[str, Any]
    source: Text
    rows: list[Any]
    jobs: list[_Job]

"""The folder of a captured job: the job, and a scenario that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from dlrmsim.output.folders import folder_written_whole
from dlrmsim.output.record import write_record
from workloads.captured.job_file import JOB_FILE, write_job
from workloads.captured.records import RecordedJob

__all__ = ["JOB_FILE", "SCENARIO_FILE", "write_captured_job"]

SCENARIO_FILE = "scenario.yaml"
"""Name of the scenario in a job's folder."""


def scenario_of(name: str, world_size: int, cluster: str, model: Any, keys: Mapping[str, str]) -> dict[str, Any]:
    """A scenario of a captured job.

    Args:
        model: value of ``workload.model``.
        keys: further keys of its section ``workload``.
    """
    return {
        "schema": 1,
        "name": name,
        "cluster": cluster,
        "world_size": world_size,
        "workload": {"kind": "captured", "model": model, **keys},
    }


def write_captured_job(folder: Path, job: RecordedJob, cluster: str, keys: Mapping[str, str]) -> None:
    """Write a job and its scenario into a folder, whole or not at all.

    Args:
        cluster: cluster of the scenario.
        keys: further keys of its section ``workload``.

    Raises:
        InputError: the folder may not be written, or the job contradicts itself.
    """
    with folder_written_whole(folder) as partial:
        write_job(job, partial / JOB_FILE)
        (partial / SCENARIO_FILE).write_text(_scenario(job, cluster, keys), encoding="utf-8")
        write_record(partial, {"captured": job.source, "torch": job.torch})


def _scenario(job: RecordedJob, cluster: str, keys: Mapping[str, str]) -> str:
    """A scenario as YAML."""
    head = f"# A step of {job.source}, captured with PyTorch {job.torch}. Try: dlrmsim run THIS_FOLDER\n"
    scenario = scenario_of(job.name, job.world_size, cluster, f"./{JOB_FILE}", keys)
    if job.tf32:
        scenario["precision"] = {"dense": "tf32"}
    return head + yaml.safe_dump(scenario, sort_keys=False, allow_unicode=True, width=120)

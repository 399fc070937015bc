"""Options of ``capture`` checked as keys of the scenario that it will write, before anything is captured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from dlrmsim.output.captured_job import SCENARIO_FILE, scenario_of
from hardware_specs.catalogs import CATALOGS
from inputs.keys import KeyPath
from inputs.yaml_lines import Document
from scenarios.resolve import resolve
from workloads.captured.job_file import packed
from workloads.captured.records import MemoryPeak, Moved, RankProgram, RecordedJob, RecordedTask


def checked_cluster(cluster: str, world_size: int, keys: Mapping[str, str]) -> str:
    """The cluster as a scenario in any folder names it: its name, or its absolute path.

    Args:
        keys: keys of the section ``workload``, which are checked with it.

    Raises:
        InputError: the cluster or a key is wrong, or the cluster has too few GPUs.
    """
    job = _smallest(world_size)
    values = scenario_of("job", world_size, cluster, {"name": "job", "title": "job", "job": packed(job)}, keys)
    given: dict[KeyPath, str] = {("cluster",): f"--cluster {cluster}", ("world_size",): f"--world-size {world_size}"}
    given |= {("workload", key): f"--{key} {value}" for key, value in keys.items()}
    resolve(Document(cast("dict[str, object]", values), {}, Path(SCENARIO_FILE), given))
    known = CATALOGS["cluster"].find(cluster)
    return cluster if known.stem == cluster else str(known.absolute())


def _smallest(world_size: int) -> RecordedJob:
    """A job with one kernel on each rank."""
    program = RankProgram(
        ranks=tuple(range(world_size)),
        captured=(0,),
        streams=("default",),
        tasks=(RecordedTask(operator=0, work=0, module=0, section=0, stream=0),),
        memory=MemoryPeak(peak={}, task=0, module="", tasks=(0,), bytes={}),
    )
    return RecordedJob(
        name="job",
        source="FILE.py:FUNCTION",
        torch="",
        world_size=world_size,
        samples_per_rank=1,
        communicators={},
        operators=("aten.add",),
        modules=("",),
        sections=("forward",),
        works=(Moved(read_bytes=4.0, write_bytes=4.0),),
        programs=(program,),
    )

"""Jobs that a calibration trains."""

from dataclasses import astuple, replace

import yaml

from dlrmsim.hosts.training import LARGER, LIMITS, LONGER, drawn_jobs
from hardware_specs import load_cluster
from trainer.bench.series import SCENARIO
from validation.host.random_jobs import DIMS, Limits


def test_dims_take_turns_and_the_first_job_is_overhead(tmp_path):
    jobs = drawn_jobs(2, 0, 1 + len(DIMS), load_cluster("zen5_2_cores"), tmp_path / "jobs")
    models = [yaml.safe_load((folder / SCENARIO).read_text(encoding="utf-8")) for folder in jobs]
    tables = [model["workload"]["model"]["tables"]["value"] for model in models]
    dims = [of_job[0]["dim"] for of_job in tables[1:]]
    assert sorted(dims) == sorted(DIMS)
    sizes = [sum(4 * table["rows"] * table["dim"] for table in of_job) for of_job in tables]
    assert max(sizes) <= LIMITS.table_bytes
    assert sizes[0] == min(sizes)


def test_every_third_job_is_larger_where_there_is_time(tmp_path, monkeypatch):
    """By turns it gathers or multiplies more, and has larger tables; the eighth of these gathers or multiplies most."""
    monkeypatch.setattr("dlrmsim.hosts.training.physical_memory_bytes", lambda: 64e9)
    jobs = drawn_jobs(2, 5, 26, load_cluster("zen5_2_cores"), tmp_path / "jobs", larger=True)
    drawn = [yaml.safe_load((folder / SCENARIO).read_text(encoding="utf-8")) for folder in jobs]
    large = [number for number, job in enumerate(drawn[1:], start=1) if not LIMITS.allow(job)]
    assert large == [*range(3, 26, 3)]
    works, tables = replace(LIMITS, table_bytes=LARGER * LIMITS.table_bytes), Limits(LIMITS.table_bytes)
    assert [works.allow(drawn[number]) for number in (3, 9, 15, 21)] == [False] * 4
    assert [tables.allow(drawn[number]) for number in (6, 12, 18)] == [False] * 3
    beyond = Limits(*(LARGER * limit for limit in astuple(LIMITS)))
    assert [number for number, job in enumerate(drawn) if number and not beyond.allow(job)] == [24]
    longest = Limits(beyond.table_bytes, LONGER * LIMITS.gathered_bytes, LONGER * LIMITS.flops)
    assert longest.allow(drawn[24])

"""Record files of a host."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hardware_specs.loader import load_cluster
from inputs.errors import InputError
from scenarios.family import FAMILIES, default_of
from validation.host.record import HostRecord, rounded, undisturbed
from validation.host.usual_times import MAX_STOLEN

FILE = Path("here.record.json.gz")
SHIPPED = "zen5_2_cores"


@pytest.fixture(scope="module")
def shipped():
    return HostRecord.read(SHIPPED)


def test_what_is_packed_is_unpacked(shipped):
    packed = shipped.packed()
    again = HostRecord.unpacked(packed, FILE)
    assert again.packed() == packed
    assert again.facts == shipped.facts
    assert again.rows == shipped.rows
    assert [job.trained for job in again.jobs] == [job.trained for job in shipped.jobs]
    assert again.jobs[-1].scenario == shipped.jobs[-1].scenario


def test_the_shipped_spec_is_fitted_to_its_record(shipped):
    for known in load_cluster(SHIPPED).node.cpu.kernels:
        assert known.source == shipped.facts.source
        jobs = undisturbed([job for job in shipped.jobs if job.ranks == 2 // known.threads])
        yardstick_s = np.median([rank.yardstick_s for job in jobs for rank in job.trained])
        assert known.yardstick_s == pytest.approx(yardstick_s, rel=1e-3)


def without_new_keys(section, recorded):
    """The section without keys that the record does not have and that are at their defaults."""
    family = FAMILIES.get("dlrm")
    return {key: item for key, item in section.items() if key in recorded or item != default_of(family, key)}


def without_new_fields(value, recorded):
    """The value without optional fields that the record, written by an older version, does not have."""
    if isinstance(value, list) and isinstance(recorded, list) and len(value) == len(recorded):
        return [without_new_fields(item, known) for item, known in zip(value, recorded, strict=True)]
    if not (isinstance(value, dict) and isinstance(recorded, dict)):
        return value
    return {
        key: without_new_fields(item, recorded.get(key))
        for key, item in value.items()
        if key in recorded or item is not None
    }


def test_a_job_runs_on_any_machine_of_its_size(shipped):
    job = next(job for job in shipped.jobs if job.ranks == 2)
    resolved = job.on(load_cluster(SHIPPED))
    assert resolved.world_size == 2
    recorded = job.scenario["workload"]
    assert without_new_fields(without_new_keys(rounded(resolved.to_dict())["workload"], recorded), recorded) == recorded


def test_only_ranks_with_cores_of_their_own_have_operator_times(shipped):
    assert {job.ranks for job in shipped.jobs} == {1, 2, 4}
    assert all(len(job.timed) == (job.ranks if job.ranks < 4 else 0) for job in shipped.jobs)


def stolen_from(job, share):
    return replace(job, trained=[replace(rank, stolen=share) for rank in job.trained])


@pytest.mark.parametrize(
    ("stolen", "left"),
    [
        ([], []),
        ([0.0, 0.5, MAX_STOLEN], [0.0, MAX_STOLEN]),
        ([0.3, 0.1, 0.2, 0.4, 0.5], [0.3, 0.1, 0.2]),
        ([0.3, 0.1], [0.1]),
    ],
)
def test_disturbed_jobs_are_left_out_unless_they_are_the_majority(shipped, stolen, left):
    jobs = [stolen_from(shipped.jobs[0], share) for share in stolen]
    assert [job.stolen for job in undisturbed(jobs)] == left


def test_a_joined_record_has_all_jobs_and_each_source_once(shipped):
    later = replace(shipped, facts=replace(shipped.facts, source="the day after"))
    joined = shipped.joined(later, "later")
    assert joined.jobs == [*shipped.jobs, *shipped.jobs]
    assert joined.facts.source == f"{shipped.facts.source}; the day after"
    assert joined.joined(later, "later").facts == joined.facts


def test_records_of_two_machines_are_not_joined(shipped):
    other = replace(shipped, facts=replace(shipped.facts, cores=4))
    with pytest.raises(InputError, match=r"other: a record of another machine: its cores.*4.*2"):
        shipped.joined(other, "other")


def test_numbers_have_six_digits():
    assert rounded({"a": [1.23456789, 123456789.0, np.array([0.1 + 0.2])]}) == {"a": [1.23457, 123456789.0, [0.3]]}


@pytest.mark.parametrize(
    "content",
    [b"", b"plain", gzip.compress(b"[]"), gzip.compress(b"{}"), gzip.compress(b"{")],
    ids=["empty", "plain", "list", "no schema", "cut"],
)
def test_other_files_are_refused(content):
    with pytest.raises(InputError, match="not a record of a calibration"):
        HostRecord.unpacked(content, FILE)


def test_a_missing_part_is_named():
    with pytest.raises(InputError, match="the key facts is missing"):
        HostRecord.unpacked(gzip.compress(b'{"schema": 4}'), FILE)


def test_other_formats_are_refused():
    with pytest.raises(InputError, match="another format"):
        HostRecord.unpacked(gzip.compress(json.dumps({"schema": 3}).encode()), FILE)


def test_an_unknown_name_is_refused_with_the_nearest_one():
    with pytest.raises(InputError, match="zen5_2_cores"):
        HostRecord.read("zen5_2_core")

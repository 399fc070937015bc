"""The file of what was measured on a machine, of which its spec can be made anew."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hardware_specs.cpu_kernels import Followed
from hardware_specs.loader import load_cluster
from inputs.errors import InputError
from scenarios.prepare import prepare
from scenarios.progress import Silent
from validation.host_calibration import followed_of, trained_jobs
from validation.host_fit import issue_byte_s, issue_s
from validation.host_iterations import thread_ratios
from validation.host_record import HostRecord, JobRecord, rounded, undisturbed
from validation.host_waits import MOST_HALVED
from validation.in_situ import TrainedRank, copied_in, issued_in
from validation.measured_prediction import predict_thread_s
from validation.yardstick import MOST_STOLEN, PIECES

FILE = Path("here.record.json.gz")


SHIPPED = ("xeon_2_cores", "zen4_2_cores", "zen5_2_cores", "emerald_2_cores", "granite_2_cores")


@pytest.fixture(scope="module")
def shipped():
    return HostRecord.read(SHIPPED[0])


def test_what_is_packed_is_unpacked(shipped):
    packed = shipped.packed()
    again = HostRecord.unpacked(packed, FILE)
    assert again.packed() == packed
    assert again.facts == shipped.facts
    assert again.rows == shipped.rows
    assert [job.trained for job in again.jobs] == [job.trained for job in shipped.jobs]
    assert again.jobs[-1].scenario == shipped.jobs[-1].scenario


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_spec_is_of_its_record(name):
    """Where the machine was measured, when, and how fast its yardstick was in the middle of undisturbed jobs."""
    shipped, cluster = HostRecord.read(name), load_cluster(name)
    for known in cluster.node.cpu.kernels:
        assert known.source == shipped.facts.source
        halved = np.log2(shipped.turn_s / known.turn_s)
        assert halved == pytest.approx(round(halved), abs=np.log2(1.01))
        assert 0 <= round(halved) <= MOST_HALVED
        jobs = undisturbed([job for job in shipped.jobs if job.ranks == 2 // known.threads])
        ranks = [rank for job in jobs for rank in job.trained]
        for piece, seconds in known.yardstick_s.items():
            assert seconds == pytest.approx(np.median([rank.yardstick_s[piece] for rank in ranks]), rel=1e-3)


def test_a_job_runs_on_any_machine_of_its_size(shipped):
    job = next(job for job in shipped.jobs if job.ranks == 2)
    resolved = job.on(load_cluster("zen4_2_cores"))
    assert resolved.cluster.name == "zen4_2_cores"
    assert resolved.world_size == 2
    assert rounded(resolved.to_dict())["workload"] == job.scenario["workload"]


def test_ranks_that_take_turns_have_no_traces(shipped):
    assert {job.ranks for job in shipped.jobs} == {1, 2, 4}
    assert {len(job.timed) for job in shipped.jobs if job.ranks == 4} == {0}
    assert all(len(job.timed) == job.ranks for job in shipped.jobs if job.ranks < 4)


def stolen_from(job, share):
    return replace(job, trained=[replace(rank, stolen=share) for rank in job.trained])


def test_what_was_stolen_is_kept(shipped):
    again = HostRecord.unpacked(replace(shipped, jobs=[stolen_from(shipped.jobs[0], 0.25)]).packed(), FILE)
    assert [job.stolen for job in again.jobs] == [0.25]


@pytest.mark.parametrize(
    ("stolen", "left"),
    [
        ([], []),
        ([0.0, 0.5, MOST_STOLEN], [0.0, MOST_STOLEN]),
        ([0.3, 0.1, 0.2, 0.4, 0.5], [0.3, 0.1, 0.2]),
        ([0.3, 0.1], [0.1]),
    ],
)
def test_jobs_are_left_out_that_the_host_disturbed_unless_they_are_most(shipped, stolen, left):
    jobs = [stolen_from(shipped.jobs[0], share) for share in stolen]
    assert [job.stolen for job in undisturbed(jobs)] == left


def test_records_of_one_machine_are_joined(shipped):
    joined = shipped.and_also(replace(shipped, turn_s=9.0), "other")
    assert joined.jobs == [*shipped.jobs, *shipped.jobs]
    assert len(joined.rows) == 2 * len(shipped.rows)
    assert joined.turn_s == (shipped.turn_s + 9.0) / 2
    assert joined.facts == shipped.facts


def test_a_joined_record_tells_each_source_once(shipped):
    later = replace(shipped, facts=replace(shipped.facts, source="the day after"))
    joined = shipped.and_also(later, "later")
    assert joined.facts.source == f"{shipped.facts.source}; the day after"
    assert joined.and_also(later, "later").facts == joined.facts


def test_records_of_two_machines_are_not_joined(shipped):
    other = replace(shipped, facts=replace(shipped.facts, cores=4))
    with pytest.raises(InputError, match=r"other: of another machine: its cores.*4.*2"):
        shipped.and_also(other, "other")


def test_numbers_have_six_digits():
    """Whole ones have all: bytes, flops."""
    assert rounded({"a": [1.23456789e-3, np.array([2.0 / 3.0, 25276502016.0])], "b": ("text", 10**9, None)}) == {
        "a": [1.23457e-3, [0.666667, 25276502016.0]],
        "b": ["text", 10**9, None],
    }


@pytest.mark.parametrize("content", [b"", b"text"])
def test_a_file_that_is_not_compressed_is_refused(content):
    with pytest.raises(InputError, match="no record of a calibration"):
        HostRecord.unpacked(content, FILE)


@pytest.mark.parametrize("content", ["", "text", "[]", '{"schema": 3}'])
def test_another_file_is_refused(content):
    content = gzip.compress(content.encode())
    with pytest.raises(InputError, match=r"no record of a calibration.*NAME\.record\.json\.gz") as refused:
        HostRecord.unpacked(content, FILE)
    assert "here.record.json.gz" in str(refused.value)


def test_another_format_is_refused(shipped):
    content = json.loads(gzip.decompress(replace(shipped, rows=[], jobs=[]).packed()))
    with pytest.raises(InputError, match="another format"):
        HostRecord.unpacked(gzip.compress(json.dumps({**content, "schema": 1}).encode()), FILE)


def test_a_name_that_does_not_ship_is_told_the_nearest():
    with pytest.raises(InputError, match="xeon_2_cores"):
        HostRecord.read("xeon_2_core")


def test_what_a_rank_wrote_is_read_of_the_iterations_that_count(tmp_path):
    """Medians; what collectives took is told by the iterations of all ranks."""
    columns = {
        "start_s": [0.0, 10.0, 20.0, 30.0],
        "end_s": [9.0, 11.0, 22.0, 34.0],
        "cpu_s": [8.0, 0.5, 1.5, 2.5],
        "process_s": [8.0, 0.75, 2.0, 3.5],
        "collectives_cpu_s": [9.0, 0.01, 0.02, 0.09],
        "core": [0, 0, 0, 0],
    }
    environment = {"stolen_measured": 0.01, "stolen_timed": 0.02}
    written = {"iterations": columns, "yardstick_s": {"copy": [1.0, 2.0, 3.0]}, "environment": environment}
    (tmp_path / "rank3.json").write_text(json.dumps(written), encoding="utf-8")
    found = TrainedRank.read(tmp_path, 3, [1, 2, 3])
    assert found == TrainedRank(
        cpu_s=1.5,
        others_s=0.5,
        wall_s=2.0,
        yardstick_s={"copy": pytest.approx(2.0)},
        stolen=0.02,
        collectives_cpu_s=0.02,
    )


def test_cores_that_a_rank_was_on_by_turns_count_alike(tmp_path):
    """Three iterations of 1 s of CPU time on one core, one of 2 s on the other."""
    of_cores = {"cpu_s": [1.0, 1.0, 1.0, 2.0], "core": [0, 0, 0, 1]}
    others = ("process_s", "end_s", "collectives_cpu_s")
    columns = {"start_s": [0.0] * 4, **dict.fromkeys(others, [4.0] * 4), **of_cores}
    environment = {"stolen_measured": 0.0, "stolen_timed": 0.0}
    written = {"iterations": columns, "yardstick_s": {}, "environment": environment}
    (tmp_path / "rank0.json").write_text(json.dumps(written), encoding="utf-8")
    found = TrainedRank.read(tmp_path, 0, [0, 1, 2, 3])
    assert (found.cpu_s, found.wall_s, found.others_s) == (1.5, 4.0, 2.5)


def test_iterations_tell_what_collectives_took_and_how_far_ranks_were_apart(shipped):
    """Two ranks, two iterations; told again when the file is read, whatever it says of them."""
    iterations = {
        "seconds": np.array([[4.0, 4.0], [6.0, 6.0]]),
        "collectives_s": np.array([[1.0, 2.0], [1.5, 3.0]]),
        "calls_s": np.array([[0.5, 1.0], [0.5, 1.5]]),
        "core": np.array([[0, 1], [0, 1]]),
    }
    some = next(job for job in shipped.jobs if job.ranks == 2)
    job = JobRecord.of(some.scenario, some.trained, some.timed, iterations)
    assert [rank.collectives_s for rank in job.trained] == pytest.approx([1.25, 2.5])
    assert [rank.calls_s for rank in job.trained] == pytest.approx([0.5, 1.25])
    assert job.apart_s == pytest.approx((0.5 + 0.75) / 2)
    told = replace(job, apart_s=9.0, trained=[replace(rank, collectives_s=9.0) for rank in job.trained])
    (again,) = HostRecord.unpacked(replace(shipped, jobs=[told]).packed(), FILE).jobs
    assert (again.trained, again.apart_s) == (job.trained, job.apart_s)
    assert again.iterations is not None
    assert all(np.array_equal(again.iterations[name], iterations[name]) for name in iterations)


def test_what_issuing_a_collective_takes_is_told_by_jobs_that_recorded_it():
    """Without what calls copy. Else by collectives alone."""
    machine, record = load_cluster("zen4_2_cores"), HostRecord.read("zen4_2_cores")
    pieces = dict.fromkeys(PIECES, 0.001)

    def told(job, cpu_s):
        ranks = [replace(rank, collectives_cpu_s=cpu_s, yardstick_s=pieces, stolen=0.0) for rank in job.trained]
        return replace(job, trained=ranks)

    of_two = [(job, prepare(job.on(machine), Silent()).graph.programs[0]) for job in record.jobs if job.ranks == 2]
    copying = next(each for each in of_two if copied_in(each[1]) > 0.0)
    byte_s = issue_byte_s(record.rows)
    assert byte_s > 0.0
    few = [*of_two[:2], copying]
    jobs = [job for job, _ in few]
    tell = [told(job, 2e-4 * issued_in(program) + byte_s * copied_in(program)) for job, program in few]
    assert trained_jobs(replace(record, jobs=tell), machine)[2].issue_s == pytest.approx(2e-4)
    silent = replace(record, jobs=[told(job, None) for job in jobs])
    assert trained_jobs(silent, machine)[2].issue_s == issue_s(record.rows)


def test_how_closely_jobs_go_with_the_yardstick_is_found_again(shipped):
    """Jobs that take the root of what the yardstick tells are told so, and then as if nothing had been slower."""
    machine = load_cluster(SHIPPED[0])
    jobs = [job for job in undisturbed(shipped.jobs) if job.ranks == 2][:12]
    slower = np.exp(np.random.default_rng(5).uniform(-0.3, 0.3, len(jobs)))
    planted = [
        replace(
            job,
            trained=[
                replace(
                    rank,
                    cpu_s=float(by**0.5 * predict_thread_s(job.on(machine))),
                    yardstick_s=dict.fromkeys(PIECES, by * 0.001),
                )
                for rank in job.trained
            ],
        )
        for job, by in zip(jobs, slower.tolist(), strict=True)
    ]
    record = replace(shipped, jobs=planted)
    followed = followed_of(trained_jobs(record, machine)[2], machine)
    assert followed.work == pytest.approx(0.5, abs=0.02)
    told = trained_jobs(record, machine, machine, {2: Followed(0.5, 0.5)})[2].jobs
    ratios = thread_ratios(machine, told)
    assert ratios == pytest.approx(np.full(len(told), ratios.mean()), rel=0.05)

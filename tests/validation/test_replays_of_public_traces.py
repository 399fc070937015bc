"""Replays of public traces: what was measured predicted again, what changes under what-ifs, and bounds."""

from __future__ import annotations

import csv
import functools

import numpy as np
import pytest

from benchmarks.replays import (
    TWO_SWITCHES,
    bound_s,
    bounded,
    collective_seconds,
    ends_us,
    machine,
    makespan_ms,
    serial_ms,
)
from hardware_specs.loader import load_gpu
from inputs.errors import InputError
from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from tests.trace_files import public
from traces.analysis import analyse_trace
from traces.formats import import_traces
from traces.replay import job_of, replayed
from traces.replay.absent import with_late_absent_ranks
from traces.replay.batch import with_local_batch
from traces.replay.gpu import Method, on_gpu
from traces.replay.overlap import with_communication_hidden, without_overlap
from traces.replay.precision import in_precision
from traces.replay.ranks import at_world_size, with_clones

GIB = 2**30


@functools.cache
def imported(*parts):
    return import_traces([file for part in parts for file in public(*part)])


def torchrec():
    return imported(
        ("dlrm_8xV100_torchrec", "dlrm_kineto", "*.gz"), ("dlrm_8xV100_torchrec", "dlrm_pytorch_et", "*.gz")
    )


def a100():
    return imported(("a100_8ranks_rec_rank3", "*.gz"))


def steps_of(found):
    return analyse_trace(found, found.measured).steps


def mean(rows, part):
    return float(np.mean([getattr(row, part) for row in rows]))


@functools.cache
def predicted_torchrec():
    """Host and kernel durations as measured, ends of collectives from arrivals and the network of a DGX-1."""
    return replayed(job_of(torchrec()), machine("dgx1_v100_32", 8))


def test_every_step_of_torchrec_ends_where_it_was_measured_to():
    """Within 3 %; it is 0.02 %: the step is bound by launches and waiting."""
    for own, measured in zip(predicted_torchrec().steps, torchrec().steps, strict=True):
        length = measured.end_ps - measured.start_ps
        assert own.end_ps - own.start_ps == pytest.approx(length, rel=0.03)
        assert abs(own.end_ps - measured.end_ps) < 0.03 * length


def test_collectives_of_torchrec_end_where_they_were_measured_to():
    """Within 50 us in the median of collectives 1 to 7; the first carries the profiler's start."""
    off = np.abs(ends_us(predicted_torchrec()) - ends_us(torchrec()))[1:]
    assert len(off) == 7
    assert np.median(off) < 50
    assert off.max() < 50


@pytest.mark.parametrize("first", [0, 1])
def test_waiting_of_torchrec_is_ranked_as_measured(first):
    def waiting(found):
        return [int(g.waiting_rows_ps[first:].sum()) for g in found.measured.result.records[0].groups]

    assert np.argsort(waiting(predicted_torchrec())).tolist() == np.argsort(waiting(torchrec())).tolist()


def test_a100_as_measured_is_the_ground_truth():
    """Step mean within 3 %, exposed communication within 5 %."""
    (file,) = public("ground_truth_summary.csv")
    with file.open(encoding="utf-8") as stream:
        truth = next(row for row in csv.DictReader(stream) if row["trace"] == "hta/trace_diff_control_8xA100")
    rows = steps_of(replayed(job_of(a100())))
    assert mean(rows, "step_s") * 1e6 == pytest.approx(float(truth["mean_step_us"]), rel=0.03)
    assert mean(rows, "exposed_comm_s") * 1e6 == pytest.approx(float(truth["exposed_comm_us"]), rel=0.05)


def test_a100_with_shortest_transfers_waits_for_the_absent_ranks():
    """The times stay those of the trace; half of the exposed communication turns out to be waiting."""
    rows, before = steps_of(replayed(with_late_absent_ranks(job_of(a100())))), steps_of(a100())
    own = [row for row in rows if row.rank == 3]
    assert len(own) == len(before) == 6
    for after, was in zip(own, before, strict=True):
        for part in ("step_s", "compute_s", "exposed_comm_s", "idle_s"):
            assert getattr(after, part) == pytest.approx(getattr(was, part), abs=1e-9)
    assert mean(before, "exposed_waiting_s") == 0.0
    assert 0.4 < mean(own, "exposed_waiting_s") / mean(own, "exposed_comm_s") < 0.65


def test_half_precision_on_a100_shortens_the_step_by_less_than_communication():
    """What the absent ranks would do with the time stays unknown: two limits."""
    job = job_of(a100())
    as_measured = steps_of(replayed(in_precision(job, {"all_to_all": "fp16"})))
    apart = steps_of(replayed(in_precision(with_late_absent_ranks(job), {"all_to_all": "fp16"})))
    before = steps_of(a100())
    assert mean(as_measured, "exposed_comm_s") < mean(before, "exposed_comm_s")
    assert mean(apart, "exposed_comm_s") < mean(before, "exposed_comm_s")
    for rows in (as_measured, apart):
        shorter = mean(before, "step_s") - mean(rows, "step_s")
        assert 0 <= shorter < mean(before, "exposed_comm_s") - mean(rows, "exposed_comm_s")


def test_a_faster_gpu_makes_the_a100_rank_faster():
    """Its host waits in 17 copies to pageable memory for the GPU: a twelfth of the step, which H100s save (-8.7 %)."""
    job, _ = on_gpu(job_of(a100()), load_gpu("a100_sxm4_40"), load_gpu("h100_sxm5_80"))
    found = replayed(with_clones(job), machine("dgx_h100", 8))
    assert mean(steps_of(found), "step_s") / mean(steps_of(a100()), "step_s") == pytest.approx(0.913, abs=0.005)


def test_clones_take_the_skew_of_the_traced_ranks():
    """Two of eight ranks kept, six clones: each traced rank's program runs on four ranks."""
    job = with_clones(job_of(import_traces(public("dlrm_8xV100_torchrec", "dlrm_kineto", "*.gz"), [1, 7])))
    assert sorted(p.rank_count for p in job.graph.programs) == [4, 4]
    found = replayed(job, machine("dgx1_v100_32", 8))
    assert len(found.steps) == 8
    lengths = {step.rank: step.end_ps - step.start_ps for step in found.steps}
    assert len({lengths[rank] for rank in lengths}) > 1


def test_an_execution_trace_alone_cannot_be_scaled():
    job = job_of(imported(("dlrm_8xV100_torchrec", "dlrm_pytorch_et", "*.gz")))
    with pytest.raises(InputError, match="does not say which tables"):
        at_world_size(job, 16)


@pytest.mark.parametrize(("ranks", "tables"), [(16, 24), (24, 24)])
def test_torchrec_on_more_ranks_deals_its_tables_out_again(ranks, tables):
    """24 sharded tables (three on each of 8 ranks; two more are data-parallel) and a batch of 16 per rank."""
    job = job_of(torchrec())
    scaled = at_world_size(job, ranks)
    assert f"{tables} sharded tables" in scaled.notes[-1]
    found = replayed(scaled, machine("dgx1_v100_32", ranks))
    assert {step.rank for step in found.steps} == set(range(ranks))
    exchanged = [
        np.asarray(w.bytes).sum()
        for program in scaled.graph.programs
        for w in program.work
        if isinstance(w, CollectiveCall) and w.op == "all_to_all" and w.dtype == "fp32"
    ]
    per_rank = 24576.0  # 3 tables x 128 bags x 16 columns x 4 bytes: tables times global batch stays what it was
    assert sum(exchanged) == pytest.approx(2 * ranks * per_rank)


def test_torchrec_has_too_few_tables_for_32_ranks():
    with pytest.raises(InputError, match=r"fewer tables than ranks.*at most 24"):
        at_world_size(job_of(torchrec()), 32)


def test_a100_kernels_on_h100_say_how_each_was_scaled():
    job, shares = on_gpu(job_of(a100()), load_gpu("a100_sxm4_40"), load_gpu("h100_sxm5_80"))
    by_method = {share.method: share for share in shares}
    assert set(by_method) == set(Method) - {Method.MODEL}
    assert by_method[Method.KEPT].before_s == by_method[Method.KEPT].after_s
    old, new = load_gpu("a100_sxm4_40"), load_gpu("h100_sxm5_80")
    rate = new.embedding_bytes_per_s / old.embedding_bytes_per_s
    shape = by_method[Method.EMBEDDING]
    assert shape.before_s / shape.after_s == pytest.approx(rate, rel=0.02)  # kernels of ms: the floor is nothing
    (program,) = job.graph.programs
    compute = [c is Category.COMPUTE for c in program.categories]
    before, after = job_of(a100()).durations_ps[0], job.durations_ps[0]
    assert after[compute].sum() < before[compute].sum()
    assert (after[np.logical_not(compute)] <= before[np.logical_not(compute)]).all()


def test_a100_on_its_own_gpu_stays_as_it_was():
    gpu = load_gpu("a100_sxm4_40")
    job, _ = on_gpu(job_of(a100()), gpu, gpu)
    assert all(np.array_equal(a, b) for a, b in zip(job.durations_ps, job_of(a100()).durations_ps, strict=True))


def test_the_batch_of_the_trace_changes_nothing_and_half_of_it_shortens_kernels():
    """1,024 samples per rank, from lookups over 8,192 bags and GEMMs; 85 % of the kernels' time follow the batch."""
    gpu, job = load_gpu("a100_sxm4_40"), job_of(a100())
    same, half = with_local_batch(job, 1024, gpu), with_local_batch(job, 512, gpu)
    assert np.array_equal(same.durations_ps[0], job.durations_ps[0])
    compute = [c is Category.COMPUTE for c in job.graph.programs[0].categories]
    assert 0.5 < half.durations_ps[0][compute].sum() / job.durations_ps[0][compute].sum() < 0.75


def test_overlap_is_worth_what_the_serial_job_takes_longer():
    job = job_of(a100())
    before = steps_of(a100())
    serial, hidden = steps_of(replayed(without_overlap(job))), steps_of(replayed(with_communication_hidden(job)))
    assert mean(serial, "exposed_comm_s") == pytest.approx(mean(before, "comm_s"), rel=0.01)
    assert mean(serial, "step_s") > mean(before, "step_s")
    assert mean(hidden, "exposed_comm_s") < mean(before, "exposed_comm_s")
    assert mean(hidden, "step_s") <= mean(before, "step_s") * 1.0001


@pytest.mark.parametrize("kind", ["identical", "jitter"])
def test_64_chakra_ranks_stay_between_the_bound_and_the_serial_sum(kind):
    job = job_of(imported(("chakra_dlrm_64", kind, "*.et")))
    found = replayed(job, machine(TWO_SWITCHES, 64))
    near_s, latency_s = 2 * 12.5 * 2**20 * 7 / 8 / (300 * GIB), 64 * 2e-6  # the switch inside, a ring's steps outside
    for op, length in collective_seconds(found).items():
        size = 16 * 2.0**20 if op == "all_to_all" else 12.5 * 2.0**20
        assert bound_s(op, size) <= length <= bound_s(op, size) + near_s + latency_s
    assert makespan_ms(replayed(bounded(job))) <= makespan_ms(found) <= serial_ms(job, found)
    if kind == "identical":
        assert makespan_ms(found) == pytest.approx(3.12, rel=0.01)  # docs/reference/replays.md


def test_chakra_cannot_be_scaled_without_its_tables():
    with pytest.raises(InputError, match="does not say which tables"):
        at_world_size(job_of(imported(("chakra_dlrm_64", "identical", "*.et"))), 128)

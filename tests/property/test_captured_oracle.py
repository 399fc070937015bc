"""Captured jobs of any shape: engine = oracle, and ranks in one program or in several have the same times."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.oracle import compare
from benchmarks.random_programs import RandomProgram
from hardware_specs import load_cluster
from simulator.engine import EngineRun, RunOptions, run
from simulator.lowering import build_machine, lower
from tests.captured_jobs import JobRecords, record_step, small_job, world
from workloads.captured.iteration import iteration_graph
from workloads.captured.job_file import packed, unpacked
from workloads.captured.records import Collective, CopyWork, HostWait, Moved, Product, RecordedJob
from workloads.captured.settings import CapturedSettings, Fusion
from workloads.graph.framework import load_framework

RANKS = 8
GROUPS = {
    "world": (tuple(range(RANKS)),),
    "pairs": ((0, 1), (2, 3), (4, 5), (6, 7)),
    "halves": ((0, 2, 4, 6), (1, 3, 5, 7)),
}
ROUNDED = 1e-7
"""Part of an iteration by which links that several instances share, at speeds in integers, may move a time."""


def drawn(seed: int, programs: int) -> RecordedJob:
    """A job of random tasks; programs make the same calls in the same order."""
    choices = random.Random(seed)
    ops = choices.choices(["product", "moved", "copy", "call", "wait"], weights=[6, 6, 2, 5, 1], k=30)
    records = JobRecords()
    calls = [_call(choices) for op in ops if op == "call"]
    found = []
    for part in np.array_split(np.arange(RANKS), programs):
        own = iter(calls)
        for op in ops:
            _add(records, op, own, choices)
        found.append(records.program(part.tolist(), streams=("default", "side")))
    return records.job(found, GROUPS)


def _call(choices: random.Random) -> Collective:
    name = choices.choice([*GROUPS])
    op = choices.choice(["all_reduce", "all_gather", "all_to_all", "reduce_scatter"])
    size = float(8 * choices.randint(1, 10**6))
    members = len(GROUPS[name][0])
    shares = [choices.random() for _ in range(members)]
    uneven = op == "all_to_all" and choices.random() < 0.3
    sent = tuple(share / sum(shares) for share in shares) if uneven else ()
    return Collective(op, name, size, "fp32", sent=sent)  # type: ignore[arg-type]


def _add(records: JobRecords, op: str, calls: object, choices: random.Random) -> None:
    number = len(records.tasks)
    after = [choices.randrange(number)] if number and choices.random() < 0.4 else []
    streams = {"stream": choices.randint(0, 1), "after_streams": [0] if choices.random() < 0.1 else []}
    size = float(choices.randint(1, 10**8))
    work = {
        "product": Product(choices.randint(1, 4096), 512, 512, "bf16"),
        "moved": Moved(size, size / 2, element_wise=True, next_read_bytes=size / 4, next_only_bytes=size / 8),
        "copy": CopyWork(size, "h2d"),
        "wait": HostWait(),
    }.get(op) or next(calls)  # type: ignore[call-overload]
    records.add(f"aten.{op}", work, "block", after=after, launches=choices.randint(0, 2), **streams)  # type: ignore[arg-type]


def run_of(job: RecordedJob, cluster: str = "dgx_h100", fuse: Fusion = "none") -> EngineRun:
    graph = iteration_graph(CapturedSettings(job, load_framework("pytorch"), fuse=fuse))
    machine = build_machine(load_cluster(cluster), job.world_size, launch_s=2e-6)
    return run(lower(graph, machine).program, RunOptions(max_iterations=3, keep_last=None))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), st.integers(1, 3), st.sampled_from(["none", "elementwise"]))
def test_engine_equals_oracle_on_captured_jobs(seed: int, programs: int, fuse: Fusion) -> None:
    graph = iteration_graph(CapturedSettings(drawn(seed, programs), load_framework("pytorch"), fuse=fuse))
    machine = build_machine(load_cluster("dgx_h100"), RANKS, launch_s=2e-6)
    assert compare(RandomProgram(lower(graph, machine).program, 3)) == ""


def divided(job: RecordedJob, parts: Sequence[Sequence[int]]) -> RecordedJob:
    """The job whose only program is one for each part of its ranks."""
    whole = job.programs[0]
    programs = tuple(msgspec.structs.replace(whole, ranks=tuple(part), captured=(part[0],)) for part in parts)
    return msgspec.structs.replace(job, programs=programs)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), st.sampled_from(["dgx_h100", "aws_p4d"]), st.data())
def test_ranks_in_one_program_or_in_several_have_the_same_times(seed: int, cluster: str, data: st.DataObject) -> None:
    job = drawn(seed, 1)
    order = data.draw(st.permutations(range(RANKS)))
    cuts = sorted(data.draw(st.sets(st.integers(1, RANKS - 1), max_size=3)))
    parts = [sorted(part.tolist()) for part in np.split(np.array(order), cuts)]
    one, other = run_of(job, cluster), run_of(divided(job, parts), cluster)
    assert np.abs(one.iteration_end_ps - other.iteration_end_ps).max() <= ROUNDED * one.iteration_end_ps[0]
    for before, after in zip(one.records, other.records, strict=True):
        for part, times in zip(parts, after.groups, strict=True):
            difference = np.abs(before.groups[0].end_ps[:, part] - times.end_ps)
            assert difference.max(initial=0) <= ROUNDED * one.iteration_end_ps[0]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3))
def test_packed_jobs_are_the_same_jobs(seed: int, programs: int) -> None:
    job = drawn(seed, programs)
    assert unpacked(packed(job)) == job


def test_more_bytes_never_make_a_step_shorter() -> None:
    ends = []
    for samples in (64, 256, 1024, 4096):
        records = JobRecords()
        record_step(records, 4, samples=samples)
        job = records.job([records.program(range(4), streams=("default", "memcpy"))], world(4), samples=samples)
        ends.append(int(run_of(job).iteration_end_ps[-1]))
    assert ends == sorted(ends)


def test_fused_kernels_never_make_a_step_longer() -> None:
    assert run_of(small_job(), fuse="elementwise").iteration_end_ps[-1] <= run_of(small_job()).iteration_end_ps[-1]

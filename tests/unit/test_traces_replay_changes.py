"""What each change of a replay does to a small trace whose times are known (`tests.trace_files.two_ranks`)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from hardware_specs.catalogs import CATALOGS
from hardware_specs.loader import load_cluster, load_gpu
from inputs.errors import InputError
from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from simulator.compute import gemm_rates, gemm_s
from simulator.lowering import build_machine
from simulator.operators import Gemm, Measured
from simulator.program import ProgramBuilder
from tests.trace_files import KinetoRank, chakra_bytes, chakra_iteration, two_ranks, write_ranks
from traces.formats import import_traces
from traces.kernel_classes import KernelClass, class_of, precision_of
from traces.kineto.importer import import_kineto
from traces.kineto.shapes import gemm_of, tables_and_bags
from traces.replay import job_of, replayed
from traces.replay.absent import with_late_absent_ranks
from traces.replay.batch import with_local_batch
from traces.replay.delays import delayed
from traces.replay.gpu import Method, gpu_of_device, on_gpu
from traces.replay.overlap import with_communication_hidden, without_overlap
from traces.replay.precision import in_precision
from traces.replay.ranks import at_world_size, with_clones

US = 1_000_000


@pytest.fixture
def imported(tmp_path):
    return import_kineto(write_ranks(tmp_path, two_ranks()))


@pytest.fixture
def job(imported):
    return job_of(imported)


def task(found, name, rank=0):
    """(start, end) of the rank's task in us."""
    for program, times in zip(found.graph.programs, found.measured.result.records[0].groups, strict=True):
        if rank in program.ranks:
            place, column = program.names.index(name), int(np.flatnonzero(program.ranks == rank)[0])
            return times.start_ps[place, column] / US, times.end_ps[place, column] / US
    raise KeyError(rank)


def step_us(found, rank):
    step = next(s for s in found.steps if s.rank == rank)
    return (step.end_ps - step.start_ps) / US


def test_nothing_changed_is_the_trace(imported, job):
    found = replayed(job)
    assert found.steps == imported.steps
    for a, b in zip(found.measured.result.records[0].groups, imported.measured.result.records[0].groups, strict=True):
        assert np.array_equal(a.end_ps, b.end_ps)


def test_a_late_rank_makes_the_other_wait(job):
    """Rank 1 comes 20 us later to its launch and to the all_reduce, in which rank 0 then waits 50 instead of 30 us."""
    before, after = replayed(job), replayed(delayed(job, {1: 20e-6}))
    assert task(after, "gemm", 1)[0] == task(before, "gemm", 1)[0] + 20
    assert task(after, "all_reduce", 0)[0] == task(before, "all_reduce", 0)[0]
    assert task(after, "all_reduce", 0)[1] == task(before, "all_reduce", 0)[1] + 20


def test_a_delay_of_a_rank_that_is_not_there(job):
    with pytest.raises(InputError, match="no such rank in the job"):
        delayed(job, {7: 1e-6})


def test_a_delay_without_a_host_moves_what_waits_for_nothing(tmp_path):
    files = []
    for rank in range(8):
        files.append(tmp_path / f"job.{rank}.et")
        files[-1].write_bytes(chakra_bytes(chakra_iteration()))
    job = job_of(import_traces(files))
    machine = build_machine(load_cluster("dgx_a100_80"), 8, launch_s=0.0)
    ends = [int(replayed(own, machine).measured.result.iteration_end_ps[0]) for own in (job, delayed(job, {3: 1e-3}))]
    assert ends[1] - ends[0] == 1e9


def test_half_precision_halves_what_is_above_the_shortest_transfer(imported):
    """Two all_reduces of 5 and 25 us in fp32: in fp16 of 5 and 15 us, and of half the bytes."""
    job = job_of(imported)
    key = next(iter(job.transfers_ps))
    longer = replace(job, transfers_ps={key: np.array([25 * US]), ("other", 0): np.array([5 * US])})
    halved = in_precision(_with_second_call(longer), {"all_reduce": "fp16"})
    assert halved.transfers_ps[key].tolist() == [15 * US]
    assert halved.transfers_ps["other", 0].tolist() == [5 * US]
    calls = [w for w in halved.graph.programs[0].work if isinstance(w, CollectiveCall)]
    assert [(call.dtype, call.bytes) for call in calls] == [("fp16", 2000.0)] * 2


def _with_second_call(job):
    """The job with one more all_reduce on another communicator, at the end of each program."""
    programs, durations = [], []
    for program, own in zip(job.graph.programs, job.durations_ps, strict=True):
        builder = ProgramBuilder(program.name, program.ranks, program.streams)
        for number, (name, work) in enumerate(zip(program.names, program.work, strict=True)):
            after = program.dependencies(number)
            builder.task(name, program.streams[program.stream_of[number]].name, work, after=after)
        builder.task("second", program.streams[0].name, CollectiveCall("all_reduce", "other", 4000.0, "fp32"))
        programs.append(builder.build())
        durations.append(np.concatenate([own, np.zeros((1, program.rank_count), dtype=np.int64)]))
    communicators = {**job.graph.communicators, "other": np.zeros(2, dtype=np.int64)}
    graph = replace(job.graph, programs=tuple(programs), communicators=communicators)
    return replace(job, graph=graph, durations_ps=tuple(durations))


def test_precision_of_a_collective_that_is_not_there(job):
    with pytest.raises(InputError, match=r"no such collective.*all_reduce"):
        in_precision(job, {"all_to_all": "fp16"})


def test_nothing_overlaps_on_one_stream(job):
    found = replayed(without_overlap(job))
    for program, times in zip(found.graph.programs, found.measured.result.records[0].groups, strict=True):
        device = [t for t, c in enumerate(program.categories) if c in (Category.COMPUTE, Category.COMM, Category.COPY)]
        spans = sorted(zip(times.start_ps[device, 0].tolist(), times.end_ps[device, 0].tolist(), strict=True))
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))


def test_hidden_communication_is_awaited_by_nobody(tmp_path):
    """The host waits for the all_reduce of 300 us; hidden, the step ends as if there were none."""
    own = KinetoRank(0, 1)
    own.step(1, 0.0, 400.0)
    told = {"Collective name": "allreduce", "In msg nelems": 1000, "dtype": "Float"}
    own.kernel("ncclDevKernel_AllReduce", (5.0, 2.0), (10.0, 300.0), stream=20, **told)
    own.call("cudaDeviceSynchronize", 20.0, 292.0)
    own.kernel("adam", (320.0, 5.0), (330.0, 20.0))
    job = job_of(import_kineto([own.write(tmp_path / "rank0.json")]))
    before, after = replayed(job), replayed(with_communication_hidden(job))
    assert task(before, "adam")[0] == 330
    assert task(after, "adam")[0] == pytest.approx(330 - (310 - 20), abs=1)
    assert task(after, "all_reduce") == task(before, "all_reduce")


def test_late_absent_ranks_keep_the_times_of_the_trace(tmp_path):
    """Two steps whose all_reduce takes 35 and 55 us: 35 are transfer, 20 of the second step waiting for rank 1."""
    own = KinetoRank(0, 2)
    told = {"Collective name": "allreduce", "In msg nelems": 1000, "dtype": "Float"}
    for number, length in enumerate((35.0, 55.0)):
        begin = 200.0 * number
        own.step(number + 1, begin, 150.0)
        own.kernel("gemm", (begin + 5, 4.0), (begin + 12, 10.0))
        own.kernel("ncclDevKernel_AllReduce", (begin + 22, 3.0), (begin + 30, length), stream=20, **told)
    imported = import_kineto([own.write(tmp_path / "rank0.json")])
    found = replayed(with_late_absent_ranks(job_of(imported)))
    assert found.steps == imported.steps
    assert task(found, "all_reduce #2") == task(imported, "all_reduce #2") == (230, 285)
    times = found.measured.result.records[0].groups[0]
    assert times.waiting_rows_ps[:, 0].tolist() == [0, 20 * US]
    assert found.measured.result.ranks.tolist() == [0, 1]


def test_clones_take_the_traced_ranks_in_turn(tmp_path):
    job = with_clones(job_of(import_kineto(write_ranks(tmp_path, two_ranks(world_size=5)))))
    assert job.ranks.tolist() == [0, 1, 2, 3, 4]
    kernels = {}
    for program, durations in zip(job.graph.programs, job.durations_ps, strict=True):
        place = program.names.index("gemm")
        kernels |= dict(zip(program.ranks.tolist(), durations[place].tolist(), strict=True))
    assert kernels == {0: 10 * US, 1: 40 * US, 2: 10 * US, 3: 40 * US, 4: 10 * US}
    assert [step.rank for step in job.steps] == [0, 1, 2, 3, 4]


def lookup_ranks(local_batch=32, batches=2):
    """Two ranks with two sharded tables each over the batch of both, a GEMM over their own, an exchange."""
    ranks = []
    for rank in range(2):
        own = KinetoRank(rank, 2)
        own.step(1, 0.0, 200.0)
        shape = [[0]] * 6 + [[3]] + [[0]] * 4 + [[500], [2 * local_batch * batches + 1]]
        own.op("fbgemm::split_embedding_codegen_lookup_adagrad_function", 2.0, 8.0, **{"Input Dims": shape})
        own.kernel("void split_embedding_codegen_forward_unweighted_kernel<float>", (5.0, 2.0), (12.0, 20.0))
        told = {
            "Collective name": "all_to_allv",
            "In msg nelems": 4096,
            "dtype": "Float",
            "In split size": "[2048, 2048]",
        }
        own.kernel("ncclDevKernel_SendRecv", (22.0, 3.0), (40.0, 10.0), stream=20, **told)
        dims = {"Input Dims": [[local_batch, 48], [48, 96]], "Input type": ["float", "float"]}
        own.op("aten::mm", 30.0, 10.0, **dims)
        own.kernel("ampere_sgemm_32x32", (32.0, 4.0), (60.0, 10.0))
        ranks.append(own)
    return ranks


def test_four_ranks_share_the_tables_of_two(tmp_path):
    """Four tables over four ranks: one each, over twice the batch: a rank's lookups and exchange stay as they were."""
    job = job_of(import_kineto(write_ranks(tmp_path, lookup_ranks())))
    scaled = at_world_size(job, 4)
    assert scaled.graph.communicators["world"].tolist() == [0, 0, 0, 0]
    (program,) = scaled.graph.programs
    assert program.ranks.tolist() == [0, 1, 2, 3]
    assert scaled.durations_ps[0][_lookup(program)].tolist() == [20 * US] * 4


def test_three_ranks_get_whole_tables(tmp_path):
    """Four tables over three ranks: 2, 1, 1. A rank had 2 over two batches; 2 over three take 1.5 times as long."""
    job = job_of(import_kineto(write_ranks(tmp_path, lookup_ranks())))
    scaled = at_world_size(job, 3)
    (program,) = scaled.graph.programs
    assert scaled.durations_ps[0][_lookup(program)].tolist() == [30 * US, 15 * US, 15 * US]
    (call,) = (w for w in program.work if isinstance(w, CollectiveCall))
    assert call.bytes.tolist() == [16384 * 1.5, 16384 * 0.75, 16384 * 0.75]
    gemm = next(t for t, n in enumerate(program.names) if "sgemm" in n)
    assert scaled.durations_ps[0][gemm].tolist() == [10 * US] * 3


def _lookup(program):
    return next(t for t, name in enumerate(program.names) if name.startswith("split_embedding"))


@pytest.mark.parametrize(
    ("ranks", "world_size", "said"),
    [
        (lookup_ranks(), 5, r"fewer tables than ranks.*at most 4"),
        (lookup_ranks(batches=7), 4, "does not say whether that is the batch"),
        (two_ranks(), 4, "does not say which tables"),
        (lookup_ranks(), 0, "no number of ranks"),
    ],
)
def test_a_job_that_cannot_be_scaled_says_why(tmp_path, ranks, world_size, said):
    job = job_of(import_kineto(write_ranks(tmp_path, ranks)))
    with pytest.raises(InputError, match=said):
        at_world_size(job, world_size)


def test_a_job_with_an_all_gather_is_not_scaled(tmp_path):
    ranks = lookup_ranks()
    for own in ranks:
        next(e for e in own.events if "nccl" in e["name"])["args"]["Collective name"] = "allgather"
    with pytest.raises(InputError, match="size of all_gather depends on its contents"):
        at_world_size(job_of(import_kineto(write_ranks(tmp_path, ranks))), 4)


def test_a_gemm_takes_the_shape_of_its_operator(tmp_path):
    imported = import_kineto(write_ranks(tmp_path, lookup_ranks()))
    shapes = [w.shape for w in imported.graph.programs[0].work if isinstance(w, Measured) and w.shape]
    assert shapes == [Gemm(m=32, n=96, k=48, precision="fp32")]


def test_kernels_scale_by_what_bounds_them(tmp_path):
    """Above the kernel floor the lookup follows the embedding rate, the GEMM the roofline of its shape."""
    old, new = load_gpu("v100_sxm2_32"), load_gpu("h100_sxm5_80")
    before = job_of(import_kineto(write_ranks(tmp_path, lookup_ranks())))
    after, shares = on_gpu(before, old, new)
    (program,) = after.graph.programs
    floors = [gpu.achieved.kernel_floor_s.value * 1e12 for gpu in (old, new)]
    rate = old.embedding_bytes_per_s / new.embedding_bytes_per_s
    assert after.durations_ps[0][_lookup(program), 0] == round((20 * US - floors[0]) * rate + floors[1])
    assert {share.method: share.tasks for share in shares} == {Method.SHAPE: 2, Method.EMBEDDING: 2}
    host = [t for t, c in enumerate(program.categories) if c is Category.HOST]
    assert np.array_equal(after.durations_ps[0][host], before.durations_ps[0][host])


@pytest.mark.parametrize(
    ("device", "gpu"), [("Tesla V100-SXM2-32GB", "v100_sxm2_32"), ("NVIDIA A100-SXM4-80GB", "a100_sxm4_80")]
)
def test_a_device_is_a_gpu_we_know(device, gpu):
    assert gpu_of_device(device, CATALOGS["gpu"].names()) == gpu


@pytest.mark.parametrize("device", ["NVIDIA A100-PG509-200", "", "NVIDIA GeForce"])
def test_a_device_that_says_too_little_is_asked_for(device):
    with pytest.raises(InputError, match="--from-gpu: is needed"):
        gpu_of_device(device, CATALOGS["gpu"].names())


@pytest.mark.parametrize(
    ("name", "kind", "precision"),
    [
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4>", KernelClass.GEMM, "tf32"),
        ("ampere_sgemm_128x128_tn", KernelClass.GEMM, "fp32"),
        ("ampere_h16816gemm_64x64", KernelClass.GEMM, "fp16"),
        ("void split_embedding_backward_codegen_adagrad_unweighted_kernel", KernelClass.EMBEDDING, "fp32"),
        ("void at::native::vectorized_elementwise_kernel<4>", KernelClass.STREAMING, "fp32"),
    ],
)
def test_kernels_are_known_by_their_names(name, kind, precision):
    assert class_of(name) is kind
    assert precision_of(name) == precision


@pytest.mark.parametrize(
    ("dims", "types", "expected"),
    [
        ([[512], [1024, 1705], [1705, 512], []], ["float"], Gemm(m=1024, n=512, k=1705, precision="fp32")),
        ([[16, 27, 16], [16, 16, 27]], ["c10::Half"], Gemm(m=27, n=27, k=16, precision="fp16", count=16)),
        ([[4, 5], [6, 7]], ["float"], None),
        ([[4, 5]], ["float"], None),
        ([[4, 0], [0, 7]], ["float"], None),
        ([[4, 5], [5, 7]], ["long int"], None),
        (None, None, None),
        ([[4, "5"], [5, 7]], ["float"], None),
    ],
)
def test_shapes_of_gemms(dims, types, expected):
    assert gemm_of("aten::addmm", {"dims": dims, "types": types}, "sgemm") == expected


@pytest.mark.parametrize(
    ("offsets", "expected"), [([385], (3, 128)), ([386], None), ([1], None), ([], None), ([3, 4], None)]
)
def test_tables_of_a_lookup(offsets, expected):
    dims = [[0]] * 6 + [[4]] + [[]] * 4 + [[768], offsets]
    assert tables_and_bags("fbgemm::split_embedding_codegen_lookup_sgd_function", {"dims": dims}) == expected
    assert tables_and_bags("aten::mm", {"dims": dims}) is None


def test_half_the_batch_halves_what_follows_it(tmp_path):
    """The GEMM takes the model's ratio of its shapes, the lookup half of what is above the floor, Adam what it took."""
    ranks = lookup_ranks(local_batch=4096)
    for own in ranks:
        own.kernel("multi_tensor_apply_kernel<AdamFunctor>", (80.0, 3.0), (90.0, 12.0))
    gpu = load_gpu("v100_sxm2_32")
    before = job_of(import_kineto(write_ranks(tmp_path, ranks)))
    after = with_local_batch(before, 2048, gpu)
    (program,) = after.graph.programs
    floor = gpu.achieved.kernel_floor_s.value * 1e12
    assert after.durations_ps[0][_lookup(program)].tolist() == [round(floor + (20 * US - floor) / 2)] * 2
    rates = gemm_rates(gpu, "fp32")
    shapes = [Gemm(m=rows, n=96, k=48, precision="fp32") for rows in (4096, 2048)]
    ratio = gemm_s(shapes[1], rates) / gemm_s(shapes[0], rates)
    gemm = next(t for t, n in enumerate(program.names) if "sgemm" in n)
    assert after.durations_ps[0][gemm].tolist() == [round(10 * US * ratio)] * 2
    adam = next(t for t, n in enumerate(program.names) if "multi_tensor" in n)
    assert after.durations_ps[0][adam].tolist() == [12 * US] * 2
    (call,) = (w for w in program.work if isinstance(w, CollectiveCall))
    assert call.bytes.tolist() == [8192.0] * 2
    assert "batch of 2,048 instead of 4,096" in after.notes[-1]


def test_strong_scaling_is_more_ranks_with_less_each(tmp_path):
    """Four tables and a global batch of 64 on two ranks and on four: one table each, half the lookups and exchange."""
    gpu = load_gpu("v100_sxm2_32")
    job = with_local_batch(job_of(import_kineto(write_ranks(tmp_path, lookup_ranks()))), 16, gpu)
    scaled = at_world_size(job, 4)
    (program,) = scaled.graph.programs
    floor = gpu.achieved.kernel_floor_s.value * 1e12
    assert scaled.durations_ps[0][_lookup(program)].tolist() == [round(floor + (20 * US - floor) / 2)] * 4
    (call,) = (w for w in program.work if isinstance(w, CollectiveCall))
    assert call.bytes.tolist() == [8192.0] * 4


@pytest.mark.parametrize(
    ("ranks", "batch", "said"), [(lookup_ranks(), 0, "is no batch"), (two_ranks(), 8, "its batch")]
)
def test_a_batch_that_cannot_be_changed_says_why(tmp_path, ranks, batch, said):
    job = job_of(import_kineto(write_ranks(tmp_path, ranks)))
    with pytest.raises(InputError, match=said):
        with_local_batch(job, batch, load_gpu("v100_sxm2_32"))


def test_clones_share_tables_as_the_ranks_they_are_of(tmp_path):
    """Ranks 0 and 3 of 4 are traced, with 2 tables and 1; 1 and 2 are clones of 0 and 3: six tables on two ranks."""
    first, other = lookup_ranks(batches=4)
    for own in (first, other):
        own.head["distributedInfo"]["world_size"] = 4
    other.head["distributedInfo"]["rank"] = 3
    shape = next(e for e in other.events if "lookup" in e["name"])["args"]["Input Dims"]
    shape[6], shape[12] = [2], [4 * 32 + 1]
    scaled = at_world_size(job_of(import_kineto(write_ranks(tmp_path, [first, other]))), 2)
    durations = {}
    for program, own in zip(scaled.graph.programs, scaled.durations_ps, strict=True):
        durations |= dict(zip(program.ranks.tolist(), own[_lookup(program)].tolist(), strict=True))
    # Rank 0 had 2 of tables over 4 batches, now 3 over 2; rank 1 is a clone of rank 0 as well.
    assert durations == {0: 15 * US, 1: 15 * US}

"""Kernels on CPUs: amounts times costs, caches, threads."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from pydantic import ValidationError

from hardware_specs.cpu_kernels import AMOUNTS
from inputs.errors import InputError
from simulator.compute import CpuModel
from simulator.compute.cpu_amounts import EVICTING, Caches, amounts_of, class_of
from simulator.compute.shared_cache import parts
from simulator.operators import (
    SORTED_BYTES,
    Access,
    Busiest,
    Copy,
    CpuTraffic,
    DenseOptimizer,
    Elementwise,
    EmbeddingLookup,
    EmbeddingUpdate,
    Gemm,
    HostWork,
    Interaction,
    Marker,
    Measured,
    Misses,
)
from simulator.work import touched_bytes
from tests.host_machines import costs, host, kernels

MIB = 2.0**20


def model(ranks=1, cores=1, **kinds):
    return CpuModel.of(host(cores, kernels(**kinds)).node, ranks)


def test_a_gemm_costs_a_call_its_flops_and_each_matrix():
    made = model(gemm=costs(call=1e-6, flop=1e-11, left=1e-9, right=2e-9, result=3e-9))
    expected = 1e-6 + 2 * 64 * 32 * 16 * 1e-11 + 64 * 16 * 1e-9 + 16 * 32 * 2e-9 + 64 * 32 * 3e-9
    assert made.duration_s(Gemm(64, 32, 16, "fp32")) == pytest.approx(expected, rel=1e-12)


def test_a_gemm_whose_columns_fill_no_vectors_and_one_stored_transposed_cost_more():
    made = model(gemm=costs(tail=1e-9, transposed=1e-8))
    assert made.duration_s(Gemm(8, 32, 4, "fp32")) == 0.0
    assert made.duration_s(Gemm(8, 33, 4, "fp32")) == pytest.approx(8 * 4 * 1e-9)
    assert made.duration_s(Gemm(8, 32, 4, "fp32", transposed=True)) == pytest.approx(8 * 4 * 1e-8)


def test_many_small_products_are_a_kind_of_their_own():
    made = model(gemm=costs(call=1.0), batched=costs(call=1e-6, product=1e-7))
    assert made.duration_s(Gemm(4, 4, 8, "fp32", count=100)) == pytest.approx(1e-6 + 100e-7)


def test_lookups_miss_a_cache_of_which_nothing_is_known_that_it_holds():
    made = model(lookup=costs(lookup=1e-8, core_miss=1e-7))
    assert made.duration_s(EmbeddingLookup(1000.0, 64e3, 0.0, 0.0, 1.0)) == pytest.approx(1000 * (1e-8 + 1e-7))


def test_lookups_miss_a_cache_as_often_as_the_workload_says_for_its_size():
    made = model(lookup=costs(lookup=1e-8, core_miss=1e-7))
    found = Misses(np.array([0.0, MIB, 2 * MIB]), np.array([100e3, 60e3, 0.0]))
    work = EmbeddingLookup(1000.0, 64e3, 0.0, 0.0, 1.0, cpu=CpuTraffic(found))
    assert made.duration_s(work) == pytest.approx(1000 * (1e-8 + 0.6e-7))


def test_the_busiest_thread_is_waited_for():
    """Half as many rows again as the mean, a quarter more bytes, and twice as many that miss a cache."""
    made = model(lookup=costs(lookup=1e-8, byte=1e-9, core_miss=1e-7, output_byte=1e-10))
    found = Misses(np.array([0.0, MIB]), np.array([64e3, 16e3]))
    most = Busiest(1500.0, Misses(found.cache_bytes, np.array([80e3, 32e3])))
    work = EmbeddingLookup(1000.0, 64e3, 5e3, 0.0, 1.0, cpu=CpuTraffic(found, busiest=most))
    assert made.duration_s(work) == pytest.approx(1500 * 1e-8 + 80e3 * 1e-9 + 2 * 250 * 1e-7 + 5e3 * 1e-10)


def test_rows_that_fill_no_line_bring_all_of_it():
    """A thousand rows of 16 bytes, of which a quarter misses: each is a line of 64."""
    made = model(lookup=costs(core_miss=1e-7, core_miss_byte=1e-9))
    lines = Misses(np.array([0.0, MIB]), np.array([64e3, 16e3]))
    work = EmbeddingLookup(1000.0, 16e3, 5e3, 0.0, 1.0, cpu=CpuTraffic(lines))
    assert made.duration_s(work) == pytest.approx(250 * 1e-7 + 16e3 * 1e-9)


def test_weights_and_state_of_rows_miss_a_cache_apart():
    """Of 1 MiB that the core holds: a tenth of the weights' bytes is missed, half of the state's."""
    made = model(update=costs(core_miss=1e-7, core_miss_byte=1e-9))
    sizes = np.array([0.0, MIB, 2 * MIB])
    weights, state = Misses(sizes, np.array([8000.0, 800.0, 0.0])), Misses(sizes, np.array([1000.0, 500.0, 0.0]))
    work = EmbeddingUpdate(9.0, 10.0, 0.0, 8000.0, 0.0, 0.0, 1.0, cpu=CpuTraffic(weights))
    assert made.duration_s(work) == pytest.approx(10 * 0.1e-7 + 800e-9)
    stateful = replace(work, state_bytes=1000.0, cpu=CpuTraffic(weights, state))
    assert made.duration_s(stateful) == pytest.approx(10 * 0.1e-7 + 800e-9 + 10 * 0.5e-7 + 500e-9)


def test_gradients_are_read_again_from_a_cache_that_holds_those_of_a_table():
    """Of 2 MiB of all tables half are in the core's cache when first read, of 1 MiB of a table all when read again."""
    made = model(update=costs(gradient_core_miss_byte=1e-9))
    work = EmbeddingUpdate(
        1.0, 1.0, 2.0 * MIB, 0.0, 0.0, 0.0, 2.0, repeated_gradient_bytes=5.0 * MIB, gradient_block_bytes=MIB
    )
    assert made.duration_s(work) == pytest.approx(MIB * 1e-9)
    assert made.duration_s(replace(work, gradient_block_bytes=2.0 * MIB)) == pytest.approx(3.5 * MIB * 1e-9)


def test_both_caches_count():
    made = model(lookup=costs(core_miss=1e-8, shared_miss=1e-7))
    found = Misses(np.array([0.0, MIB, 32 * MIB]), np.array([100.0, 80.0, 30.0]))
    work = EmbeddingLookup(1000.0, 64e3, 0.0, 0.0, 1.0, cpu=CpuTraffic(found))
    assert made.duration_s(work) == pytest.approx(1000 * (0.8 * 1e-8 + 0.3 * 1e-7))


def test_ranks_share_the_cache_that_their_cores_share():
    one, two = (CpuModel(made.kernels, made.node, ranks) for made, ranks in ((model(), 1), (model(), 2)))
    assert two.caches.core == one.caches.core == MIB
    assert two.caches.shared == one.caches.shared / 2


def test_a_rank_has_what_others_leave_of_the_shared_cache():
    """Rows of 8 and of 64 MiB in a cache of 32 MiB: the first fit into less than half of it."""
    one = model(lookup=costs(shared_miss=1e-7), update=costs(shared_miss=1e-7))
    made = CpuModel(one.kernels, one.node, 2)
    sizes = np.array([0.0, 8 * MIB, 16 * MIB, 64 * MIB])
    missed = Misses(sizes, np.array([[8.0, 64.0], [0.0, 56.0], [0.0, 48.0], [0.0, 0.0]]) * MIB)
    outputs = np.array([MIB, MIB])
    held = parts(missed, outputs, 16.0 * MIB, 2)
    assert held[0] < 12 * MIB < 20 * MIB < held[1]
    looked_up = EmbeddingLookup(1e3, 64 * MIB, outputs, 0.0, 1.0, cpu=CpuTraffic(missed))
    share = missed.at(held) / missed.at(0.0)
    assert made.duration_s(looked_up) == pytest.approx(1e-4 * share)
    updated = EmbeddingUpdate(1e3, 1e3, outputs, 64 * MIB, 0.0, 0.0, 1.0, cpu=CpuTraffic(missed))
    assert made.duration_s(updated) == pytest.approx(1e-4 * share)
    alike = replace(looked_up, output_bytes=MIB, cpu=CpuTraffic(Misses(sizes, missed.bytes[:, 1])))
    assert made.duration_s(alike) == pytest.approx(1e-4 * 48 / 64), "an equal part of what is alike"


def test_issuing_is_a_part_of_what_the_host_does_for_a_collective():
    made = model(host=costs(launch=2e-6, collective=3e-5, issue=5e-5))
    assert made.issuing_share(HostWork(launches=10, collectives=2)) == pytest.approx(1e-4 / (2e-5 + 6e-5 + 1e-4))
    assert made.issuing_share(HostWork(launches=10)) == 0.0
    assert model().issuing_share(HostWork(launches=10, collectives=2)) == 0.0, "nothing takes time"


def test_what_a_call_copies_is_a_part_of_issuing():
    """2 us of launch; 50 us to issue, and a byte each nanosecond."""
    made = model(host=costs(launch=2e-6, issue=5e-5, issue_byte=1e-9))
    work = HostWork(launches=1, collectives=1, copied_bytes=np.array([1e6, 3e6]))
    assert made.duration_s(work) == pytest.approx([2e-6 + 5e-5 + 1e-3, 2e-6 + 5e-5 + 3e-3])
    assert made.issuing_share(work) == pytest.approx((5e-5 + 2e-3) / (2e-6 + 5e-5 + 2e-3))


def test_ranks_without_tables_look_nothing_up():
    made = model(lookup=costs(call=1e-5, lookup=1e-8))
    none_and_some = EmbeddingLookup(np.array([0.0, 10.0]), np.array([0.0, 640.0]), 0.0, 0.0, 1.0)
    assert made.duration_s(none_and_some) == pytest.approx([0.0, 1e-5 + 10e-8])


def test_an_update_sorts_gathers_and_writes_distinct_rows():
    made = model(update=costs(lookup=1e-8, row=1e-7, weight_byte=1e-10, gathered_byte=1e-11))
    work = EmbeddingUpdate(1024.0, 100.0, 4096.0, 800.0, 0.0, 0.0, 1.0, repeated_gradient_bytes=1000.0)
    expected = 1024 * 1e-8 + 100 * 1e-7 + 800 * 1e-10 + 5096 * 1e-11
    assert made.duration_s(work) == pytest.approx(expected)


def test_what_a_sort_goes_through_comes_from_behind_the_shared_cache_where_that_is_too_small():
    made = model(update=costs(lookup=1e-8, sorted_shared_miss_byte=1e-10))
    half = made.caches.shared / SORTED_BYTES / 2  # lookups that fill half of it
    for lookups, missed in ((half, 0.0), (1.5 * half, 0.5), (4 * half, 1.0)):
        work = EmbeddingUpdate(lookups, 100.0, 4096.0, 800.0, 0.0, 0.0, 1.0)
        assert made.duration_s(work) == pytest.approx(lookups * (1e-8 + SORTED_BYTES * missed * 1e-10))


@pytest.mark.parametrize(("state_bytes", "passes"), [(0.0, 0), (8.0 * 100, 1), (6400.0, 1)], ids=["no", "row", "whole"])
def test_optimizers_of_tables_that_keep_a_state_pass_over_the_gradients_of_rows_once_more(state_bytes, passes):
    made = model(update=costs(weight_byte=1e-10, state_weight_byte=3e-10))
    work = EmbeddingUpdate(1024.0, 100.0, 4096.0, 6400.0, state_bytes, 0.0, 1.0)
    assert made.duration_s(work) == pytest.approx(6400 * (1e-10 + passes * 3e-10))


@pytest.mark.parametrize(("width", "vectors"), [(16, 1), (32, 2), (8, 1), (12, 2), (15, 4), (17, 2), (39, 5), (1, 1)])
def test_small_products_go_by_whole_vectors_and_powers_of_two_of_the_rest(width, vectors):
    made = model(batched=costs(vector=1e-9))
    assert made.duration_s(Gemm(5, width, 7, "fp32", count=100)) == pytest.approx(100 * 5 * 7 * vectors * 1e-9)


@pytest.mark.parametrize(("terms", "transposed", "expected"), [(11, True, 1.0), (12, True, 0.0), (11, False, 0.0)])
def test_small_transposed_products_of_few_terms_are_computed_in_another_way(terms, transposed, expected):
    made = model(batched=costs(short_transposed=1e-9))
    work = Gemm(64, 9, terms, "fp32", count=10, transposed=transposed)
    assert made.duration_s(work) == pytest.approx(expected * 10 * 64 * terms * 1e-9)


@pytest.mark.parametrize(("kind", "count"), [("gemm", 1), ("batched", 64)])
@pytest.mark.parametrize(
    ("touched", "core", "shared"), [(0.5, 0.0, 0.0), (0.75, 0.5, 0.0), (1, 1, 0), (24, 1, 0.5), (32, 1, 1)]
)
def test_products_of_matrices_that_fill_a_cache_come_from_behind_it(kind, count, touched, core, shared):
    """Of a core's 1 MiB and of 32 MiB that are shared, half is filled before anything misses; all matrices count."""
    made = model(**{kind: costs(core_miss_byte=1e-10, shared_miss_byte=1e-9)})
    found = made.duration_s(Gemm((touched * MIB / count - 4) / 8, 1, 1, "fp32", count=count))
    assert found == pytest.approx(touched * MIB * (core * 1e-10 + shared * 1e-9))


def test_passes_over_more_than_a_cache_come_from_behind_it():
    made = model(stream=costs(byte=1e-10, core_miss_byte=1e-9))
    assert made.duration_s(Elementwise(0.25 * MIB, 0.25 * MIB)) == pytest.approx(0.5 * MIB * 1e-10)
    assert made.duration_s(Elementwise(2 * MIB, 2 * MIB)) == pytest.approx(4 * MIB * 1.1e-9)


def test_optimizers_with_a_state_have_costs_of_their_own():
    made = model(optimizer=costs(byte=1e-10, state_byte=1e-9))
    assert made.duration_s(DenseOptimizer(1000.0, 12e3)) == pytest.approx(12e3 * 1e-10)
    assert made.duration_s(DenseOptimizer(1000.0, 20e3)) == pytest.approx(20e3 * 1e-9)


def test_nothing_is_copied_to_the_device_that_has_it():
    made = model(stream=costs(byte=1e-10))
    assert made.duration_s(Copy(1e6, "h2d")) == 0.0
    assert made.duration_s(Copy(1e6, "d2d")) == pytest.approx(2e6 * 1e-10)
    assert made.duration_s(Marker()) == 0.0


def test_launches_and_collectives_cost_host_time():
    made = model(host=costs(launch=2e-6, collective=5e-5))
    assert made.duration_s(HostWork(launches=3, seconds=1e-3, collectives=1)) == pytest.approx(6e-6 + 5e-5 + 1e-3)
    assert made.improved({"host": 2.0}).duration_s(HostWork(launches=2)) == pytest.approx(2e-6)


def test_a_launch_costs_more_the_more_of_the_cache_a_kernel_has_taken_before():
    made = model(host=costs(launch=2e-6, cold_launch=1e-4))
    for passed_over, gone in ((0.0, 0.0), (EVICTING * MIB, 1.0 - 1.0 / np.e), (1e3 * MIB, 1.0)):
        work = HostWork(launches=3, after_bytes=passed_over)
        assert made.duration_s(work) == pytest.approx(3 * (2e-6 + gone * 1e-4))
    uneven = made.duration_s(HostWork(launches=1, after_bytes=np.array([0.0, 1e9])))
    assert uneven == pytest.approx([2e-6, 1.02e-4])


@pytest.mark.parametrize(
    ("work", "touched"),
    [
        (Gemm(2, 3, 5, "fp32"), 4 * 31), (Gemm(2, 3, 5, "bf16", count=7), 2 * 7 * 31),
        (EmbeddingLookup(4.0, 100.0, 20.0, 3.0, 1.0), 123.0),
        (EmbeddingUpdate(4.0, 2.0, 100.0, 20.0, 3.0, 0.5, 1.0, repeated_gradient_bytes=1e6), 123.5),
        (Elementwise(10.0, 5.0), 15.0), (Interaction(1e9, 10.0, 6.0, "fp32"), 16.0), (DenseOptimizer(1e9, 12.0), 12.0),
        (Copy(8.0, "d2d"), 16.0), (Copy(8.0, "h2d"), 0.0), (Marker(), 0.0), (HostWork(3.0), 0.0),
    ],
)  # fmt: skip
def test_kernels_touch_what_they_read_and_write(work, touched):
    assert touched_bytes(work) == touched


def test_faster_gemms_leave_the_rest_alone():
    made = model(gemm=costs(flop=1e-11), stream=costs(byte=1e-10)).improved({"GEMM": 2.0})
    assert made.duration_s(Gemm(10, 16, 10, "fp32")) == pytest.approx(3200e-11 / 2)
    assert made.duration_s(Elementwise(100.0, 0.0)) == pytest.approx(1e-8)


def test_measured_work_takes_what_it_took():
    assert model().duration_s(Measured(0.5, Marker().category)) == 0.5


@pytest.mark.parametrize(("ranks", "threads"), [(1, 4), (2, 2), (4, 1), (8, 1)])
def test_costs_are_those_of_a_ranks_threads(ranks, threads):
    measured = [kernels(threads=t, gemm=costs(call=t / 8)) for t in (1, 2, 4)]
    assert CpuModel.of(host(4, *measured).node, ranks).duration_s(Gemm(1, 1, 1, "fp32")) == threads / 8


def test_what_was_not_measured_is_said():
    made = model(gemm=costs(flop=1e-11))
    assert made.outside_range(Gemm(8, 8, 8, "fp32")) is None
    assert "bf16" in made.outside_range(Gemm(8, 8, 8, "bf16"))
    assert "not measured" in made.outside_range(Elementwise(1.0, 1.0))


def test_a_cpu_that_nobody_measured_is_refused():
    with pytest.raises(InputError, match="no measured kernels"):
        CpuModel.of(host(2).node, 1)


def of_every_kind():
    return [
        Gemm(8, 8, 8, "fp32"),
        Gemm(8, 8, 8, "fp32", 4),
        EmbeddingLookup(8.0, 8.0, 8.0, 8.0, 1.0),
        EmbeddingUpdate(8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 1.0),
        *(Elementwise(8.0, 8.0, access, 2.0) for access in get_args(Access)),
        DenseOptimizer(8.0, 96.0),
        HostWork(1.0),
    ]


def test_what_kernels_are_counted_in_is_what_specs_may_price():
    assert {class_of(work): type(amounts_of(work, Caches(MIB, MIB))) for work in of_every_kind()} == AMOUNTS


def test_a_cost_of_what_is_not_counted_is_refused():
    with pytest.raises(ValidationError, match="no update is counted in gradient_shared_miss_byte") as refused:
        model(update=costs(gradient_shared_miss_byte=1e-9))
    (error,) = refused.value.errors()
    assert error["ctx"]["nearest"] == "gradient_core_miss_byte"

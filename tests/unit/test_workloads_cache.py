"""Kernels of tables that are not in device memory: what they read where, and what a cache changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hardware_specs import load_cluster
from simulator.compute.gpu import GpuModel
from simulator.operators import Amount
from tests.planning_jobs import job
from workloads.dlrm.iteration.embeddings import EmbeddingGroup, embedding_groups
from workloads.dlrm.iteration.generate import generate
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.storage import ComputeKernel, Storage, uniform_storage
from workloads.dlrm.sharding.plan import Plan

PLANNERS = ("table_wise", "row_wise", "table_row_wise")


def group_of(planner: str, kernel: ComputeKernel, load_factor: float = 0.2, **changes: Any) -> EmbeddingGroup:
    """The group of a plan of five tables with one kernel."""
    plan, settings = planned(planner, kernel, load_factor, **changes)
    (group,) = embedding_groups(plan, settings)
    return group


def planned(planner: str, kernel: ComputeKernel, load_factor: float, **changes: Any) -> tuple[Plan, DlrmSettings]:
    made = job()
    storage = uniform_storage(len(made.tables), kernel, load_factor)
    return replace(made.make(planner), storage=storage), replace(made.settings, **changes)


def total(amount: Amount) -> float:
    """Over 16 ranks."""
    return float(np.sum(np.broadcast_to(amount, 16)))


@pytest.mark.parametrize("planner", PLANNERS)
def test_a_cache_that_has_everything_is_as_fast_as_device_memory_but_for_looking_things_up(planner: str) -> None:
    fused, cached = group_of(planner, "fused"), group_of(planner, "fused_uvm_caching", cache_hit_rate=1.0)
    assert cached.lookup.host is None
    assert total(cached.lookup.row_bytes) == pytest.approx(total(fused.lookup.row_bytes))
    assert total(cached.update.weight_bytes) == pytest.approx(total(fused.update.weight_bytes))
    assert cached.update.host is None
    assert cached.fill is not None
    assert (total(cached.fill.host.read_bytes), total(cached.fill.row_bytes)) == (0, 0)
    assert fused.fill is None
    gpu = GpuModel(load_cluster("zionex").node.accelerator, load_cluster("zionex").node, 0.0)
    for one, other in ((fused.lookup, cached.lookup), (fused.update, cached.update)):
        assert gpu.duration_s(other) == pytest.approx(gpu.duration_s(one))


@pytest.mark.parametrize("planner", PLANNERS)
def test_without_a_cache_every_lookup_and_every_update_goes_over_pcie(planner: str) -> None:
    fused, uvm = group_of(planner, "fused"), group_of(planner, "fused_uvm")
    assert uvm.lookup.host is not None
    assert uvm.update.host is not None
    assert total(uvm.lookup.host.read_bytes) == pytest.approx(total(fused.lookup.row_bytes))
    assert total(uvm.update.host.read_bytes) == pytest.approx(total(fused.update.weight_bytes) / 2)
    assert total(uvm.update.host.write_bytes) == total(uvm.update.host.read_bytes)
    assert (total(uvm.lookup.row_bytes), total(uvm.update.weight_bytes)) == (0, 0)
    assert total(uvm.update.state_bytes) == total(fused.update.state_bytes), "state per row stays on the device"


@pytest.mark.parametrize("planner", PLANNERS)
def test_a_cache_that_has_nothing_fetches_and_evicts_every_distinct_row_once(planner: str) -> None:
    """Less than UVM, which reads a row for each of its lookups and for its update, where a batch repeats rows."""
    cached = group_of(planner, "fused_uvm_caching", load_factor=1.0, cache_hit_rate=0.0)
    uvm = group_of(planner, "fused_uvm")
    assert cached.fill is not None
    assert uvm.update.host is not None
    fetched = total(cached.fill.host.read_bytes)
    assert fetched == pytest.approx(total(uvm.update.host.read_bytes))
    assert total(cached.fill.host.write_bytes) == fetched
    assert total(cached.fill.row_bytes) == pytest.approx(2 * fetched)
    assert (cached.lookup.host, cached.update.host) == (None, None)


def test_rows_that_find_no_slot_are_reached_as_without_a_cache() -> None:
    """A hit rate of 0 and hardly any slots: UVM's traffic, and the look-ups in the cache on top."""
    cached = group_of("table_wise", "fused_uvm_caching", load_factor=1e-6, cache_hit_rate=0.0)
    uvm = group_of("table_wise", "fused_uvm")
    for one, other in ((cached.lookup.host, uvm.lookup.host), (cached.update.host, uvm.update.host)):
        assert one is not None
        assert other is not None
        assert 0.97 * total(other.read_bytes) < total(one.read_bytes) < total(other.read_bytes)
    assert cached.fill is not None
    assert total(cached.fill.sort_bytes) > 0
    assert total(cached.fill.probe_bytes) > 0


def test_uniform_rows_are_found_as_often_as_their_share_of_the_cache() -> None:
    """A fifth of the rows, any of them equally likely: four fifths of the distinct rows are fetched or passed by."""
    made = job()
    large = int(np.argmax(made.tables.rows))
    storage = Storage(uniform_storage(5, "fused_uvm_caching").kernel, np.full(5, 0.2))
    plan = replace(made.make("table_wise"), storage=storage)
    (group,) = embedding_groups(plan, made.settings)
    uvm = group_of("table_wise", "fused_uvm")
    rank = int(plan.columns.rank[plan.columns.table == large][0])
    assert group.fill is not None
    passed = 0.0 if group.update.host is None else np.broadcast_to(group.update.host.read_bytes, 16)[rank]
    moved = np.broadcast_to(group.fill.host.read_bytes, 16)[rank] + passed
    assert uvm.update.host is not None
    assert moved == pytest.approx(0.8 * np.broadcast_to(uvm.update.host.read_bytes, 16)[rank], rel=0.01)


def test_rows_on_ssds_are_read_by_the_page() -> None:
    """Rows of 32 to 256 bytes, 4 KiB each."""
    group = group_of("table_wise", "key_value", cache_hit_rate=0.5)
    assert group.fill is not None
    traffic = group.fill.host
    assert total(traffic.ssd_write_bytes) == total(traffic.write_bytes) > 0
    assert total(traffic.ssd_read_bytes) > 16 * total(traffic.read_bytes)
    assert group.lookup.host is None


def test_state_of_weights_stays_beside_them_and_state_of_rows_on_the_device() -> None:
    """Adam: two numbers for each of the 48 columns or so of a row over PCIe, both ways; none of them in HBM."""
    settings = job().settings
    adam = settings.optimizer.model_copy(update={"tables": "adam"})
    fused, uvm = (group_of("row_wise", kernel, optimizer=adam) for kernel in ("fused", "fused_uvm"))  # type: ignore[arg-type]
    assert uvm.update.host is not None
    weights, state = total(fused.update.weight_bytes) / 2, total(fused.update.state_bytes) / 2
    assert total(uvm.update.host.read_bytes) == pytest.approx(weights + state)
    assert total(uvm.update.state_bytes) == 0


def test_the_fill_comes_before_the_lookup_of_its_group() -> None:
    plan, settings = planned("row_wise", "fused_uvm_caching", 0.2)
    (program,) = generate(job().resolved.model, plan, settings).programs
    fill, lookup = (program.names.index(f"row_wise_{name}") for name in ("cache_fill", "lookup"))
    assert fill < lookup
    assert program.stream_of[fill] == program.stream_of[lookup]

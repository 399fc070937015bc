"""Which tables leave device memory, what a plan file says of it, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inputs.errors import InfeasibleError, InputError
from scenarios.dlrm.plans import PlanningJob, plan_of
from tests.planning_jobs import TABLES, job, made_up, scenario_data
from workloads.dlrm.iteration.memory import stored_on_ranks
from workloads.dlrm.model.storage import (
    COMPUTE_KERNELS,
    KEY_VALUE,
    LOAD_FACTOR,
    Storage,
    bytes_in,
    uniform_storage,
)
from workloads.dlrm.sharding import PLANNERS, make_sharding_plan
from workloads.dlrm.sharding.interfaces import PlanningContext, StorageChoice
from workloads.dlrm.sharding.offload import offload
from workloads.dlrm.sharding.plan_exchange import plan_from_dict, plan_to_dict
from workloads.graph.memory import TIERS

KERNELS = ("fused", "fused_uvm", "fused_uvm_caching")
SPREADING = [name for name in PLANNERS.names() if name not in ("data_parallel", "hot_copies", "search")]


def context_of(made: PlanningJob, kernels: tuple[str, ...], hbm: float, ddr: float = 1e9, ssd: float = 0.0) -> Any:
    """What a planner is told when ranks have so many bytes."""
    allowed = np.tile([kernel in kernels for kernel in COMPUTE_KERNELS], (len(made.tables), 1))
    choice = StorageChoice(allowed, np.full(len(made.tables), LOAD_FACTOR), ddr, ssd)
    return replace(made.context, choice=choice, memory_bytes=hbm, excess_bytes=None, simulate_s=None)


def bytes_of(made: PlanningJob, context: PlanningContext, storage: Storage, tier: Any) -> int:
    """Of all tables over all ranks."""
    stored, tables = replace(context, storage=storage), made.tables
    return int(stored.stored_bytes(tables.rows, tables.dim, tables.element_bytes, tier=tier).sum())


@pytest.mark.parametrize("planner", SPREADING)
def test_tables_stay_while_they_fit_and_leave_when_they_do_not(planner: str) -> None:
    made = job()
    roomy = make_sharding_plan(planner, made.tables, context_of(made, KERNELS, 1e9))
    assert set(roomy.storage.kernel.tolist()) == {0}
    tight = make_sharding_plan(planner, made.tables, context_of(made, KERNELS, 0.6e6, ddr=2e7))
    assert set(tight.storage.kernel.tolist()) != {0}


def test_the_tables_that_leave_are_those_that_cost_least_for_their_bytes() -> None:
    """Of two tables of one size the one with fewer lookups leaves."""
    made = job()
    tables = replace(
        made.tables,
        rows=np.full(5, 10_000),
        dim=np.full(5, 64),
        element_bytes=np.full(5, 2),
        features=np.ones(5, dtype=np.int64),
        pooling_factor=np.array([50.0, 10.0, 20.0, 30.0, 40.0]),
    )
    context = context_of(made, ("fused", "fused_uvm"), 3.2 * 10_000 * 132 / 16)
    plan = offload(PLANNERS.get("row_wise"), tables, replace(context, costs=context.costs.of(tables)), context.choice)
    assert plan.storage.kernel.tolist() == [0, 1, 1, 0, 0]


def test_what_host_memory_has_no_room_for_goes_to_ssds_or_is_refused() -> None:
    made = job()
    whole = bytes_of(made, made.context, uniform_storage(5, "fused_uvm"), "ddr") / 16
    context = context_of(made, ("fused_uvm", "key_value"), 1e9, ddr=whole / 2, ssd=1e9)
    slow = replace(context.costs, machine=replace(context.costs.machine, ssd_bytes_per_s=1e8))
    context = replace(context, costs=slow)
    plan = make_sharding_plan("row_wise", made.tables, context)
    assert 0 < np.count_nonzero(plan.storage.kernel == KEY_VALUE) < 5
    for tier, room in zip(TIERS, (1e9, whole / 2, 1e9), strict=True):
        assert bytes_of(made, context, plan.storage, tier) <= 16 * room
    with pytest.raises(InfeasibleError, match=r"GB of DDR a rank"):
        make_sharding_plan("row_wise", made.tables, context_of(made, ("fused_uvm", "key_value"), 1e9, ddr=whole / 2))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(SPREADING), st.floats(2e5, 2e6), st.floats(1e6, 5e6))
def test_no_rank_holds_more_than_a_tier_has(planner: str, hbm: float, ddr: float) -> None:
    """Whatever the planner: device memory is kept on every rank, host memory over all ranks."""
    made = job()
    context = context_of(made, KERNELS, hbm, ddr)
    try:
        plan = make_sharding_plan(planner, made.tables, context)
    except InfeasibleError:
        return
    held = stored_on_ranks(plan, made.settings)
    copies = float(context.copied_bytes(made.tables)[plan.data_parallel].sum())
    assert np.all(bytes_in(held, "hbm") + copies <= hbm)
    assert float(np.sum(bytes_in(held, "ddr"))) <= 16 * ddr


def test_a_search_simulates_with_the_kernels() -> None:
    """Its plan is in host memory too, and no slower than those it began with."""
    large = [table | {"rows": 100 * int(str(table["rows"]))} for table in TABLES]  # too large to be copied to all
    model = scenario_data()["workload"]["model"] | {"tables": made_up(large)}
    made = job(model=model, sharding={"planner": "search", "steps": 4, "compute_kernels": ["fused_uvm"]})
    found, greedy = made.make("search"), made.make("greedy")
    sharded = np.setdiff1d(np.arange(5), found.data_parallel)
    assert set(found.storage.kernel[sharded].tolist()) == {1}
    assert made.simulate_s(found) <= made.simulate_s(greedy)
    in_hbm = replace(found, storage=uniform_storage(5))
    assert made.simulate_s(in_hbm) < made.simulate_s(found)


def test_constraints_hold_for_one_table() -> None:
    constraints = {"words": {"compute_kernels": ["fused_uvm_caching"], "cache_load_factor": 0.5}}
    made = job(sharding={"planner": "row_wise", "constraints": constraints})
    kernels = {name: made.make("row_wise").storage.named(i) for i, name in enumerate(made.tables.names)}
    assert kernels == dict.fromkeys(kernels, "fused") | {"words": "fused_uvm_caching"}
    assert made.context.choice is not None
    assert made.context.choice.load_factor.tolist() == [0.2, 0.2, 0.2, 0.5, 0.2]


@pytest.mark.parametrize(
    ("sharding", "message"),
    [
        ({"constraints": {"wrods": {}}}, "no such table.*wrods.*words"),
        ({"compute_kernels": ["key_value"]}, "the nodes have no SSDs"),
        ({"compute_kernels": ["uvm"]}, "compute_kernels"),
        ({"compute_kernels": []}, "compute_kernels"),
        ({"cache_load_factor": 1.5}, "cache_load_factor"),
        ({"cache_hit_rate": -0.1}, "cache_hit_rate"),
    ],
)
def test_what_cannot_be_is_refused(sharding: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        job(sharding=sharding)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from(COMPUTE_KERNELS), min_size=5, max_size=5),
    st.lists(st.floats(0.01, 1.0), min_size=5, max_size=5),
    st.sampled_from(SPREADING),
)
def test_a_written_plan_is_read_with_the_same_kernels(kernels: list[str], factors: list[float], planner: str) -> None:
    made = job()
    storage = Storage(np.array([COMPUTE_KERNELS.index(k) for k in kernels]), np.array(factors))  # type: ignore[arg-type]
    plan = replace(made.make(planner), storage=storage)
    again = plan_from_dict(json.loads(json.dumps(plan_to_dict(plan))), made.tables, 16, 8)
    for table, kind in enumerate(plan.sharding_types):
        if kind != "data_parallel":
            assert again.storage.named(table) == kernels[table]
            if "caching" in kernels[table] or kernels[table] == "key_value":
                assert again.storage.load_factor[table] == factors[table]
    assert plan_to_dict(again) == plan_to_dict(plan)


def test_a_cache_belongs_to_a_kernel_that_has_one() -> None:
    made = job()
    data = plan_to_dict(made.make("row_wise"))
    (entries,) = data["plan"].values()
    entries["tags"]["cache_params"] = {"load_factor": 0.1}
    with pytest.raises(InputError, match=r"a cache for a kernel that has none.*fused_uvm_caching or key_value"):
        plan_from_dict(data, made.tables, 16, 8)


def test_a_read_plan_puts_tables_where_it_says() -> None:
    """The run's memory has the tables of the plan in host memory."""
    made = job()
    plan = replace(made.make("row_wise"), storage=uniform_storage(5, "fused_uvm"))
    read = job(sharding={"plan": plan_to_dict(plan)})
    use = read.report(plan_of(read)).use
    assert use.tiers["ddr"]["weights"].sum() == pytest.approx(float(made.tables.weight_bytes.sum()), rel=1e-3)

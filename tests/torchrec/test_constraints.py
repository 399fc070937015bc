"""``ParameterConstraints`` of the real TorchRec: read into scenarios, obeyed, and given back."""

from __future__ import annotations

import warnings

import pytest

from tests.torchrec_jobs import BATCH, ROWS, SPARSE, config, dlrm, torchrec_plan  # first: skips without torchrec

from torchrec.distributed.planner.types import ParameterConstraints  # isort: skip
from torchrec.distributed.types import CacheAlgorithm, CacheParams

import dlrmsim
from inputs.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:FutureWarning")

KINDS = ["table_wise", "column_wise", "row_wise", "table_row_wise", "table_column_wise", "grid_shard", "data_parallel"]
MIXED = {
    "users": ParameterConstraints(sharding_types=["row_wise", "table_row_wise"], pooling_factors=[3.0]),
    "articles": ParameterConstraints(sharding_types=["column_wise"], min_partition=32),
    "words": ParameterConstraints(sharding_types=["table_column_wise"], min_partition=16),
    "tags": ParameterConstraints(compute_kernels=["dense"]),
    "shops": ParameterConstraints(compute_kernels=["fused"]),
}


def job(constraints, plan=None, module=None, **options):
    given = {"cluster": "dgx_h100", "nodes": 2, "batch_size_per_rank": BATCH, **options}
    return dlrmsim.from_torchrec(module or dlrm(), plan, constraints=constraints, **given)


def small():
    """The tables with few rows, which fit in any way."""
    return dlrm(*(config(name, min(rows, 500_000)) for name, rows in ROWS.items()))


def test_constraints_are_read():
    sharding = job(MIXED).resolved.scenario.workload.sharding
    assert sharding.constraints["users"].sharding_types == ("row_wise", "table_row_wise")
    assert sharding.constraints["articles"].min_partition == 32
    assert sharding.constraints["tags"].compute_kernels == ("dense",)
    assert sharding.constraints["shops"].compute_kernels == ("fused",)
    assert sharding.planner == "greedy", "the default"


def test_our_plans_obey_them_and_torchrec_takes_them():
    module = small()
    asked = job(MIXED, module=module)
    theirs = dlrmsim.to_torchrec(asked, module, constraints=MIXED).plan[SPARSE]
    kinds = {name: sharding.sharding_type for name, sharding in theirs.items()}
    assert kinds["users"] in ("row_wise", "table_row_wise")
    assert (kinds["articles"], kinds["words"], kinds["tags"]) == ("column_wise", "table_column_wise", "data_parallel")
    assert kinds["shops"] != "data_parallel"
    widths = [shard.shard_sizes[1] for shard in theirs["articles"].sharding_spec.shards]
    assert widths == [32, 32]


def test_plans_of_torchrecs_planner_under_constraints_are_accepted():
    module = small()
    plan = torchrec_plan(module, 16, MIXED)
    assert dlrmsim.plan(job(MIXED, plan, module).resolved).study.iteration_time_s > 0


@pytest.mark.parametrize("kind", KINDS)
def test_plans_with_single_ranges_are_accepted(kind):
    """Without ``min_partition`` TorchRec cuts no table of 64 columns, and names its single range as asked."""
    module = small()
    constraints = {"users": ParameterConstraints(sharding_types=[kind])}
    plan = torchrec_plan(module, 16, constraints)
    assert dlrmsim.plan(job(constraints, plan, module).resolved).study.iteration_time_s > 0


def test_plans_that_break_constraints_are_refused():
    module = small()
    plan = torchrec_plan(module, 16, {name: ParameterConstraints(sharding_types=["table_wise"]) for name in ROWS})
    found = job({"users": ParameterConstraints(sharding_types=["row_wise"])}, plan, module)
    message = "breaks the constraint sharding_types of users; given 'table_wise'; expected row_wise"
    with pytest.raises(InputError, match=message):
        dlrmsim.plan(found.resolved)


def test_a_type_of_some_tables_is_no_planner():
    sharding = job({"users": ParameterConstraints(sharding_types=["row_wise"])}).resolved.scenario.workload.sharding
    assert sharding.planner == "greedy"
    assert sharding.constraints["users"].sharding_types == ("row_wise",)


@pytest.mark.parametrize(
    ("given", "note"),
    [
        ({"device_group": "cpu"}, "users: device_group cpu of its constraints is left out, all ranks are cuda"),
        ({"batch_sizes": [8], "is_weighted": True}, "users: batch_sizes, is_weighted of its constraints are left out"),
        ({"enforce_hbm": True}, "users: enforce_hbm of its constraints change no time; they are for the trainer"),
        ({"cache_params": CacheParams(load_factor=0.1)}, "users: cache_params are left out, fused has no cache"),
        (
            {
                "compute_kernels": ["fused_uvm_caching"],
                "cache_params": CacheParams(algorithm=CacheAlgorithm.LFU, load_factor=0.1),
            },
            "users: algorithm of cache_params are left out",
        ),
    ],
)
def test_fields_without_a_form_are_noted(given, note):
    assert note in job({"users": ParameterConstraints(**given)}).notes


def test_the_device_group_of_the_cluster_is_no_constraint():
    found = job({"users": ParameterConstraints(device_group="cuda")})
    assert not any("device_group" in note for note in found.notes)
    assert found.resolved.scenario.workload.sharding.constraints == {}


def test_constraints_come_back():
    """Constraints come back for every table as they were read, and TorchRec's planner obeys them."""
    asked = job(MIXED)
    given = dlrmsim.torchrec_constraints(asked)
    assert set(given) == set(ROWS)
    assert given["users"].pooling_factors == [3.0]
    assert given["users"].sharding_types == ["row_wise", "table_row_wise"]
    assert given["shops"].compute_kernels == ["fused"]
    assert given["users"].compute_kernels == ["fused", "dense"]
    again = job(given).resolved.scenario.workload.sharding
    assert again == asked.resolved.scenario.workload.sharding
    kinds = {name: found.sharding_type for name, found in torchrec_plan(small(), 16, given).plan[SPARSE].items()}
    assert (kinds["articles"], kinds["words"], kinds["tags"]) == ("column_wise", "table_column_wise", "data_parallel")


def test_constraints_without_a_form_in_torchrec_are_warned_of():
    settings = ["workload.sharding.constraints.*={device_group: 0-7, together: all}"]
    with pytest.warns(UserWarning, match="device_group and together of users"):
        dlrmsim.torchrec_constraints(job({}, settings=settings))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dlrmsim.torchrec_constraints(job({}))

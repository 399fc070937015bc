"""Plans to and from the real TorchRec: round trips of its planner's plans and of ours."""

from __future__ import annotations

import copy

import pytest

from tests.torchrec_jobs import BATCH, ROWS, SPARSE, collection, dlrm, torchrec_plan  # first: skips without torchrec

from fbgemm_gpu.split_table_batched_embeddings_ops_common import BoundsCheckMode  # isort: skip
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.distributed.types import (
    CacheAlgorithm,
    CacheParams,
    EmbeddingModuleShardingPlan,
    ParameterSharding,
    ShardingPlan,
)
from torchrec.models.dlrm import DLRMTrain
from torchrec.modules.embedding_configs import DataType

import dlrmsim
from inputs.errors import InputError
from tests.torchrec_jobs import config
from workloads.dlrm.model.storage import COMPUTE_KERNELS
from workloads.dlrm.sharding.plan_exchange import plan_to_dict

pytestmark = pytest.mark.filterwarnings("ignore")

KINDS = ["table_wise", "column_wise", "row_wise", "table_row_wise", "table_column_wise", "grid_shard", "data_parallel"]
DENSE = {"mlp": {"dense_features": 13, "bottom": [32, 64], "top": [16, 1]}, "interaction": "cat"}


def job(module, plan=None, nodes=2, **options):
    given = {"cluster": "dgx_h100", "nodes": nodes, "batch_size_per_rank": BATCH, "dense": DENSE, **options}
    return dlrmsim.from_torchrec(module, plan, **given)


def constrained(**options):
    return {name: ParameterConstraints(pooling_factors=[7.0], **options) for name in ROWS}


@pytest.mark.parametrize(
    ("kind", "nodes"),
    [(kind, nodes) for kind in (None, *KINDS) for nodes in (1, 2, 8) if (kind, nodes) != ("grid_shard", 1)],
)
def test_a_plan_of_torchrec_comes_back_equal(kind, nodes):
    """All fields of the plan, of tables of any sharding type; a run takes it."""
    rows = {name: min(rows, 500_000) for name, rows in ROWS.items()}
    module = DLRMTrain(dlrm(*(config(name, count) for name, count in rows.items())))
    constraints = constrained(sharding_types=kind and [kind], min_partition=16)
    plan = torchrec_plan(module, 8 * nodes, constraints)
    given = copy.deepcopy(plan)
    found = job(module, plan, nodes, constraints=constraints)
    assert dlrmsim.to_torchrec(found) == given
    assert dlrmsim.to_torchrec(found, module) == given
    assert dlrmsim.plan(found.resolved).study.iteration_time_s > 0
    kinds = {sharding.sharding_type for sharding in given.plan[f"model.{SPARSE}"].values()}
    assert kind is None or kinds == {kind}


def test_settings_of_kernels_come_back():
    """Settings that the plan file keeps, and settings of the constraints that it lacks."""
    cache = CacheParams(algorithm=CacheAlgorithm.LFU, load_factor=0.3)
    constraints = constrained(
        compute_kernels=["fused_uvm_caching"],
        cache_params=cache,
        enforce_hbm=True,
        stochastic_rounding=False,
        bounds_check_mode=BoundsCheckMode.V2_WARNING,
        output_dtype=DataType.FP16,
    )
    module = dlrm()
    plan = torchrec_plan(module, 16, constraints)
    found = job(module, plan)
    assert dlrmsim.to_torchrec(found, constraints=constraints) == plan
    assert any("algorithm of cache_params are left out" in note for note in found.notes)
    (one,) = dlrmsim.to_torchrec(found).plan.values()
    assert {sharding.cache_params.load_factor for sharding in one.values()} == {0.3}
    assert {sharding.bounds_check_mode for sharding in one.values()} == {BoundsCheckMode.V2_WARNING}


@pytest.mark.parametrize("kind", [*KINDS, "greedy", "zigzag"])
def test_a_plan_of_ours_comes_back_equal(kind, tmp_path):
    """Written by a planner, given to TorchRec, read again: the same shards of the same tables."""
    module = dlrm()
    asked = job(module, settings=[f"workload.sharding.planner={kind}"])
    planned = dlrmsim.plan(asked.resolved, out=tmp_path / "plan")
    theirs = dlrmsim.to_torchrec(planned, module)
    again = dlrmsim.plan(job(module, theirs).resolved).study
    assert plan_to_dict(again.plan) | {"planner": ""} == plan_to_dict(planned.study.plan) | {"planner": ""}
    assert dlrmsim.to_torchrec(tmp_path / "plan", module) == theirs
    assert dlrmsim.to_torchrec(tmp_path / "plan" / "plan.json", module_path=SPARSE) == theirs


@pytest.mark.parametrize("kernel", COMPUTE_KERNELS)
def test_compute_kernels_come_back(kernel):
    module = dlrm()
    settings = [f"workload.sharding.compute_kernels=[{kernel}]", "workload.sharding.planner=table_wise"]
    study = dlrmsim.plan(job(module, settings=settings).resolved).study
    theirs = dlrmsim.to_torchrec(study.plan_file(), module)
    assert {sharding.compute_kernel for sharding in theirs.plan[SPARSE].values()} == {kernel}
    again = dlrmsim.plan(job(module, theirs).resolved).study
    assert again.plan.compute_kernels == study.plan.compute_kernels
    assert again.plan.storage.load_factor.tolist() == study.plan.storage.load_factor.tolist()


def test_column_ranges_on_one_rank_have_a_rank_each():
    """TorchRec takes the rank of the i-th shard from the i-th entry of ``ranks``."""
    module = dlrm(config("users", 1000), config("tags", 7))
    halves = [
        {"shard_offsets": [0, column], "shard_sizes": [1000, 32], "placement": "rank:3/cuda:3"} for column in (0, 32)
    ]
    entries = {
        "users": {"sharding_type": "column_wise", "ranks": [3], "sharding_spec": {"shards": halves}},
        "tags": {"sharding_type": "data_parallel"},
    }
    file = {"world_size": 8, "local_world_size": 8, "plan": {SPARSE: entries}}
    found = dlrmsim.to_torchrec(file)
    assert found.plan[SPARSE]["users"].ranks == [3, 3]
    assert plan_to_dict(dlrmsim.plan(job(module, found, nodes=1).resolved).study.plan)["plan"]


def test_shards_that_follow_need_the_module():
    module = dlrm(config("users", 1000), config("tags", 7))
    entries = {"users": {"sharding_type": "row_wise"}, "tags": {"sharding_type": "table_wise", "ranks": [1]}}
    file = {"world_size": 8, "local_world_size": 8, "plan": {"anywhere": entries}}
    with pytest.raises(InputError, match="does not list the shards of users"):
        dlrmsim.to_torchrec(file)
    found = dlrmsim.to_torchrec(file, module).plan[SPARSE]
    assert [shard.shard_sizes for shard in found["users"].sharding_spec.shards] == [[125, 64]] * 8
    assert str(found["tags"].sharding_spec.shards[0].placement) == "rank:1/cuda:1"


def test_placements_on_cpus():
    module = dlrm(config("users", 1000))
    file = {"world_size": 2, "plan": {SPARSE: {"users": {"sharding_type": "table_wise", "ranks": [1]}}}}
    found = dlrmsim.to_torchrec(file, module, device="cpu")
    assert str(found.plan[SPARSE]["users"].sharding_spec.shards[0].placement) == "rank:1/cpu"
    assert dlrmsim.to_torchrec(job(module, found, nodes=None, world_size=2)) == found


def test_a_bare_collection_has_an_empty_path():
    assert list(dlrmsim.to_torchrec(job(collection()), collection()).plan) == [""]


def test_plans_that_torchrec_cannot_train_are_refused():
    entries = {"users": {"sharding_type": "data_parallel"}}
    file = {"world_size": 2, "plan": {SPARSE: entries}}
    with pytest.raises(InputError, match="fewer rows"):
        dlrmsim.to_torchrec({**file, "rows_scale": 0.5})
    with pytest.raises(InputError, match="no such table"):
        dlrmsim.to_torchrec(file, dlrm(config("tags", 7)))
    with pytest.raises(InputError, match="one of the two"):
        dlrmsim.to_torchrec(file, dlrm(), module_path="")


def test_plans_without_a_list_of_shards_are_refused():
    sharding = ParameterSharding("table_wise", "fused", [0], sharding_spec=object())
    plan = ShardingPlan({SPARSE: EmbeddingModuleShardingPlan(users=sharding)})
    with pytest.raises(InputError, match="EnumerableShardingSpec"):
        job(dlrm(), plan)


def test_a_plan_for_another_number_of_ranks_is_refused():
    module = dlrm()
    with pytest.raises(InputError, match="rank"):
        dlrmsim.plan(job(module, torchrec_plan(module, 16), nodes=1).resolved)

"""What framework profiles change in an iteration: each by the tasks or amounts it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from inputs.errors import InfeasibleError, InputError
from scenarios.resolve import load_scenario
from simulator.collective_calls import CollectiveCall
from simulator.operators import Delay, Elementwise, EmbeddingLookup, EmbeddingUpdate, Gemm
from simulator.program import Program
from tests.workload_jobs import context_for, settings_for
from workloads.dlrm.iteration.generate import generate
from workloads.dlrm.iteration.job import make_job
from workloads.dlrm.model.choices import PrecisionChoice
from workloads.dlrm.model.model import load_model
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.table_list import TableGroup
from workloads.dlrm.model.tables import Tables, expand_tables
from workloads.dlrm.sharding import make_sharding_plan
from workloads.dlrm.sharding.dealing_planner import MOST_ELEMENTS
from workloads.graded import Graded
from workloads.graph.framework import Framework, load_framework

RANKS, BATCH = 4, 512
MODEL = load_model("mlperf_dlrm_v1")
HALF = PrecisionChoice(
    dense="fp16", tables="fp16", forward_all_to_all="fp16", backward_all_to_all="fp16", all_reduce="fp16"
)


def settings(precision: PrecisionChoice | None = None, **quantities: Any) -> DlrmSettings:
    """A job of Neo, whose profile has no fitted constants, with some quantities of its profile changed."""
    update = {key: Graded(value=value, source="a test", grade="assumed") for key, value in quantities.items()}
    changed: Framework = load_framework("neo").model_copy(update=update)
    found = settings_for("mlperf_dlrm_v1", RANKS, local_batch_size=BATCH, pipeline="none")
    return replace(found, framework=changed, precision=precision or found.precision)


def program(chosen: DlrmSettings, planner: str = "table_wise") -> Program:
    tables = expand_tables(MODEL, "fp16")
    plan = make_sharding_plan(planner, tables, context_for(tables, chosen, memory_bytes=100e9))
    return generate(MODEL, plan, chosen).programs[0]


def work(found: Program, name: str) -> Any:
    return found.work[found.names.index(name)]


def calls(found: Program, op: str) -> list[CollectiveCall]:
    return [w for w in found.work if isinstance(w, CollectiveCall) and w.op == op]


def test_a_bottom_mlp_on_the_first_rank_sees_all_samples_and_its_output_is_exchanged() -> None:
    """GEMMs of RANKS x BATCH samples there and none elsewhere; 128 elements per sample more from rank 0."""
    usual, first = program(settings()), program(settings(bottom_mlp="first_rank"))
    assert work(usual, "bottom_0_forward").m == BATCH
    assert work(first, "bottom_0_forward").m.tolist() == [RANKS * BATCH, 0, 0, 0]
    assert work(first, "bottom_1_weight_gradient").k.tolist() == [RANKS * BATCH, 0, 0, 0]
    more = work(first, "column_output_dist_forward").bytes - work(usual, "column_output_dist_forward").bytes
    assert more.tolist() == [RANKS * BATCH * 128 * 2, 0, 0, 0]
    order = [first.names.index(name) for name in ("bottom_2_activation", "column_output_dist_forward", "interaction")]
    assert order == sorted(order)
    update = [first.names.index(name) for name in ("column_output_dist_backward", "bottom_2_input_gradient")]
    assert update == sorted(update)


def test_gradients_of_a_bottom_mlp_that_one_rank_has_are_not_summed() -> None:
    bottom = sum(layer.parameters for layer in make_job_of(settings()).dense.bottom)
    usual, first = (sum(call.bytes for call in calls(program(chosen), "all_reduce")) for chosen in two("bottom_mlp"))
    assert usual - first == pytest.approx(4 * bottom)


def make_job_of(chosen: DlrmSettings) -> Any:
    tables = expand_tables(MODEL, "fp16")
    return make_job(MODEL, make_sharding_plan("table_wise", tables, context_for(tables, chosen, 100e9)), chosen)


def two(key: str) -> tuple[DlrmSettings, DlrmSettings]:
    """The usual job, and that with one quantity changed."""
    return settings(), settings(**{key: "first_rank"})


def test_owners_that_read_their_indices_exchange_none() -> None:
    """No index goes over the wire; a rank copies 4 B for each lookup of its tables instead of each of its samples."""
    usual, owners = program(settings()), program(settings(indices="read_by_owners"))
    assert len(calls(usual, "all_to_all")) == 5  # splits, lengths, values, pooled vectors, their gradients
    assert len(calls(owners, "all_to_all")) == 2
    lookups = work(owners, "column_lookup").lookups
    copied = work(owners, "input_copy").bytes
    assert copied == pytest.approx(BATCH * 13 * 4 + lookups * (4 + 4))
    assert np.sum(copied) == pytest.approx(RANKS * work(usual, "input_copy").bytes)


def test_activations_in_the_epilogue_and_kept_weights_have_no_kernels() -> None:
    names = set(program(settings(HALF)).names) - set(program(settings(HALF, activations="epilogue")).names)
    assert {name.split("_", 2)[2] for name in names if not name.startswith("launch")} == {
        "activation", "activation_backward",
    }  # fmt: skip
    kept = program(settings(HALF, half_weights="kept"))
    passes = ("weight_cast", "gradient_cast", "compress", "scale")
    assert not [name for name in kept.names if any(part in name for part in passes)]
    assert sum(isinstance(w, Gemm) for w in kept.work) == sum(isinstance(w, Gemm) for w in program(settings()).work)


@pytest.mark.parametrize(
    ("kernel", "kernels"),
    [("gather", 3), ("fused", 1), ("mask", 6)],  # cat, products, gather; all in one; mask, places, count between
)
def test_kernels_of_the_dot_interaction(kernel: str, kernels: int) -> None:
    found = program(settings(interaction_kernel=kernel))
    forward = [name for name in found.names if name.startswith("interaction") and "backward" not in name]
    assert len(forward) == kernels
    waits = [name for name in found.names if name == "wait_interaction_count"]
    assert len(waits) == (kernel == "mask")


def test_a_fused_interaction_never_writes_the_products() -> None:
    """It reads 27 vectors of 128 and writes 479 values per sample, where the others write 27 x 27 products."""
    fused, gather = (work(program(settings(interaction_kernel=k)), "interaction") for k in ("fused", "gather"))
    assert fused.flops == gather.flops == BATCH * 2 * 27 * 27 * 128
    assert fused.read_bytes == gather.read_bytes == BATCH * 27 * 128 * 4
    assert (fused.write_bytes, gather.write_bytes) == (BATCH * 479 * 4, BATCH * 27 * 27 * 4)


def test_factors_scale_what_they_are_about() -> None:
    """Twice the element-wise traffic, embedding kernels three times as long, the same GEMMs and wires."""
    one, two = program(settings()), program(settings(elementwise_factor=2.0, embedding_factor=3.0))
    for a, b in zip(one.work, two.work, strict=True):
        if isinstance(a, Elementwise):
            assert (b.read_bytes, b.write_bytes) == (  # type: ignore[union-attr]
                pytest.approx(2 * a.read_bytes), pytest.approx(2 * a.write_bytes),
            )  # fmt: skip
        elif isinstance(a, EmbeddingLookup | EmbeddingUpdate):
            assert (a.factor, b.factor) == (1.0, 3.0)  # type: ignore[union-attr]
        elif isinstance(a, Gemm):
            assert a == b


def test_launches_of_tables_and_features_are_waited_for() -> None:
    """On each rank 1 ms for each table it holds, a third of it forward; 0.1 ms for each of 26 features everywhere."""
    found = program(settings(table_s=1e-3, feature_s=1e-4, iteration_s=5e-3))
    tables = work(found, "column_lookup").tables
    forward, backward = (work(found, f"column_{name}_launches").seconds for name in ("table", "update"))
    assert forward + backward == pytest.approx(1e-3 * tables)
    assert backward == pytest.approx(2 * forward)
    features = [w.seconds for n, w in zip(found.names, found.work, strict=True) if n.startswith("feature_launches")]
    assert sum(features) == pytest.approx(26e-4)
    assert work(found, "iteration_launches").seconds == 5e-3
    assert not any(isinstance(w, Delay) for w in program(settings()).work)


def test_a_profile_brings_its_own_pipeline_planner_and_exchange() -> None:
    """A scenario that says otherwise wins; stores are HugeCTR's on one node too."""
    found = load_scenario("mlperf_dlrm_v1", ("workload.framework=hugectr_2022", "nodes=2"))
    assert found.scenario.workload.pipeline == "inter_iteration"
    own = {"all_to_all": "stored", "all_reduce": "one_shot"}
    assert found.scenario.network.algorithms == own
    assert load_scenario("mlperf_dlrm_v1", ("workload.framework=hugectr_2022",)).scenario.network.algorithms == own
    ring = ("workload.framework=hugectr_2022", "network.algorithms={all_reduce: ring}")
    assert load_scenario("mlperf_dlrm_v1", ring).scenario.network.algorithms == {**own, "all_reduce": "ring"}
    later = load_scenario("mlperf_dlrm_dcnv2", ("nodes=2",)).scenario
    assert later.network.algorithms == {"all_to_all": "hierarchical"}
    assert later.workload.sharding.planner == "hot_copies"
    assert load_scenario("mlperf_dlrm_dcnv2").scenario.network.algorithms == {}
    assert load_scenario("synthetic_tiny").scenario.workload.sharding.planner == "zigzag"
    said = ("workload.framework=hugectr_2022", "workload.pipeline=none", "workload.sharding.planner=row_wise")
    assert load_scenario("synthetic_tiny", said).scenario.workload.pipeline == "none"
    assert load_scenario("synthetic_tiny", said).scenario.workload.sharding.planner == "row_wise"


def test_hybrid_embedding_comes_with_a_profile_where_model_and_optimizer_allow_it() -> None:
    """DLRM v1 is one-hot with SGD; DCNv2 is neither; a listed alternative turns it off; one rank needs none."""
    hugectr = "workload.framework=hugectr_2022"
    off = 'workload.alternatives={"hybrid_embedding": false}'
    assert load_scenario("mlperf_dlrm_v1", (hugectr,)).scenario.workload.hybrid_embedding is not None
    for scenario, more in (
        ("mlperf_dlrm_dcnv2", ()),
        ("mlperf_dlrm_v1", (off,)),
        ("mlperf_dlrm_v1", ("world_size=1",)),
    ):
        assert load_scenario(scenario, (hugectr, *more)).scenario.workload.hybrid_embedding is None


def test_features_with_poolings_of_their_own() -> None:
    """[1, 10] is two vectors and 11 lookups per sample; a list of another length than the features is refused."""
    group = TableGroup(rows=100, dim=8, pooling_factor=(1.0, 10.0), count=2)
    assert group.feature_pooling == (1.0, 10.0)
    model = load_model("synthetic_tiny")
    tables = expand_tables(model)
    assert tables.feature_count == 58
    assert float(tables.lookups_per_sample.sum()) == 55 + 3 * 10
    assert tables.pooling_of_features(0) == (1.0, 10.0)
    assert tables.pooling_of_features(3) == (1.0,)
    with pytest.raises(ValueError, match="2 pooling factors for 3 features"):
        TableGroup(rows=100, dim=8, pooling_factor=(1.0, 10.0), features=3)


@pytest.mark.parametrize(
    ("name", "gib"), [("tiny", 4.2), ("small", 26.3), ("medium", 206.2), ("large", 773.8), ("jumbo", 3109.5)]
)
def test_synthetic_models_have_the_published_size(name: str, gib: float) -> None:
    """GiB of fp32, to the digit that NVIDIA's README prints."""
    assert expand_tables(load_model(f"synthetic_{name}")).parameters * 4 / 2**30 == pytest.approx(gib, abs=0.05)


def test_zigzag_deals_by_size_and_cuts_the_largest() -> None:
    """Nine equal tables and one of 16 columns too large by three: four ranges of it; ranks differ by one shard."""
    rows = [int(3 * MOST_ELEMENTS / 16)] + [1000] * 9
    tables = Tables(
        names=tuple(f"t{i}" for i in range(10)),
        rows=np.array(rows, dtype=np.int64),
        dim=np.full(10, 16, dtype=np.int64),
        pooling_factor=np.ones(10),
        element_bytes=np.full(10, 4, dtype=np.int64),
        features=np.ones(10, dtype=np.int64),
    )
    chosen = settings()
    plan = make_sharding_plan("zigzag", tables, context_for(tables, chosen, memory_bytes=100e9))
    assert sorted(plan.columns.dim[plan.columns.table == 0].tolist()) == [4, 4, 4, 4]
    assert sorted(plan.columns.rank[plan.columns.table == 0].tolist()) == [0, 1, 2, 3]
    assert sorted(np.bincount(plan.columns.rank, minlength=RANKS).tolist()) == [3, 3, 3, 4]
    with pytest.raises(InfeasibleError, match="shards of equal number"):
        make_sharding_plan("zigzag", tables, context_for(tables, chosen, memory_bytes=1e9))


def test_more_than_four_constants_are_refused(tmp_path: Any) -> None:
    from dlrmsim.verbs.calibrate_frameworks import calibrate_frameworks

    five = ("operator_s", "elementwise_factor", "embedding_factor", "iteration_s", "table_s")
    with pytest.raises(InputError, match="one to four"):
        calibrate_frameworks("sok", out=tmp_path / "a.yaml", constants=five)
    with pytest.raises(InputError, match="operator_s"):
        calibrate_frameworks("sok", out=tmp_path / "a.yaml", constants=("operators_s",))
    with pytest.raises(InputError, match="no calibration case"):
        calibrate_frameworks("neo", out=tmp_path / "a.yaml", constants=("operator_s",), suites=("nvidia_examples",))
    assert not list(tmp_path.iterdir())

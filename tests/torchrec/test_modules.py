"""Modules of the real TorchRec as scenarios: tables, dense part, pooling, optimizers, files."""

from __future__ import annotations

import pytest

from tests.torchrec_jobs import (
    BATCH,
    META,
    ROWS,
    SPARSE,
    collection,
    config,
    dcn,
    dlrm,
)  # first: skips without torchrec

import torch  # isort: skip
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.models.dlrm import DLRMTrain
from torchrec.modules.embedding_configs import DataType, EmbeddingConfig, PoolingType
from torchrec.modules.embedding_modules import EmbeddingCollection
from torchrec.modules.feature_processor_ import PositionWeightedModuleCollection
from torchrec.modules.fp_embedding_modules import FeatureProcessedEmbeddingBagCollection
from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward
from torchrec.optim.rowwise_adagrad import RowWiseAdagrad

import dlrmsim
from inputs.errors import InputError
from trainer.torchrec.collections import collections_of

pytestmark = pytest.mark.filterwarnings("ignore")

DENSE = {"mlp": {"dense_features": 13, "bottom": [32, 64], "top": [16, 1]}, "interaction": "cat"}


def taken(module, **options):
    given = {"cluster": "dgx_h100", "nodes": 1, "batch_size_per_rank": BATCH, **options}
    return dlrmsim.from_torchrec(module, **given)


def model_of(module, **options):
    return taken(module, **options).resolved.model


def tables_of(module, **options):
    return {group.name: group for group in model_of(module, **options).tables.value}


def test_tables_have_their_names_rows_and_widths():
    found = tables_of(dlrm())
    assert {name: group.rows for name, group in found.items()} == ROWS
    assert {(group.dim, group.features, group.precision) for group in found.values()} == {(64, 1, "fp32")}


def test_a_wrapped_module_has_the_tables_at_its_path():
    (found,) = collections_of(DLRMTrain(dlrm()))
    assert found.path == f"model.{SPARSE}"
    assert collections_of(collection())[0].path == ""


@pytest.mark.parametrize("wrap", [lambda module: module, DLRMTrain], ids=["DLRM", "DLRMTrain"])
def test_layers_of_a_dlrm_are_those_of_the_model(wrap):
    model = model_of(wrap(dlrm()))
    assert (model.mlp.dense_features.value, model.mlp.bottom.value, model.mlp.top.value) == (13, (32, 64), (16, 1))
    assert model.interaction.value == "dot"


def test_a_cross_network_keeps_layers_and_rank():
    model = model_of(dcn(layers=3, rank=5))
    assert model.interaction.value == "dcnv2"
    assert (model.cross.layers.value, model.cross.rank.value) == (3, 5)


def test_dense_parameters_are_as_many_as_in_the_module():
    """Every parameter outside the tables, of dot and of cross layers."""
    from workloads.dlrm.model.dense import dense_part
    from workloads.dlrm.model.tables import expand_tables

    for module in (dlrm(), dcn(layers=2, rank=7)):
        model = model_of(module)
        counted = sum(weights.numel() for name, weights in module.named_parameters() if "sparse_arch" not in name)
        assert dense_part(model, expand_tables(model)).parameters == counted


def test_features_that_share_a_table_have_a_pooling_factor_each():
    shared = config("articles", 1000, feature_names=["clicked", "bought"])
    for pooling in ({"articles": [20, 3.5]}, {"clicked": 20, "bought": 3.5}):
        assert tables_of(dlrm(shared), pooling_factors=pooling)["articles"].pooling_factor == (20, 3.5)
    constraints = {"articles": ParameterConstraints(pooling_factors=[20, 3.5], num_poolings=[2, 1])}
    assert tables_of(dlrm(shared), constraints=constraints, dense=DENSE)["articles"].feature_pooling == (20, 20, 3.5)


def test_an_unknown_pooling_factor_is_one_and_noted():
    found = taken(dlrm(), pooling_factors={name: 2 for name in ROWS if name != "tags"})
    assert "pooling factor 1 is assumed for tags" in found.notes


def test_data_types_and_weights():
    tables = [config("short", 10, data_type=DataType.FP16), config("mean", 10, pooling=PoolingType.MEAN)]
    module = collection(*tables, weighted=True)
    found = taken(module, dense=DENSE)
    assert [group.precision for group in found.resolved.model.tables.value] == ["fp16", "fp32"]
    assert "weights of indices are left out, of short, mean" in found.notes
    assert [table.pooling for table in collections_of(module)[0].tables] == ["sum", "mean"]


def test_unpooled_tables_are_noted():
    listed = EmbeddingConfig(name="sequence", num_embeddings=10, embedding_dim=8, feature_names=["clicks"])
    module = torch.nn.ModuleDict(
        {"pooled": collection(), "unpooled": EmbeddingCollection(tables=[listed], device=META)}
    )
    notes = taken(module, dense=DENSE).notes
    assert "EmbeddingCollections are left out, their vectors are not pooled: unpooled" in notes


STACK = {"sequence": "history", "layers": 2, "width": 64, "heads": 2, "qk_width": 32, "value_width": 32}
HISTORY = {"max_length": 50, "lengths": {"distribution": "fixed"}}
PREDICTIONS = {"mlp": {"dense_features": 0, "bottom": [], "top": [1]}, "interaction": "hstu"}


def unpooled(**features):
    listed = [
        EmbeddingConfig(name=name, num_embeddings=1000, embedding_dim=64, feature_names=names)
        for name, names in features.items()
    ]
    return torch.nn.ModuleDict({"unpooled": EmbeddingCollection(tables=listed, device=META)})


def test_tables_of_an_embedding_collection_have_the_sequence_of_the_stack():
    described = {
        **PREDICTIONS,
        "sequences": {"history": HISTORY, "context": {**HISTORY, "max_length": 1}},
        "hstu": {**STACK, "context": "context", "preprocessor_width": 32},
    }
    module = unpooled(item=["item", "candidate"], user=["user"])
    found = taken(module, dense=described, sequences={"user": "context"})
    tables = {group.name: (group.sequence, group.features) for group in found.resolved.model.tables.value}
    assert tables == {"item": ("history", 2), "user": ("context", 1)}
    assert not any("EmbeddingCollections" in note for note in found.notes)
    summary = dlrmsim.run(found.resolved).summary
    assert summary["sequences"]["positions_per_sample"]["maximum"] == 51


def test_a_job_with_sequences_is_read_back_from_its_files(tmp_path):
    described = {**PREDICTIONS, "sequences": {"history": HISTORY}, "hstu": STACK}
    taken(unpooled(item=["item"]), dense=described, out=tmp_path / "job")
    assert "sequence" in (tmp_path / "job" / "tables.csv").read_text().splitlines()[0]
    summary = dlrmsim.run(tmp_path / "job" / "scenario.yaml").summary
    assert summary["sequences"]["positions_per_sample"]["mean"] == 50.0


def test_a_processed_collection_has_the_path_of_its_processor():
    inner = collection(config("users", 10, 8), weighted=True)
    module = torch.nn.Sequential(
        FeatureProcessedEmbeddingBagCollection(inner, PositionWeightedModuleCollection({"users_id": 5}, device=META))
    )
    assert [found.path for found in collections_of(module)] == ["0"]


def test_the_optimizer_of_the_tables_is_read():
    module = dlrm()
    apply_optimizer_in_backward(RowWiseAdagrad, module.sparse_arch.parameters(), {"lr": 0.1})
    chosen = taken(module).resolved.scenario.workload.optimizer
    assert chosen.tables == "rowwise_adagrad"
    assert taken(module, optimizer={"tables": "adam"}).resolved.scenario.workload.optimizer.tables == "adam"


def test_constraints_limit_the_kernels_of_a_planner():
    constraints = {
        "users": ParameterConstraints(compute_kernels=["fused", "fused_uvm_caching", "quant"], min_partition=4)
    }
    found = taken(dlrm(), constraints=constraints)
    section = found.resolved.scenario.workload.sharding
    assert section.constraints["users"].compute_kernels == ("fused", "fused_uvm_caching")
    assert section.constraints["users"].min_partition == 4
    assert "users: the kernels quant are left out" in found.notes


def test_one_sharding_type_for_all_is_a_planner():
    constraints = {name: ParameterConstraints(sharding_types=["row_wise"]) for name in ROWS}
    assert taken(dlrm(), constraints=constraints).resolved.scenario.workload.sharding.planner == "row_wise"


def test_files_are_the_same_scenario_and_run(tmp_path):
    constraints = {name: ParameterConstraints(pooling_factors=[3.0]) for name in ROWS}
    found = taken(
        dlrm(), constraints=constraints, settings=["workload.pipeline=sparse_dist"], name="mine", out=tmp_path / "job"
    )
    assert {path.name for path in found.folder.iterdir()} == {"scenario.yaml", "model.yaml", "tables.csv", "run.json"}
    assert dlrmsim.load_scenario(tmp_path / "job" / "scenario.yaml").hash == found.resolved.hash
    run = dlrmsim.run(tmp_path / "job" / "scenario.yaml", report=False, levers=False, out=tmp_path / "run")
    assert run.iteration_time_s == dlrmsim.plan(found.resolved).study.iteration_time_s


@pytest.mark.parametrize(
    ("module", "options", "message"),
    [
        (torch.nn.Linear(2, 2), {}, "has no EmbeddingBagCollection"),
        (collection(), {}, "is no DLRM of TorchRec"),
        (torch.nn.ModuleList([collection(), collection()]), {"dense": DENSE}, "two tables have one name"),
        (dlrm(), {"pooling_factors": {"uesrs": 3}}, "did you mean 'users'"),
        (dlrm(), {"pooling_factors": {"users": [1, 2]}}, "2 figures for 1 features"),
        (dlrm(), {"constraints": {"user": ParameterConstraints()}}, "did you mean 'users'"),
        (dlrm(), {"world_size": 8}, "one of nodes and world_size"),
        (collection(config("counts", 10, data_type=DataType.INT64)), {"dense": DENSE}, "data type of counts"),
    ],
)
def test_modules_that_are_no_scenario_are_refused(module, options, message):
    with pytest.raises(InputError, match=message):
        taken(module, **options)

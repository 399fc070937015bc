"""The interactions of small models written for the test: widths, parameters, FLOPs, tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from inputs.errors import InputError
from simulator.operators import Gemm
from tests.workload_jobs import context_for, settings_for
from workloads.dlrm.iteration.generate import generate
from workloads.dlrm.model.dense import dense_part
from workloads.dlrm.model.model import DlrmModel, load_model
from workloads.dlrm.model.tables import expand_tables
from workloads.dlrm.sharding import make_sharding_plan

TEXT = """
name: small
title: three tables of 16
tables:
  source: me
  grade: assumed
  value: [{{rows: 1000, dim: {dim}, pooling_factor: 3, count: 3}}]
mlp:
  dense_features: {{value: 13, source: me, grade: assumed}}
  bottom: {{value: [32, 16], source: me, grade: assumed}}
  top: {{value: [64, 1], source: me, grade: assumed}}
interaction: {{value: {kind}, source: me, grade: assumed}}
index_reuse: {{value: uniform, source: me, grade: assumed}}
local_batch_size: {{value: 64, source: me, grade: assumed}}
"""
CROSS = "cross: {layers: {value: 2, source: me, grade: assumed}, rank: {value: 8, source: me, grade: assumed}}\n"
STRIDE = "pool_stride: {value: 5, source: me, grade: assumed}\n"
MLP_FLOPS = 2 * (13 * 32 + 32 * 16)


def small(folder: Path, kind: str, dim: int = 16) -> DlrmModel:
    file = folder / "small.yaml"
    file.write_text(TEXT.format(kind=kind, dim=dim) + {"dcnv2": CROSS, "pool": STRIDE}.get(kind, ""))
    return load_model(file)


@pytest.mark.parametrize(
    ("kind", "width", "flops"),
    [
        ("dot", 16 + 4 * 3 // 2, 2 * 4 * 4 * 16),  # 4 vectors of 16: 6 pairs kept beside the bottom's output
        ("cat", 16 + 3 * 16, 0),
        ("dcnv2", 16 + 3 * 16, 2 * 2 * 2 * 64 * 8),  # two layers, each 64 -> 8 -> 64
        ("reduce", 13, 0),  # as wide as the input of the bottom MLP
        ("pool", 16 + 10, 0),  # 48 elements in means of 5: nine whole windows and one of three
    ],
)
def test_widths_and_flops(tmp_path: Path, kind: str, width: int, flops: int) -> None:
    """The top MLP's input is what the interaction gives; FLOPs are those of MLPs and interaction."""
    model = small(tmp_path, kind)
    part = dense_part(model, expand_tables(model))
    assert part.top[0].inputs == width
    assert part.flops_per_sample == MLP_FLOPS + 2 * (width * 64 + 64) + flops


@pytest.mark.parametrize("pipeline", ["none", "sparse_dist"])
@pytest.mark.parametrize("kind", ["dot", "cat", "dcnv2", "pool"])
@pytest.mark.parametrize("planner", ["table_wise", "column_wise", "row_wise", "data_parallel", "greedy"])
def test_every_combination_generates(tmp_path: Path, kind: str, planner: str, pipeline: str) -> None:
    """Each interaction, sharding and pipeline gives a valid graph with a weight gradient for every layer."""
    model = small(tmp_path, kind)
    settings = settings_for("zionex_i", 4, local_batch_size=64, pipeline=pipeline)  # type: ignore[arg-type]
    tables = expand_tables(model, "fp16")
    plan = make_sharding_plan(planner, tables, context_for(tables, settings))
    program = generate(model, plan, settings).programs[0]
    layers = dense_part(model, tables).layers
    assert {f"{layer.name}_weight_gradient" for layer in layers} <= set(program.names)
    gemms = sum(isinstance(work, Gemm) for work in program.work)
    assert gemms == 3 * len(layers) - 1


@pytest.mark.parametrize(
    ("layer", "order"),
    [
        ("cross_0_v", ["weight_gradient", "input_gradient", "gradient_scale"]),
        ("cross_0_u", ["input_gradient", "weight_gradient", "gradient_scale"]),
    ],
)
def test_gradients_come_as_autograd_makes_them(tmp_path: Path, layer: str, order: list[str]) -> None:
    """Of a layer without bias (v) the weights' first; both are there before one is scaled and may be reduced."""
    model = small(tmp_path, "dcnv2")
    settings = settings_for("zionex_i", 4, local_batch_size=64)
    tables = expand_tables(model, "fp16")
    plan = make_sharding_plan("table_wise", tables, context_for(tables, settings))
    names = generate(model, plan, settings).programs[0].names
    kept = [name.removeprefix(f"{layer}_") for name in names if name.startswith(layer) and "gradient" in name]
    assert kept == order


def test_a_dot_of_unequal_vectors_is_refused(tmp_path: Path) -> None:
    """Products need vectors of one length: the tables have 20, the bottom MLP ends with 16."""
    model = small(tmp_path, "dot", dim=20)
    with pytest.raises(InputError, match="one length"):
        dense_part(model, expand_tables(model))


def test_cross_layers_go_with_dcnv2_only(tmp_path: Path) -> None:
    """A cross in a model of another interaction would be ignored, so it is refused."""
    file = tmp_path / "small.yaml"
    file.write_text(TEXT.format(kind="cat", dim=16) + CROSS)
    with pytest.raises(InputError, match="cross goes with interaction dcnv2"):
        load_model(file)


def test_without_a_bottom_mlp_the_dense_features_enter_the_interaction(tmp_path: Path) -> None:
    """13 features beside 48 pooled elements; the interaction waits for the copy, and the copy for it."""
    model = small(tmp_path, "cat").model_copy(deep=True)
    assert model.mlp is not None
    bottom = model.mlp.bottom.model_copy(update={"value": ()})
    model = model.model_copy(update={"mlp": model.mlp.model_copy(update={"bottom": bottom})})
    tables = expand_tables(model)
    assert dense_part(model, tables).top[0].inputs == 13 + 48
    settings = settings_for("zionex_i", 4, local_batch_size=64, pipeline="none")
    plan = make_sharding_plan("table_wise", tables, context_for(tables, settings))
    program = generate(model, plan, settings).programs[0]
    assert not [name for name in program.names if name.startswith("bottom")]
    reads, copy = program.names.index("pooled_permute"), program.names.index("input_copy")
    assert (copy, 0) in list(program.dependencies(reads))
    assert (reads, 2) in list(program.dependencies(copy))

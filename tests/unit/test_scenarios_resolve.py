"""Resolving: names are inlined, defaults filled, and every mistake is told at its line."""

from pathlib import Path

import pytest
import yaml

from inputs.errors import InputError
from inputs.yaml_lines import parse_yaml
from scenarios.library import CATALOG
from scenarios.resolve import load_scenario, resolve

TEXT = """\
name: mine
cluster: zionex
nodes: 2
workload:
  model: zionex_a
  global_batch_size: 8192
"""


def resolved(text: str, file: Path = Path("mine.yaml")):
    return resolve(parse_yaml(text, file))


@pytest.mark.parametrize("name", CATALOG.names())
def test_every_shipped_scenario_resolves_and_is_named_like_its_file(name):
    assert load_scenario(name).name == name


@pytest.mark.parametrize("name", CATALOG.names())
def test_the_resolved_yaml_runs_as_it_is_and_has_the_same_hash(name):
    one = load_scenario(name)
    text = yaml.safe_dump(one.to_dict(), sort_keys=False)
    assert resolved(text).hash == one.hash


def test_nodes_give_the_world_size():
    assert resolved(TEXT).world_size == 16


def test_world_size_may_be_part_of_a_node():
    one = resolved(TEXT.replace("nodes: 2", "world_size: 4"))
    assert (one.world_size, one.nodes) == (4, 1)


def test_a_missing_batch_is_the_local_batch_of_the_model_on_every_rank():
    one = resolved(TEXT.replace("  global_batch_size: 8192\n", ""))
    assert one.global_batch_size == 16 * one.model.local_batch_size.value


def test_the_hash_does_not_depend_on_how_a_quantity_or_a_default_is_written():
    assert resolved(TEXT).hash == resolved(TEXT + "placement: block\nrun: {iterations: auto}\n").hash


def test_the_hash_depends_on_what_is_run():
    assert resolved(TEXT).hash != resolved(TEXT.replace("8192", "16384")).hash


def test_a_batch_need_not_divide_but_every_rank_has_a_sample():
    """16 ranks: 8,200 samples are 513 on the ranks with most; 15 are too few, at their line."""
    assert resolved(TEXT.replace("8192", "8200")).local_batch_size == 513
    with pytest.raises(InputError) as error:
        resolved(TEXT.replace("8192", "15"))
    assert (error.value.line, error.value.key) == (6, "workload.global_batch_size")
    assert "expected 16 or more" in str(error.value)


def test_two_sizes_are_one_too_many():
    with pytest.raises(InputError, match="one of nodes and world_size"):
        resolved(TEXT + "world_size: 16\n")


def test_no_size_is_an_error():
    with pytest.raises(InputError, match="nodes or world_size"):
        resolved(TEXT.replace("nodes: 2\n", ""))


def test_a_size_from_the_command_line_takes_the_place_of_the_other_kind():
    assert load_scenario("zionex_a_128", ["world_size=4"]).world_size == 4
    assert load_scenario("zionex_a_128", ["nodes=2"]).world_size == 16


@pytest.mark.parametrize("setting", ["nodes", "=3", ""])
def test_a_setting_without_key_or_value_is_an_error(setting):
    with pytest.raises(InputError, match="KEY=VALUE"):
        load_scenario("zionex_a_128", [setting])


@pytest.mark.parametrize(
    ("change", "line", "nearest"),
    [
        (("cluster: zionex", "cluster: zionx"), 2, "zionex"),
        (("model: zionex_a", "model: zionex_b"), 5, "zionex_"),
        (("nodes: 2", "nodse: 2"), 3, "nodes"),
    ],
)
def test_a_misspelt_name_is_told_at_its_line_with_the_nearest_one(change, line, nearest):
    with pytest.raises(InputError) as error:
        resolved(TEXT.replace(*change))
    assert error.value.line == line
    assert error.value.nearest.startswith(nearest)


def test_an_unlisted_alternative_is_told_at_its_line():
    with pytest.raises(InputError, match="1000, 4096") as error:
        resolved(TEXT + "  alternatives:\n    tables: 7\n")
    assert error.value.line == 8


def test_a_precision_the_gpu_does_not_compute_in_is_told_where_it_was_set():
    with pytest.raises(InputError, match=r"precision\.dense.*fp16") as error:
        load_scenario("mlperf_dlrm_v1_v100", ["precision.dense=bf16"])
    assert "--set" in str(error.value.file)


@pytest.mark.parametrize("setting", ["output.record.ranks=[0, 128]", "variation.straggler_ranks=[128]"])
def test_a_rank_that_does_not_exist_is_refused(setting):
    with pytest.raises(InputError, match="0 to 127"):
        load_scenario("zionex_a_128", [setting])


def test_recording_no_rank_is_refused():
    with pytest.raises(InputError, match="at least one"):
        load_scenario("zionex_a_128", ["output.record.ranks=[]"])


def test_planner_and_plan_exclude_each_other():
    with pytest.raises(InputError, match="one of planner and plan"):
        resolved(TEXT + "  sharding: {planner: greedy, plan: plan.yaml}\n")


def test_a_plan_from_the_command_line_takes_the_place_of_the_planner(tmp_path):
    (tmp_path / "plan.yaml").write_text("world_size: 8\nplan: {}\n")
    setting = f"workload.sharding.plan={tmp_path / 'plan.yaml'}"
    sharding = load_scenario("mlperf_dlrm_v1", [setting]).scenario.workload.sharding
    assert sharding.planner is None
    assert sharding.plan["world_size"] == 8


def test_shards_of_a_copied_table_are_refused(tmp_path):
    spec = "{shards: [{shard_offsets: [0, 0], shard_sizes: [9, 4], placement: 'rank:0/cuda:0'}]}"
    (tmp_path / "plan.yaml").write_text(
        f"world_size: 8\nplan:\n  ebc:\n    table_0:\n      sharding_type: data_parallel\n      sharding_spec: {spec}\n"
    )
    with pytest.raises(InputError, match=r"plan.yaml:6: plan.ebc.table_0.sharding_spec: a data_parallel table with"):
        load_scenario("mlperf_dlrm_v1", [f"workload.sharding.plan={tmp_path / 'plan.yaml'}"])


def test_a_plan_file_is_found_beside_the_scenario_and_inlined(tmp_path):
    (tmp_path / "plan.yaml").write_text("world_size: 16\nplan: {}\n")
    one = resolved(TEXT + "  sharding: {plan: plan.yaml}\n", tmp_path / "mine.yaml")
    assert one.scenario.workload.sharding.plan["world_size"] == 16
    assert resolved(yaml.safe_dump(one.to_dict())).hash == one.hash


def test_a_mistake_in_a_plan_file_is_told_at_its_line(tmp_path):
    (tmp_path / "plan.yaml").write_text("world_size: 16\nplan:\n  ebc: {table_0: {sharding_type: table_wide}}\n")
    with pytest.raises(InputError) as error:
        resolved(TEXT + "  sharding: {plan: plan.yaml}\n", tmp_path / "mine.yaml")
    assert (error.value.file, error.value.line) == (str(tmp_path / "plan.yaml"), 3)
    assert error.value.nearest == "table_wise"

"""Operator times of traced iterations, the groups of tasks, and jobs drawn at random."""

import gzip
import json

import numpy as np
import pytest

from inputs.errors import InputError
from tests.pipeline_jobs import MODEL, small_plan, small_settings
from validation.host.iteration_parts import group_of
from validation.host.operator_times import ENDS, ISSUE, WAIT, read_timed
from validation.host.random_jobs import Limits, random_job
from workloads.dlrm.iteration.generate import generate
from workloads.dlrm.model.model import load_model


@pytest.mark.parametrize(
    ("task", "group"),
    [
        ("launch_input_copy", "input"), ("column_input_dist_values", "input"), ("input_dist_recat", "input"),
        ("launch_column_lookup", "embedding"), ("launch_column_output_dist_forward", "embedding"),
        ("bottom_0_activation", "bottom_mlp"), ("interaction_cat", "interaction"), ("pooled_permute", "interaction"),
        ("top_1_activation", "top_mlp"), ("loss", ENDS), ("dense_optimizer", ENDS),
        ("loss_backward", "backward"), ("launch_top_1_weight_gradient", "backward"),
        ("interaction_add", "backward"), ("pooled_gradient_permute", "backward"),
        ("launch_column_output_dist_backward", "backward"), ("bottom_0_gradient_scale", "backward"),
        ("launch_gradient_all_reduce_0", "backward"), ("launch_column_update", "column_update"),
        ("column_lookup", "column_lookup"), ("column_update", "column_update"),
    ],
)  # fmt: skip
def test_tasks_belong_to_the_groups_of_the_trainer(task, group):
    settings = small_settings(pipeline="none", on_host=True)
    (program,) = generate(load_model(MODEL), small_plan(planner="table_wise"), settings).programs
    at = program.names.index(task)
    assert group_of(task, program.sections[at], program.work[at]) == group


def trace(tmp_path, *steps):
    """A trace whose iterations hold these (name, begin, end) in microseconds after their own begin.

    Each is 3 ms behind the one before: in between is one that was not timed.
    """
    events, begin = [], 0
    for number, (length, inside) in enumerate(steps):
        marked = [(f"ProfilerStep#{number}", 0, length, "user_annotation"), *inside]
        events += [
            {"ph": "X", "name": name, "cat": kind, "ts": begin + low, "dur": high - low, "pid": 1, "tid": 1, "args": {}}
            for name, low, high, kind in marked
        ]
        begin += length + 3000
    file = tmp_path / "rank0.json.gz"
    with gzip.open(file, "wt") as stream:
        json.dump({"traceEvents": events}, stream)
    return file


ITERATION = [
    ("input_dist_wait", 0, 100, "user_annotation"),
    (WAIT, 10, 60, "user_annotation"),
    ("backward", 110, 500, "user_annotation"),
    ("aten::mm", 120, 320, "cpu_op"),
    ("c10d::allreduce_", 330, 350, "cpu_op"),
    ("aten::mm", 360, 400, "cpu_op"),
    ("embedding_backward", 500, 800, "user_annotation"),
    ("column_update", 510, 790, "user_annotation"),
    ("aten::mm", 520, 530, "cpu_op"),
]


def test_groups_add_up_to_the_iteration(tmp_path):
    """A product inside an update is part of the update; what lies between iterations counts for none."""
    found = read_timed(trace(tmp_path, (1000, ITERATION), (1000, ITERATION)))
    assert found.steps_s.tolist() == [0.001, 0.001]
    microseconds = {name: round(seconds * 1e6) for name, seconds in found.groups_s.items()}
    assert microseconds == {
        "input": 50, WAIT: 50, "backward": 130, "gemm": 240, ISSUE: 20, "embedding": 20, "column_update": 280,
        ENDS: 210,
    }  # fmt: skip
    assert [round(seconds * 1e6) for seconds in found.gemms_s] == [200, 40]


@pytest.mark.parametrize(
    ("page_faults", "counted"),
    [([0, 4, 5], [1, 2]), ([100, 100, 103], [1, 2, 3]), ([9, 50, 2], [3]), ([90, 50, 60], [2])],
)
def test_iterations_that_touch_many_new_pages_do_not_count(tmp_path, page_faults, counted):
    """Of the stage's iterations, by their numbers: the first is 1 ms long, the second 2, the third 3."""
    file = trace(tmp_path, *((1000 * length, ITERATION) for length in (1, 2, 3)))
    assert (read_timed(file, np.array(page_faults)).steps_s * 1e3).round().tolist() == counted
    assert len(read_timed(file).steps_s) == 3


def test_a_trace_without_iterations_is_refused(tmp_path):
    with pytest.raises(InputError, match="no iterations"):
        read_timed(trace(tmp_path))


def test_drawn_jobs_are_the_same_for_the_same_seed_and_keep_to_limits():
    first, again = (random_job(np.random.default_rng(3), "x", "host", 2) for _ in range(2))
    assert first == again
    assert first["world_size"] == 2
    tables = first["workload"]["model"]["tables"]["value"]
    size = sum(4.0 * table["rows"] * table["dim"] for table in tables)
    assert Limits(size).allow(first)
    assert not Limits(size - 1).allow(first)
    assert not Limits(size, flops=1.0).allow(first)
    assert not Limits(size, gathered_bytes=1.0).allow(first)

"""The task graph: what waits for what."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from inputs.errors import InputError
from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from simulator.operators import Elementwise
from simulator.program import Program
from tests.workload_jobs import context_for, graph_of, job_of, plan_of, settings_for
from workloads.dlrm.iteration.generate import generate
from workloads.dlrm.iteration.memory import bytes_beside_tables, memory_per_rank
from workloads.dlrm.model.choices import Optimizer
from workloads.dlrm.model.model import load_model
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.tables import expand_tables
from workloads.dlrm.sharding import make_sharding_plan
from workloads.graph.schedule import SCHEDULES


def program_of(pipeline: str = "sparse_dist", planner: str = "greedy", model: str = "zionex_i") -> Program:
    return graph_of(model, 32, planner, pipeline).programs[0]  # type: ignore[arg-type]


def task(program: Program, name: str) -> int:
    return program.names.index(name)


def waits_for(program: Program, name: str, other: str) -> set[int]:
    """Lags with which a task waits directly for another."""
    return {lag for t, lag in program.dependencies(task(program, name)) if t == task(program, other)}


@pytest.mark.parametrize("pipeline", sorted(SCHEDULES))
def test_every_kernel_and_collective_has_a_launch(pipeline: str) -> None:
    """Each task off the host thread waits for a host task of the same iteration: host-bound runs come out by
    themselves."""
    program = program_of(pipeline)
    for number, category in enumerate(program.categories):
        if category is Category.HOST:
            continue
        launches = [t for t, lag in program.dependencies(number) if lag == 0 and program.categories[t] is Category.HOST]
        assert [program.names[t] for t in launches] == [f"launch_{program.names[number]}"]


@pytest.mark.parametrize("pipeline", sorted(SCHEDULES))
def test_same_iteration_dependencies_go_back_in_launch_order(pipeline: str) -> None:
    """A task never waits for one of its own iteration that is launched after it: that would deadlock a stream."""
    program = program_of(pipeline)
    for number in range(program.task_count):
        assert all(t < number for t, lag in program.dependencies(number) if lag == 0)


def test_without_a_pipeline_the_input_is_on_the_path() -> None:
    """Lookups wait for this iteration's input_dist, which waits for this iteration's copy."""
    program = program_of("none")
    assert waits_for(program, "column_lookup", "input_dist_recat") == {0}
    assert waits_for(program, "input_dist_permute", "input_copy") == {0}
    assert waits_for(program, "input_copy", "column_update") == {2}


def test_sparse_dist_serves_the_next_batches() -> None:
    """TorchRec TrainPipelineSparseDist: copy two batches ahead, input_dist one ahead."""
    program = program_of("sparse_dist")
    assert waits_for(program, "column_lookup", "input_dist_recat") == {1}
    assert waits_for(program, "input_dist_permute", "input_copy") == {1}
    assert waits_for(program, "bottom_0_forward", "input_copy") == {2}


def test_semi_sync_looks_rows_up_before_the_update_before_them() -> None:
    """The lookup of batch i+1 sees the update of batch i-1 and comes before that of batch i; its vectors wait."""
    program = program_of("semi_sync")
    assert waits_for(program, "column_lookup", "column_update") == {1}
    assert waits_for(program, "column_update", "column_lookup") == {0}
    assert waits_for(program, "pooled_permute", "column_output_dist_forward") == {1}
    assert waits_for(program, "column_lookup", "input_dist_recat") == {1}
    assert waits_for(program, "input_dist_permute", "input_copy") == {1}
    assert waits_for(program, "bottom_0_forward", "input_copy") == {3}


def test_the_next_iteration_needs_the_parameters_of_this_one() -> None:
    """Lookups wait for the embedding update, the first layer for the dense optimizer, one iteration before."""
    program = program_of()
    assert waits_for(program, "column_lookup", "column_update") == {1}
    assert waits_for(program, "bottom_0_forward", "dense_optimizer") == {1}


def test_the_bottom_mlp_runs_beside_the_exchange() -> None:
    """The bottom MLP is launched between the start of output_dist and the kernel that waits for it, both ways."""
    program = program_of()
    order = [task(program, n) for n in ("column_output_dist_forward", "bottom_0_forward", "pooled_permute")]
    assert order == sorted(order)
    assert waits_for(program, "pooled_permute", "column_output_dist_forward") == {0}
    order = [task(program, n) for n in ("column_output_dist_backward", "bottom_0_weight_gradient", "column_update")]
    assert order == sorted(order)
    assert waits_for(program, "column_update", "column_output_dist_backward") == {0}


def test_the_host_blocks_on_the_splits() -> None:
    """input_dist's values are launched after a host task that waits for the splits on the host (TorchRec)."""
    program = program_of()
    assert waits_for(program, "wait_input_dist_splits", "input_dist_splits_to_host") == {0}
    assert task(program, "wait_input_dist_splits") < task(program, "launch_column_input_dist_values")


def test_gradients_are_reduced_in_the_order_of_backward() -> None:
    """Each all_reduce waits for the last gradient of its bucket, divided by world_size; the optimizer waits for all."""
    program, job = program_of(), job_of("zionex_i", 32)
    reduces = [n for n in program.names if n.startswith("gradient_all_reduce_")]
    assert len(reduces) == len(job.buckets)
    for name, bucket in zip(reduces, job.buckets, strict=True):
        assert waits_for(program, name, f"{bucket.ready_after}_gradient_scale") == {0}
        assert waits_for(program, "dense_optimizer", name) == {0}
    assert [task(program, n) for n in reduces] == sorted(task(program, n) for n in reduces)


def generated(world_size: int = 16, **precision: str) -> Program:
    """mlperf_dlrm_v1 with some precisions changed."""
    settings = settings_for("mlperf_dlrm_v1", world_size)
    settings = replace(settings, precision=settings.precision.model_copy(update=precision))
    return generate(load_model("mlperf_dlrm_v1"), plan_of("mlperf_dlrm_v1", world_size), settings).programs[0]


def test_a_16_bit_all_reduce_casts_each_bucket_there_and_back() -> None:
    """fp16_compress_hook: 4 B read, 2 B written per parameter, divided in place, cast back before the optimizer."""
    program = generated(all_reduce="fp16")
    assert not [name for name in program.names if name.endswith("gradient_scale")]
    for number, bucket in enumerate(job_of("mlperf_dlrm_v1", 16).buckets):
        compress = program.work[task(program, f"gradient_compress_{number}")]
        assert compress == Elementwise(6.0 * bucket.parameters, 4.0 * bucket.parameters)
        assert waits_for(program, f"gradient_all_reduce_{number}", f"gradient_compress_{number}") == {0}
        assert waits_for(program, f"gradient_decompress_{number}", f"gradient_all_reduce_{number}") == {0}
        assert waits_for(program, "dense_optimizer", f"gradient_decompress_{number}") == {0}


def test_16_bit_layers_cast_their_weights_and_gradients() -> None:
    program = generated(dense="fp16")
    job = job_of("mlperf_dlrm_v1", 16)
    for layer in job.dense.layers:
        cast = program.work[task(program, f"{layer.name}_weight_cast")]
        assert cast == Elementwise(4.0 * layer.parameters, 2.0 * layer.parameters)
    batch, width = job.batch, job.dense.dense_features
    entering = program.work[task(program, "dense_input_cast")]
    assert entering == Elementwise(4.0 * batch * width, 2.0 * batch * width), "the features come as fp32"
    assert not [name for name in generated().names if name.endswith("_cast")]


def test_fp8_layers_cast_what_enters_each_product_and_keep_16_bit_activations() -> None:
    program, half = generated(dense="fp8"), generated(dense="fp16")
    for layer in job_of("mlperf_dlrm_v1", 16).dense.layers:
        inputs, outputs = (2.0 * 512 * width for width in (layer.inputs, layer.outputs))
        assert program.work[task(program, f"{layer.name}_input_cast")] == Elementwise(inputs, inputs)
        assert program.work[task(program, f"{layer.name}_gradient_in_fp8")] == Elementwise(outputs, outputs)
        assert program.work[task(program, f"{layer.name}_forward")].precision == "fp8"
        if layer.activation:
            name = f"{layer.name}_activation"
            assert program.work[task(program, name)] == half.work[task(half, name)]


@pytest.mark.parametrize(("dense", "multiple"), [("fp32", 1), ("tf32", 8), ("fp16", 8), ("bf16", 8), ("fp8", 16)])
def test_products_of_tensor_cores_have_padded_widths(dense: str, multiple: int) -> None:
    """479 outputs of the interaction enter the top MLP; the last layer's single output stays alone."""
    program, layers = generated(dense=dense), job_of("mlperf_dlrm_v1", 16).dense.top

    def padded(width: int) -> int:
        return width if width == 1 else -(-width // multiple) * multiple

    for layer in layers:
        k, n = padded(layer.inputs), padded(layer.outputs)
        forward = program.work[task(program, f"{layer.name}_forward")]
        gradient = program.work[task(program, f"{layer.name}_input_gradient")]
        weights = program.work[task(program, f"{layer.name}_weight_gradient")]
        assert (forward.m, forward.n, forward.k, forward.transposed) == (512, n, k, False)
        assert (gradient.m, gradient.n, gradient.k, gradient.transposed) == (512, k, n, False)
        assert (weights.m, weights.n, weights.k, weights.transposed) == (n, k, 512, True)
    assert layers[0].inputs == 479


def test_row_wise_tables_have_their_indices_bucketed() -> None:
    assert "row_wise_bucketize" in program_of(planner="row_wise").names
    assert "row_wise_bucketize" not in program_of(planner="table_wise").names


@pytest.mark.parametrize(
    ("planner", "expected"),
    [
        ("table_wise", {"all_to_all"}),
        ("column_wise", {"all_to_all"}),
        ("row_wise", {"reduce_scatter", "all_gather"}),
    ],
)
def test_each_sharding_has_its_collectives(planner: str, expected: set[str]) -> None:
    """TorchRec: all_to_all for tables and columns, reduce_scatter forward and all_gather backward for rows."""
    program = program_of(planner=planner)
    ops = {
        work.op
        for name, work in zip(program.names, program.work, strict=True)
        if isinstance(work, CollectiveCall) and "output_dist" in name
    }
    assert ops == expected


def test_copied_tables_only_take_part_in_the_all_reduce() -> None:
    """Model mlperf_dlrm_v1 has tiny tables: the greedy planner copies them, and their gradients are summed."""
    job = job_of("mlperf_dlrm_v1", 16)
    copied = [g for g in job.groups if g.kind == "data_parallel"]
    assert len(copied) == 1
    assert copied[0].forward == ()
    assert copied[0].copied_parameters > 0
    assert sum(b.parameters for b in job.buckets) == job.dense.parameters + copied[0].copied_parameters


@pytest.mark.parametrize(("pipeline", "ahead"), [("none", 0), ("sparse_dist", 2), ("semi_sync", 2)])
def test_copied_tables_read_the_batch_as_it_was_copied(pipeline: str, ahead: int) -> None:
    """Their indices stay on their rank: only sharded tables wait for input_dist."""
    program = program_of(pipeline, model="mlperf_dlrm_v1")
    assert waits_for(program, "data_parallel_lookup", "input_copy") == {ahead}
    assert waits_for(program, "data_parallel_lookup", "input_dist_recat") == set()


@pytest.mark.parametrize("pipeline", ["none", "sparse_dist"])
def test_a_job_of_copies_exchanges_no_indices(pipeline: str) -> None:
    settings = settings_for("mlperf_dlrm_v1", 32, pipeline=pipeline)  # type: ignore[arg-type]
    tables = expand_tables(load_model("mlperf_dlrm_v1"), "fp16")
    plan = make_sharding_plan("data_parallel", tables, context_for(tables, settings, 200e9))
    program = generate(load_model("mlperf_dlrm_v1"), plan, settings).programs[0]
    assert not [name for name in program.names if "input_dist" in name]
    calls = {work.op for work in program.work if isinstance(work, CollectiveCall)}
    assert calls == {"all_reduce"}


def test_planner_and_memory_agree_on_what_copies_keep() -> None:
    """Weights, gradient and, for adagrad, state: all of the element type of the table."""
    job = job_of("mlperf_dlrm_v1", 16)
    settings = replace(job.settings, optimizer=Optimizer(dense="adagrad"))
    tables = job.plan.tables
    context = replace(context_for(tables, settings), dense_optimizer="adagrad")
    model = load_model("mlperf_dlrm_v1")
    copied = memory_per_rank(model, job.plan, settings).tiers["hbm"]
    dense_bytes = job.dense.parameters * 4
    stored = copied["gradients"][0] - dense_bytes
    assert stored == tables.weight_bytes[job.plan.data_parallel].sum() > 0
    assert context.copied_bytes(tables)[job.plan.data_parallel].sum() == 3 * stored


def test_framework_decides_on_the_streams() -> None:
    """neo gives input_dist a process group of its own; pytorch has one for everything."""
    model = load_model("zionex_i")
    settings = settings_for("zionex_i", 32, framework="pytorch")
    graph = generate(model, plan_of("zionex_i", 32), settings)
    assert set(graph.communicators) == {"world"}
    assert "input_comm" not in {s.name for s in graph.programs[0].streams}
    assert set(graph_of("zionex_i", 32).communicators) == {"world", "input_world"}


def test_ranks_without_samples_are_refused() -> None:
    """A batch with fewer samples than ranks is an error, with the number that is enough."""
    with pytest.raises(InputError, match="expected 32 or more"):
        DlrmSettings(32, 8, 31, settings_for("zionex_i", 32).framework)


def test_memory_of_model_a_at_128() -> None:
    """793e9 fp16 weights over 128 ranks are 12.4 GB each on average; dense fp32 parameters add 1.28 GB."""
    from tests.workload_jobs import plan_of

    model, settings = load_model("zionex_a"), settings_for("zionex_a", 128)
    use = memory_per_rank(model, plan_of("zionex_a", 128), settings)
    assert np.mean(use.tiers["hbm"]["weights"]) == pytest.approx(793e9 * 2 / 128 + 20 * 3994 * 3995 * 4, rel=1e-6)
    assert np.mean(use.tiers["hbm"]["gradients"]) == pytest.approx(20 * 3994 * 3995 * 4)
    assert use.total("hbm").shape == (128,)
    beside = bytes_beside_tables(model, expand_tables(model, "fp16"), settings)
    tables = use.tiers["hbm"]["weights"] + use.tiers["hbm"]["optimizer state"] - 20 * 3994 * 3995 * 4
    rest = use.total("hbm") - tables
    assert np.mean(rest) == pytest.approx(beside, rel=0.05)


def test_graphs_are_deterministic() -> None:
    """The same job gives the same graph: amounts are equal to the bit."""
    one, two = program_of(), program_of()
    assert one.names == two.names
    for a, b in itertools.zip_longest(one.work, two.work):
        assert repr(a) == repr(b)

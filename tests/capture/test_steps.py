"""Steps of users: checkpoints, accumulation, autocast, streams, pipelines, optimizers, layers of many kinds."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.capture.steps import BATCH, INNER, MICROBATCHES, OPTIMIZERS, STAGES, WIDTH, convolutional
from tests.captured_steps import Rank, captured, counted_flops, rank_of, step_of
from workloads.captured.counts import flops_of
from workloads.captured.records import (
    AttentionWork,
    Collective,
    ConvolutionWork,
    CopyWork,
    HostWait,
    Moved,
    OptimizerWork,
    Product,
)

FORWARD = 2 * 2 * BATCH * WIDTH * INNER
"""Operations of both products of the plain step forward; backward it has the same of weights and half of inputs."""
PARAMETERS = 2 * WIDTH * INNER + WIDTH + INNER


def flops(rank: Rank, section: str | None = None) -> float:
    return sum(flops_of(task.work) for task in rank.tasks if section in (None, task.section))


def shape(rank: Rank) -> list[tuple[str, object]]:
    return [(task.operator, task.work) for task in rank.tasks]


def test_a_plain_step_has_its_products_in_their_sections() -> None:
    rank = step_of("plain")
    assert flops(rank, "forward") == FORWARD
    assert flops(rank, "backward") == 1.5 * FORWARD
    assert {task.section for task in rank.tasks} == {"forward", "backward", "optimizer"}


@pytest.mark.parametrize("other", ["compiled", "plain_on_cpu"])
def test_compiled_modules_and_steps_without_gpus_are_recorded_alike(other: str) -> None:
    assert shape(step_of(other)) == shape(step_of("plain"))


@pytest.mark.parametrize("kind", ["checkpoint_reentrant", "checkpoint_hooks"])
def test_a_checkpoint_computes_again_and_keeps_less(kind: str) -> None:
    plain, again = step_of("no_checkpoint"), step_of(kind)
    forward = 3 * FORWARD
    assert flops(plain) == 3 * forward
    assert flops(again, "forward") == forward
    assert flops(again, "backward") == 3 * forward
    recomputed = [task for task in again.of(Product, section="backward") if task.operator == "aten.addmm"]
    assert {task.module for task in recomputed} == {f"layers.{n}.{m}" for n in range(3) for m in (0, 2)}
    assert max(again.memory.bytes["activations"]) < 0.5 * max(plain.memory.bytes["activations"])


def test_gradients_are_summed_once_for_all_batches() -> None:
    rank = step_of("accumulated")
    assert flops(rank) == 4 * 2.5 * FORWARD
    assert sum(call.bytes for call in rank.calls("all_reduce")) == PARAMETERS * 4
    first = min(task.number for task in rank.of(Collective))
    assert sum(task.number < first for task in rank.of(Product, section="forward")) == 4 * 2


def test_autocast_and_a_gradient_scaler_are_those_of_gpus() -> None:
    rank = step_of("scaled")
    assert {work.dtype for work in rank.works(Product)} == {"fp16"}
    (norm,) = (task.work for task in rank.tasks if task.operator == "aten.native_layer_norm")
    assert norm.read_bytes == BATCH * WIDTH * 4  # CUDA's autocast has norms in fp32
    (check,) = (t for t in rank.tasks if t.operator == "aten._amp_foreach_non_finite_check_and_unscale_")
    assert check.work.read_bytes == PARAMETERS * 4 + 8
    (copy,) = rank.of(CopyWork)
    (wait,) = rank.of(HostWait)
    assert copy.work.direction == "d2h"
    assert wait.task.after == (copy.number,)
    assert check.number < copy.number < min(t.number for t in rank.tasks if t.operator == "aten._foreach_sqrt")
    clip = [task for task in rank.tasks if task.operator == "aten._foreach_norm"]
    assert [(t.section, t.work.read_bytes) for t in clip] == [("optimizer", PARAMETERS * 4)]


def test_the_next_batch_is_copied_on_its_own_stream() -> None:
    rank = step_of("prefetched")
    (copy,) = rank.of(CopyWork)
    assert copy.stream != "default"
    assert copy.work.bytes == BATCH * WIDTH * 4
    first = next(task for task in rank.tasks if task.stream == "default")
    assert [rank.program.streams[stream] for stream in first.task.after_streams] == [copy.stream]
    assert rank.before(rank.tasks[-1].number).isdisjoint({copy.number})
    assert rank.works(HostWait) == []


def test_a_blocking_copy_lets_the_host_wait() -> None:
    rank = step_of("blocking_copy")
    into, out = rank.of(CopyWork)
    assert (into.work.direction, into.work.bytes) == ("h2d", BATCH * WIDTH * 4)
    assert (out.work.direction, out.work.bytes) == ("d2h", 4)
    assert [task.task.after for task in rank.of(HostWait)] == [(into.number,), (out.number,)]
    assert "aten.mul" not in {task.operator for task in rank.tasks}  # the host doubles its batch


@pytest.mark.parametrize("kind", ["pipeline", "pipeline_batched"])
def test_stages_of_a_pipeline_send_and_receive(kind: str) -> None:
    job = captured(kind, 2 * STAGES, ranks=tuple(range(2 * STAGES)))
    assert [program.ranks for program in job.programs] == [(0, 4), (1, 2, 5, 6), (3, 7)]
    size = BATCH * WIDTH * 4
    ways = 2 if kind == "pipeline" else 1
    for stage, (sends, receives) in enumerate([(1, ways - 1), (ways, ways), (ways - 1, 1)]):
        calls = rank_of(job, (0, 1, 3)[stage]).calls("send")
        assert {call.bytes for call in calls} == {size}
        assert sum(not call.receives for call in calls) == MICROBATCHES * sends
        assert sum(call.receives for call in calls) == MICROBATCHES * receives


def test_attention_with_dropout_is_one_kernel_each_way() -> None:
    rank = step_of("attention_dropout")
    forward, backward = rank.works(AttentionWork)
    assert forward.flops == 4 * 4 * 128 * 128 * WIDTH
    assert backward.flops == 2.5 * forward.flops
    assert {task.operator for task in rank.of(Product)} <= {"aten.mm", "aten.addmm"}


def test_attention_with_a_mask_reads_it() -> None:
    (plain, _), (masked, _) = (step_of(f"attention_{kind}").works(AttentionWork) for kind in ("dropout", "masked"))
    assert masked.flops == plain.flops
    assert masked.bytes == plain.bytes + 128 * 128 * 4


def test_a_transformer_layer_has_the_kernels_of_gpus() -> None:
    rank = step_of("encoder_layer")
    operators = [task.operator for task in rank.tasks]
    assert operators.count("aten.native_dropout") == operators.count("aten.native_dropout_backward") == 3
    assert operators.count("aten._scaled_dot_product_flash_attention") == 1
    rows = 4 * 128
    assert flops(rank) - sum(w.flops for w in rank.works(AttentionWork)) == (
        3 * 2 * rows * (4 * WIDTH**2 + 2 * WIDTH * INNER) - 2 * rows * 3 * WIDTH**2
    )
    assert {task.module for task in rank.of(Product, section="backward")} == {"self_attn", "linear1", "linear2"}


def recurrent_flops(layers: list[tuple[int, int]], gates: int, rows: int) -> int:
    """Products of recurrent layers ``(inputs, hidden)``, all directions listed, forward and backward."""
    return sum(3 * 2 * rows * gates * hidden * (inputs + hidden) for inputs, hidden in layers)


@pytest.mark.parametrize(
    ("kind", "layers", "gates"),
    [("lstm", [(WIDTH, 128), (128, 128)], 4), ("gru", [(WIDTH, 128), (WIDTH, 128)], 3)],
)
def test_recurrent_layers_have_a_product_for_each_step(kind: str, layers: list[tuple[int, int]], gates: int) -> None:
    rank = step_of(kind)
    assert flops(rank) == recurrent_flops(layers, gates, rows=16 * 20)
    forward = rank.of(Product, section="forward")
    assert sum(task.work.m == 16 for task in forward) == 20 * len(layers)


def test_a_convnet_has_the_operations_of_pytorchs_counter() -> None:
    rank = step_of("convnet")

    def run() -> None:
        convolutional()(torch.randn(8, 3, 64, 64)).sum().backward()

    assert flops(rank) == counted_flops(run)
    first = 2 * 8 * 32 * 32 * 16 * 3 * 49
    assert flops_of(rank.works(ConvolutionWork)[0]) == first
    floats = 2 * 16 * 4
    assert [call.bytes for call in rank.calls("broadcast")] == [floats, 8]  # statistics, then the number of batches


@pytest.mark.parametrize("name", [*OPTIMIZERS])
def test_optimizers_update_lists_of_parameters_on_gpus(name: str) -> None:
    whole, single = step_of(f"{name}_foreach"), step_of(f"{name}_loop")
    kernels = [task for task in whole.tasks if task.section == "optimizer"]
    assert kernels
    assert {task.operator.startswith("aten._foreach_") for task in kernels} == {True}
    loops = [task for task in single.tasks if task.section == "optimizer"]
    assert len(loops) >= 3 * len(kernels)  # about one of each for every parameter
    assert len(loops) % 4 == 0
    written = sum(task.work.write_bytes for task in kernels)
    assert written % (PARAMETERS * 4) == 0
    assert sum(task.work.write_bytes for task in loops) == pytest.approx(written, rel=0.51)


@pytest.mark.parametrize(("name", "passes"), [("SGD", 5), ("Adam", 7), ("AdamW", 9)])
def test_fused_optimizers_are_one_kernel(name: str, passes: int) -> None:
    (work,) = step_of(f"{name}_fused").works(OptimizerWork, section="optimizer")
    assert work == OptimizerWork(parameters=PARAMETERS, bytes=passes * PARAMETERS * 4)


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "Adam"])
def test_sparse_optimizers_move_rows(name: str) -> None:
    rank = step_of(f"sparse_{name}")
    works = rank.works(Moved, section="optimizer")
    vectors, indices = BATCH * 5 * 32 * 4, BATCH * 5 * 8
    assert works
    assert {work.write_bytes for work in works} <= {vectors, vectors + indices + 4 * indices}
    states = {"SGD": 0, "Adagrad": 1, "Adam": 2}[name]
    assert rank.memory.peak.get("optimizer_state", 0.0) == pytest.approx(states * 10_000 * 32 * 4, abs=1024)


def test_averages_clipping_and_schedules_follow_the_backward_pass() -> None:
    rank = step_of("average")
    after = max(task.number for task in rank.tasks if task.section == "backward")
    assert {task.section for task in rank.tasks[after + 1 :]} == {"optimizer"}
    assert rank.tasks[-1].operator == "aten._foreach_lerp_"
    assert rank.tasks[-1].work.write_bytes == PARAMETERS * 4


def test_hybrid_shards_gather_in_one_dimension_and_sum_in_the_other() -> None:
    job = captured("hybrid_shards", 8, ranks=(0,))
    rank = rank_of(job)
    layer = sum(p.numel() for p in nn.TransformerEncoderLayer(WIDTH, 8, INNER).parameters())
    assert job.communicators["shards"] == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert job.communicators["replicas"] == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert {call.bytes for call in rank.calls("all_gather", "shards")} == {layer * 4}
    assert [call.bytes for call in rank.calls("reduce_scatter", "shards")] == [layer * 4] * 3
    assert [call.bytes for call in rank.calls("all_reduce", "replicas")] == [layer * 4 / 4] * 3


def test_a_hook_sums_gradients_in_bf16() -> None:
    calls = step_of("bf16_gradients").calls("all_reduce")
    assert sum(call.bytes for call in calls) == PARAMETERS * 2
    assert {call.dtype for call in calls} == {"bf16"}


def test_unused_parameters_are_summed_where_they_are_looked_for() -> None:
    calls = [call.bytes for call in step_of("unused_found").calls("all_reduce")]
    whole = 2 * (WIDTH**2 + WIDTH) * 4
    assert sum(calls) == whole + 4 * 4  # and a number for each parameter


def test_wrappers_of_data_parallelism_are_found_by_all_imports() -> None:
    calls = step_of("three_imports").calls("all_reduce")
    assert sum(call.bytes for call in calls) == 3 * (WIDTH**2 + WIDTH) * 4


def test_an_asynchronous_tensor_is_waited_for_when_it_is_read() -> None:
    rank = step_of("async_tensor")
    reduced = next(task for task in rank.of(Collective) if task.work.op == "all_reduce")
    early, late = [task for task in rank.tasks if task.operator == "aten.relu"][-2:]
    assert reduced.number not in rank.before(early.number)
    assert reduced.number in rank.before(late.number)
    assert [call.bytes for call in rank.calls("all_gather")] == [8 * BATCH * WIDTH * 4]
    assert [call.bytes for call in rank.calls("reduce_scatter")] == [8 * BATCH * WIDTH * 4]


def test_code_of_the_backward_pass_may_name_devices() -> None:
    rank = step_of("backward_on_device")
    assert flops(rank) == 2 * 2 * BATCH * WIDTH**2
    assert rank.of(HostWait)[-1].task.after == (rank.of(HostWait)[-1].number - 1,)
    assert rank.works(CopyWork) == []  # the batch was moved before the step

"""Examples that ship, captured: operations, bytes, buckets, waits and modules by closed forms and PyTorch itself."""

from __future__ import annotations

import ast
from itertools import pairwise
from math import prod

import pytest
import torch
from torch import nn

from dlrmsim.catalogs import list_names, shipped_file
from inputs.errors import InputError
from tests.captured_steps import EXAMPLES, Rank, captured, counted_flops, example, rank_of
from trainer.capture.data_parallel import BUCKET_MIB, FIRST_BUCKET_BYTES
from trainer.examples import dcnv2_ddp, decoder_7b_fsdp2, dlrm_table_wise, tensor_parallel_dtensor, two_tower
from workloads.captured.counts import flops_of
from workloads.captured.records import (
    AttentionWork,
    Collective,
    CopyWork,
    Lookup,
    Moved,
    OptimizerWork,
    Product,
    Update,
)
from workloads.graph.buckets import gradient_buckets

NAMES = sorted(file.stem for file in EXAMPLES.glob("*.py") if file.stem != "__init__")


def product_flops(rank: Rank, section: str | None = None) -> float:
    tasks = rank.of(Product) if section is None else rank.of(Product, section=section)
    return sum(flops_of(task.work) for task in tasks)


def dense_flops(rows: int, widths: list[int], *, input_gradient: bool) -> int:
    """Products of linear layers forward and backward; the first one's input gradient may be left out."""
    forward = [2 * rows * i * o for i, o in pairwise(widths)]
    return 3 * sum(forward) - (0 if input_gradient else forward[0])


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def gradient_order(model: nn.Module, *inputs: torch.Tensor) -> list[int]:
    """Elements of gradients in the order in which a real backward pass of PyTorch makes them."""
    found: list[int] = []
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda ready: found.append(ready.numel()))
    result = model(*inputs)
    sum(part.sum() for part in (result if isinstance(result, tuple) else (result,))).backward()
    return found


def bucket_bytes(sizes: list[int]) -> list[int]:
    named = [(str(number), size) for number, size in enumerate(sizes)]
    return [bucket.bytes for bucket in gradient_buckets(named, FIRST_BUCKET_BYTES, BUCKET_MIB * 2**20)]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_listed_shown_and_short(name: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    listed = list_names("examples")["examples"]
    assert sorted(listed) == NAMES
    assert listed[name] == (ast.get_docstring(ast.parse(text)) or "").splitlines()[0]
    assert shipped_file(name).path == EXAMPLES / f"{name}.py"
    assert len(text.splitlines()) <= 105


def test_a_wrong_name_has_the_nearest_example() -> None:
    with pytest.raises(InputError) as caught:
        shipped_file("dlrm_tablewise")
    assert caught.value.nearest == "dlrm_table_wise"


class TestDlrm:
    """Ranks 0 and 1 of 8 hold four tables, the others three."""

    WORLD = 8

    @pytest.fixture
    def ranks(self) -> tuple[Rank, Rank]:
        job = example("dlrm_table_wise", self.WORLD, (0, 2))
        assert [program.ranks for program in job.programs] == [(0, 1), (2, 3, 4, 5, 6, 7)]
        assert job.samples_per_rank == dlrm_table_wise.BATCH
        return rank_of(job, 0), rank_of(job, 7)

    def test_operations_are_those_of_the_layers_and_of_pytorchs_counter(self, ranks) -> None:
        module, rows = dlrm_table_wise, dlrm_table_wise.BATCH
        vectors = module.TABLES + 1
        pairs = vectors * (vectors - 1) // 2
        interaction = 3 * 2 * rows * vectors**2 * module.DIM
        expected = (
            dense_flops(rows, [module.DENSE, *module.BOTTOM], input_gradient=False)
            + dense_flops(rows, [module.DIM + pairs, *module.TOP], input_gradient=True)
            + interaction
        )

        def run() -> None:
            pooled = torch.randn(rows, module.TABLES, module.DIM, requires_grad=True)
            module.DenseArch()(torch.randn(rows, module.DENSE), pooled).sum().backward()

        assert product_flops(ranks[0]) == product_flops(ranks[1]) == expected == counted_flops(run)

    def test_pooled_vectors_travel_out_and_back(self, ranks) -> None:
        module = dlrm_table_wise
        for rank, own in zip(ranks, (4, 3), strict=True):
            out, back = rank.calls("all_to_all")
            assert out.bytes == module.BATCH * self.WORLD * own * module.DIM * 4
            assert out.sent == ()
            assert back.bytes == module.BATCH * module.TABLES * module.DIM * 4
            assert back.sent == pytest.approx([held / module.TABLES for held in (4, 4, 3, 3, 3, 3, 3, 3)])

    def test_tables_are_one_kernel_each_way(self, ranks) -> None:
        module = dlrm_table_wise
        for rank, own in zip(ranks, (4, 3), strict=True):
            (lookup,), (update,) = rank.works(Lookup), rank.works(Update)
            assert len(lookup.tables) == len(update.tables) == own
            assert {(t.rows, t.dim, t.lookups, t.bags) for t in lookup.tables} == {
                (module.ROWS, module.DIM, module.BATCH * self.WORLD, module.BATCH * self.WORLD)
            }
            assert update.optimizer == "sgd"

    def test_buckets_are_those_of_the_real_order_of_gradients(self, ranks) -> None:
        module = dlrm_table_wise
        model = module.DenseArch()
        order = gradient_order(model, torch.randn(2, module.DENSE), torch.randn(2, module.TABLES, module.DIM))
        calls = [call.bytes for call in ranks[0].calls("all_reduce")]
        assert calls == bucket_bytes(order)
        assert sum(calls) == parameters(model) * 4

    def test_the_first_reader_of_exchanged_vectors_waits_for_them(self, ranks) -> None:
        out, back = (t for t in ranks[0].of(Collective) if t.work.op == "all_to_all")
        following = next(task for task in ranks[0].tasks if task.number > out.number)
        assert out.number in following.task.after
        update = ranks[0].of(Update)[0]
        assert back.number in update.task.after

    def test_no_kernel_of_the_backward_pass_waits_for_buckets(self, ranks) -> None:
        rank = ranks[0]
        buckets = [task for task in rank.of(Collective) if task.work.op == "all_reduce"]
        last = rank.of(Product, section="backward")[-1]
        assert rank.before(last.number).isdisjoint(task.number for task in buckets)
        optimizer = next(task for task in rank.tasks if task.section == "optimizer")
        assert {task.number for task in buckets} <= rank.before(optimizer.number)

    def test_each_layer_has_its_kernels_forward_and_backward(self, ranks) -> None:
        rank = ranks[0]
        for path in ("bottom.2", "top.0", "top.6"):
            assert len(rank.works(Product, module=path, section="forward")) == 1
            assert len(rank.works(Product, module=path, section="backward")) == 2
        assert len(rank.works(Product, module="bottom.0", section="backward")) == 1
        assert {task.module for task in rank.of(Product) if task.operator == "aten.bmm"} == {""}
        assert {task.module for task in rank.of(Update)} == {""}

    def test_memory_has_the_tables(self, ranks) -> None:
        module = dlrm_table_wise
        for rank, own in zip(ranks, (4, 3), strict=True):
            tables = own * module.ROWS * module.DIM * 4
            dense = parameters(module.DenseArch()) * 4
            assert rank.memory.peak["parameters"] == pytest.approx(tables + dense, rel=1e-6)


class TestTwoTower:
    """Rank 0 of 8."""

    WORLD = 8

    @pytest.fixture
    def rank(self) -> Rank:
        return rank_of(example("two_tower", self.WORLD, (0,)))

    def test_operations_are_those_of_the_layers_and_of_pytorchs_counter(self, rank) -> None:
        module, rows = two_tower, two_tower.BATCH
        tower = [*module.LAYERS, module.LAYERS[-1]]
        logits = 3 * 2 * rows * rows * self.WORLD * module.LAYERS[-1]
        expected = (
            dense_flops(rows, [2 * module.DIM, *tower], input_gradient=True)
            + dense_flops(rows, [module.DIM, *tower], input_gradient=True)
            + logits
        )

        def run() -> None:
            user, item = module.TwoTower()(
                torch.randn(rows, 2 * module.DIM, requires_grad=True), torch.randn(rows, module.DIM, requires_grad=True)
            )
            (user @ item.repeat(self.WORLD, 1).T).sum().backward()

        assert product_flops(rank) == expected == counted_flops(run)

    def test_items_are_gathered_and_their_gradients_scattered(self, rank) -> None:
        module = two_tower
        items = self.WORLD * module.BATCH * module.LAYERS[-1] * 4
        gathered = [call.bytes for call in rank.calls("all_gather")]
        assert gathered[0] == items
        assert [call.bytes for call in rank.calls("reduce_scatter")] == [items]
        rows = [module.BATCH, module.BATCH * (module.HISTORY + 1)]
        expected = [self.WORLD * count * size for count in rows for size in (8, module.DIM * 4)]
        assert gathered[1:] == expected

    def test_dense_gradients_are_summed(self, rank) -> None:
        model = two_tower.TwoTower()
        inputs = torch.randn(2, 2 * two_tower.DIM), torch.randn(2, two_tower.DIM)
        calls = [call.bytes for call in rank.calls("all_reduce")]
        assert sum(calls) == parameters(model) * 4
        assert calls == bucket_bytes(gradient_order(model, *inputs))

    def test_lookups_have_the_bags_of_each_feature(self, rank) -> None:
        module = two_tower
        found = [(table.rows, table.lookups, table.bags) for work in rank.works(Lookup) for table in work.tables]
        assert found == [
            (module.USERS, module.BATCH, module.BATCH),
            (module.ITEMS, module.BATCH * module.HISTORY, module.BATCH),
            (module.ITEMS, module.BATCH, module.BATCH),
        ]
        assert {work.dense for work in rank.works(Update)} == {False}

    def test_the_sparse_optimizer_moves_rows_not_tables(self, rank) -> None:
        works = rank.works(Moved, section="optimizer")
        gathered_rows = self.WORLD * two_tower.BATCH * (two_tower.HISTORY + 1)
        assert max(work.write_bytes for work in works) <= 5 * gathered_rows * (two_tower.DIM * 4 + 8)


class TestDcn:
    """All ranks do the same."""

    @pytest.fixture
    def rank(self) -> Rank:
        job = example("dcnv2_ddp", 8)
        assert len(job.programs) == 1
        return rank_of(job)

    def test_operations_are_those_of_the_layers_and_of_pytorchs_counter(self, rank) -> None:
        module, rows = dcnv2_ddp, dcnv2_ddp.BATCH
        width = module.WIDTH
        cross = module.CROSS_LAYERS * 3 * 2 * rows * 2 * width * module.RANK
        deep = dense_flops(rows, [width, *module.DEEP], input_gradient=True)
        logit = 3 * 2 * rows * (width + module.DEEP[-1])

        def run() -> None:
            features = torch.zeros(rows, module.FEATURES, dtype=torch.int64)
            module.DCN()(torch.randn(rows, module.DENSE), features).sum().backward()

        assert product_flops(rank) == cross + deep + logit == counted_flops(run)

    def test_gradients_of_table_and_layers_are_summed_in_buckets(self, rank) -> None:
        model = dcnv2_ddp.DCN()
        features = torch.zeros(2, dcnv2_ddp.FEATURES, dtype=torch.int64)
        calls = [call.bytes for call in rank.calls("all_reduce")]
        assert sum(calls) == parameters(model) * 4
        assert calls == bucket_bytes(gradient_order(model, torch.randn(2, dcnv2_ddp.DENSE), features))

    def test_offsets_are_sent_and_batches_are_copied(self, rank) -> None:
        module = dcnv2_ddp
        assert [call.bytes for call in rank.calls("broadcast")] == [module.FEATURES * 8]
        copies = [(work.bytes, work.direction) for work in rank.works(CopyWork)]
        assert copies == [
            (module.BATCH * module.DENSE * 4, "h2d"),
            (module.BATCH * module.FEATURES * 8, "h2d"),
            (module.BATCH * 4, "h2d"),
        ]

    def test_the_table_has_a_dense_gradient(self, rank) -> None:
        (update,) = rank.works(Update)
        assert update.dense
        assert update.tables[0].rows == dcnv2_ddp.FEATURES * dcnv2_ddp.ROWS


class TestDecoder:
    """Two of the 32 layers; sizes and division as they ship."""

    WORLD, LAYERS = 8, 2

    @pytest.fixture
    def rank(self) -> Rank:
        return rank_of(captured("two_decoder_layers", self.WORLD, ranks=(0,)))

    @property
    def layer(self) -> int:
        module = decoder_7b_fsdp2
        return 4 * module.HIDDEN**2 + 3 * module.HIDDEN * module.INNER + 2 * module.HIDDEN

    @property
    def ends(self) -> int:
        """Parameters outside of the layers."""
        return 2 * decoder_7b_fsdp2.WORDS * decoder_7b_fsdp2.HIDDEN + decoder_7b_fsdp2.HIDDEN

    def test_there_are_seven_billion_parameters(self) -> None:
        assert 32 * self.layer + self.ends == 6_738_415_616  # Llama 2 7B (arXiv:2307.09288)

    def test_operations_are_those_of_the_layers_and_of_pytorchs_counter(self, rank) -> None:
        module = decoder_7b_fsdp2
        tokens = module.BATCH * module.TOKENS
        of_layer = 3 * 2 * tokens * (self.layer - 2 * module.HIDDEN)
        head = 3 * 2 * tokens * module.HIDDEN * module.WORDS
        assert product_flops(rank) == self.LAYERS * of_layer + head
        full = 4 * module.BATCH * module.TOKENS**2 * module.HIDDEN
        attention = sum(work.flops for work in rank.works(AttentionWork))
        assert attention == self.LAYERS * full / 2 * 3.5

        def run() -> None:
            words = torch.zeros(module.BATCH, module.TOKENS, dtype=torch.int64)
            angles = torch.randn(module.TOKENS, module.HIDDEN // module.HEADS)
            module.Decoder(self.LAYERS)(words, angles, angles).sum().backward()

        assert product_flops(rank) == counted_flops(run)  # which has no formula of attention on CPUs

    def test_parameters_are_gathered_in_bf16_and_gradients_scattered_in_fp32(self, rank) -> None:
        gathers = [call.bytes for call in rank.calls("all_gather")]
        ends, layer = 2 * self.ends, 2 * self.layer
        assert gathers == [ends, layer, layer, layer, layer]  # the ends stay gathered
        assert {call.dtype for call in rank.calls("all_gather")} == {"bf16"}
        scatters = [call.bytes for call in rank.calls("reduce_scatter")]
        assert scatters == [4 * self.layer, 4 * self.layer, 4 * self.ends]
        assert {call.dtype for call in rank.calls("reduce_scatter")} == {"fp32"}

    def gathers(self, rank: Rank, section: str) -> list:
        return [task for task in rank.of(Collective, section=section) if task.work.op == "all_gather"]

    def test_a_layer_waits_for_its_parameters(self, rank) -> None:
        for number, gather in enumerate(self.gathers(rank, "forward")[1:]):
            first = next(t for t in rank.of(Product, section="forward") if t.module.startswith(f"layers.{number}."))
            assert gather.number in rank.before(first.number)

    def test_parameters_of_the_next_layer_travel_while_a_layer_computes(self, rank) -> None:
        second = self.gathers(rank, "forward")[2]
        computed = [t.number for t in rank.of(Product, section="forward") if t.module.startswith("layers.0")]
        assert rank.before(second.number).isdisjoint(computed)

    def test_the_backward_pass_asks_early_for_the_layer_before(self, rank) -> None:
        last, first = self.gathers(rank, "backward")
        assert last.number < first.number
        computed = [t.number for t in rank.of(Product, section="backward") if t.module.startswith("layers.1")]
        assert first.number < min(computed)
        assert rank.before(first.number).isdisjoint(computed)

    def test_the_optimizer_waits_for_all_gradients(self, rank) -> None:
        (update,) = rank.of(OptimizerWork)
        scatters = {t.number for t in rank.of(Collective) if t.work.op == "reduce_scatter"}
        assert scatters <= rank.before(update.number)
        shard = (self.LAYERS * self.layer + self.ends) // self.WORLD
        assert update.work.parameters == shard
        assert update.work.bytes == 7 * 4 * shard  # weight and two states read and written, gradient read

    def test_norms_are_one_kernel_each_way(self, rank) -> None:
        assert [t.operator for t in rank.of(Moved, module="layers.1.mlp_norm", section="forward")] == [
            "dlrmsim.rms_norm"
        ]
        backward = [t.operator for t in rank.of(Moved, module="layers.1.mlp_norm", section="backward")]
        assert "dlrmsim.rms_norm_backward" in backward

    def test_memory_has_shards_and_optimizer_state(self, rank) -> None:
        shard = 4 * (self.LAYERS * self.layer + self.ends) / self.WORLD
        assert rank.memory.peak["parameters"] == pytest.approx(shard, rel=1e-3)
        assert rank.memory.peak["optimizer_state"] == pytest.approx(2 * shard, rel=1e-3)


class TestTensorParallel:
    """16 ranks: two groups of eight."""

    WORLD = 16

    @pytest.fixture
    def rank(self) -> Rank:
        return rank_of(example("tensor_parallel_dtensor", self.WORLD, (0,)))

    def test_groups_are_those_of_the_mesh(self, rank) -> None:
        assert rank.job.communicators["tp"] == (tuple(range(8)), tuple(range(8, 16)))
        assert rank.job.communicators["dp"] == tuple((low, low + 8) for low in range(8))

    def test_operations_are_an_eighth_of_the_layers(self, rank) -> None:
        module = tensor_parallel_dtensor
        tokens = module.BATCH * module.TOKENS
        weights = 4 * module.HIDDEN**2 + 2 * module.HIDDEN * module.INNER
        total = module.LAYERS * 3 * 2 * tokens * weights
        assert product_flops(rank) == total / module.TENSOR_PARALLEL
        full = module.LAYERS * 4 * module.BATCH * module.TOKENS**2 * module.HIDDEN
        attention = sum(work.flops for work in rank.works(AttentionWork))
        assert attention == full / 2 * 3.5 / module.TENSOR_PARALLEL

        def run() -> None:
            x = torch.randn(module.BATCH, module.TOKENS, module.HIDDEN, requires_grad=True)
            nn.Sequential(*(module.Layer() for _ in range(module.LAYERS)))(x).sum().backward()

        assert product_flops(rank) * module.TENSOR_PARALLEL == counted_flops(run)

    def test_results_are_summed_over_the_ranks_of_a_layer(self, rank) -> None:
        module = tensor_parallel_dtensor
        hidden = module.BATCH * module.TOKENS * module.HIDDEN * 2
        calls = rank.calls("all_reduce", "tp")
        assert [call.bytes for call in calls] == [hidden] * (6 * module.LAYERS)
        forward = [t for t in rank.of(Collective, section="forward") if t.work.op == "all_reduce"]
        assert len(forward) == 2 * module.LAYERS  # of attention and of the MLP; four factors in the backward pass

    def test_parameters_are_gathered_across_replicas(self, rank) -> None:
        module = tensor_parallel_dtensor
        hidden, inner, ways = module.HIDDEN, module.INNER, module.TENSOR_PARALLEL
        divided = 4 * hidden**2 + 2 * hidden * inner + 3 * hidden + inner
        whole = 2 * hidden + 4 * hidden  # biases of summed results, norms
        layer = divided // ways + whole
        gathers = [call.bytes for call in rank.calls("all_gather", "dp")]
        assert gathers == [2 * layer] * len(gathers)
        assert [call.bytes for call in rank.calls("reduce_scatter", "dp")] == [4 * layer] * module.LAYERS


def test_shapes_of_the_dlrm_are_mlperfs() -> None:
    module = dlrm_table_wise
    assert prod((module.TABLES, module.ROWS, module.DIM, 4)) == pytest.approx(532.5e9, rel=1e-3)
    assert module.DIM + (module.TABLES + 1) * module.TABLES // 2 == 479

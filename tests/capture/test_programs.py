"""Small programs of a user: waits for messages, selected rows, ranks that differ, environment, output."""

from __future__ import annotations

import textwrap

import pytest

import dlrmsim
from inputs.errors import InputError
from tests import captured_steps
from workloads.captured.counts import counts_of
from workloads.captured.records import Collective, Moved, OptimizerWork, Product

HEAD = """
import os, sys, torch
import torch.distributed as dist
from torch import nn

"""


@pytest.fixture
def written(tmp_path):
    """Writes a file whose function has a body, which defines ``step``."""

    def write(body):
        source = HEAD + "def training_step(rank, world):\n" + textwrap.indent(textwrap.dedent(body), "    ")
        file = tmp_path / "program.py"
        file.write_text(source + "\n    return step\n", encoding="utf-8")
        return file

    return write


@pytest.fixture
def captured(written):
    """Captures the body of a function."""

    def capture(body, world_size=1):
        return captured_steps.captured("training_step", world_size, file=written(body))

    return capture


@pytest.fixture
def commanded(written, tmp_path):
    """Captures it as the command does, in a process of its own."""

    def capture(body, world_size=1):
        return dlrmsim.capture(written(body), world_size=world_size, out=tmp_path / "job")

    return capture


def tasks_of(job, rank=0):
    """Names, works and waits of a rank's tasks."""
    program = next(program for program in job.programs if rank in program.ranks)
    return [(job.operators[task.operator], job.works[task.work], task) for task in program.tasks]


def test_a_kernel_waits_for_a_message_though_a_later_one_is_sent(captured):
    job = captured(
        """
        buffer, weight = torch.empty(64, 64, device="cuda"), torch.randn(64, 64, device="cuda")
        def step():
            if rank == 0:
                dist.send(weight, 1)
            elif rank == 1:
                received, sent = dist.irecv(buffer, 0), dist.isend(weight, 2)
                received.wait(); sent.wait()
                buffer @ weight
            else:
                dist.recv(buffer, 1)
                buffer @ weight
        """,
        world_size=3,
    )
    names = [name for name, _, _ in tasks_of(job, rank=1)]
    product = next(task for name, _, task in tasks_of(job, rank=1) if name == "aten.mm")
    assert {names[number] for number in product.after} == {"send", "receive"}


def test_selected_rows_are_what_is_moved(captured):
    job = captured(
        """
        table = torch.randn(1_000_000, 128, device="cuda")
        rows = torch.randint(0, 9, (256,), device="cuda")
        values = torch.randn(256, 128, device="cuda")
        def step():
            table[rows]
            table.index_add_(0, rows, values)
            table[rows] = values
        """
    )
    moved = [work for _, work, _ in tasks_of(job) if isinstance(work, Moved)]
    vectors, indices = 256 * 128 * 4, 256 * 8
    assert [(work.read_bytes, work.write_bytes) for work in moved] == [
        (vectors + indices, vectors),
        (2 * vectors + indices, vectors),
        (vectors + indices, vectors),
    ]


def test_a_loss_reads_one_element_of_each_row(captured):
    job = captured(
        """
        logits = torch.randn(512, 32_000, device="cuda", requires_grad=True)
        target = torch.randint(0, 9, (512,), device="cuda")
        def step():
            nn.functional.nll_loss(logits, target).backward()
            logits.grad = None
        """
    )
    losses = [work for name, work, _ in tasks_of(job) if name.startswith("aten.nll_loss")]
    assert [work.read_bytes for work in losses] == [512 * (8 + 4)] * 2


@pytest.mark.parametrize("odd", [3, 5])
def test_a_rank_that_differs_from_the_others_is_found_among_few(captured, odd):
    job = captured(
        f"""
        weight = torch.randn(64, 64, device="cuda")
        def step():
            result = weight @ weight
            if rank == {odd}:
                result = result @ weight
            dist.all_reduce(result)
        """,
        world_size=8,
    )
    products = {
        program.ranks: sum(isinstance(job.works[task.work], Product) for task in program.tasks)
        for program in job.programs
    }
    assert products[(odd,)] == 2
    assert sorted(products.values()) == [1, 2]


def test_ranks_that_are_alike_have_the_memory_of_the_one_with_most(captured):
    job = captured(
        """
        kept = torch.empty(2**30 if rank == 1 else 1, dtype=torch.int8, device="cuda")
        weight = torch.randn(64, 64, device="cuda")
        def step():
            weight @ weight
            kept.shape
        """,
        world_size=2,
    )
    assert counts_of(job)["memory_peak"]["bytes"] > 2**30


def test_a_fused_optimizer_is_several_kernels_on_many_tensors(captured):
    job = captured(
        """
        model = nn.Sequential(*[nn.Linear(16, 16, device="cuda") for _ in range(100)])
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        def step():
            optimizer.zero_grad()
            model(torch.randn(4, 16, device="cuda")).sum().backward()
            optimizer.step()
        """
    )
    updates = [task for _, work, task in tasks_of(job) if isinstance(work, OptimizerWork)]
    assert [task.launches for task in updates] == [-(-200 // 36)]  # 200 tensors in four lists, 36 a kernel


def test_recomputed_operators_cost_the_host_as_much_as_the_first_time(captured):
    job = captured(
        """
        from torch.utils.checkpoint import checkpoint
        layer = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)).cuda()
        given = torch.randn(4, 16, device="cuda", requires_grad=True)
        def step():
            checkpoint(layer, given, use_reentrant=False).sum().backward()
        """
    )
    products = [task for name, _, task in tasks_of(job) if name == "aten.addmm"]
    assert len(products) >= 5  # three forward, and again in the backward pass as far as it needs
    assert not any(task.continues for task in products)


def test_the_host_waits_for_a_barrier(captured):
    job = captured("def step():\n    torch.ones(4, device='cuda').add(1)\n    dist.barrier()\n", world_size=2)
    names = [name for name, _, _ in tasks_of(job)]
    assert names[-2:] == ["barrier", "synchronize"]


def test_a_functional_broadcast_has_its_bytes(captured):
    job = captured(
        """
        import torch.distributed._functional_collectives as functional
        given = torch.ones(1024, device="cuda")
        def step():
            functional.broadcast(given, 0, dist.group.WORLD).add(1)
        """,
        world_size=2,
    )
    assert [work.bytes for _, work, _ in tasks_of(job) if isinstance(work, Collective)] == [4096.0]


def test_gradients_of_each_type_have_buckets_of_their_own(captured):
    """Sizes as PyTorch's reducer has them: two of bf16, each above the first bucket's 1 MiB, and one of fp32."""
    job = captured(
        """
        class Mixed(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = (nn.Linear(1024, 1024, dtype=torch.bfloat16) for _ in range(2))
                self.norm = nn.LayerNorm(1024)
            def forward(self, x):
                return self.b(self.norm(self.a(x).float()).bfloat16())
        model = nn.parallel.DistributedDataParallel(Mixed().cuda())
        given = torch.randn(8, 1024, device="cuda", dtype=torch.bfloat16)
        def step():
            model.zero_grad()
            model(given).float().sum().backward()
        """,
        world_size=2,
    )
    calls = [work for _, work, _ in tasks_of(job) if isinstance(work, Collective)]
    layer = 2 * (1024 * 1024 + 1024)
    assert sorted((call.dtype, call.bytes) for call in calls) == [("bf16", layer), ("bf16", layer), ("fp32", 8192)]


def test_no_sync_counts_where_the_forward_pass_runs(captured):
    job = captured(
        """
        model = nn.parallel.DistributedDataParallel(nn.Linear(16, 16).cuda())
        given = torch.randn(8, 16, device="cuda")
        def step():
            model.zero_grad()
            with model.no_sync():
                loss = model(given).sum()
            loss.backward()
        """,
        world_size=2,
    )
    assert not [work for _, work, _ in tasks_of(job) if isinstance(work, Collective)]


def test_the_program_finds_what_torchrun_sets_and_no_arguments_of_ours(commanded, capfd):
    done = commanded(
        """
        assert (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])) == (rank, world)
        assert int(os.environ["LOCAL_RANK"]) == rank % 8
        assert len(sys.argv) == 1
        os.system("echo text of a child process")
        print("text of the program")
        def step():
            torch.ones(4, device="cuda").add(1)
        """,
        world_size=2,
    )
    assert done.job.world_size == 2
    assert "text" not in capfd.readouterr().out


def test_products_in_tf32_stay_so_in_the_scenario(commanded):
    done = commanded(
        "torch.set_float32_matmul_precision('high')\nw = torch.ones(64, 64, device='cuda')\ndef step():\n    w @ w\n"
    )
    assert done.job.tf32
    assert dlrmsim.load_scenario(done.folder).scenario.precision.dense == "tf32"


def test_a_module_with_the_name_of_our_package_is_refused(commanded, tmp_path):
    (tmp_path / "trainer.py").write_text("class Trainer: ...", encoding="utf-8")
    with pytest.raises(InputError, match="package trainer"):
        commanded("def step():\n    torch.ones(4).add(1)\n")
    assert not (tmp_path / "job").exists()

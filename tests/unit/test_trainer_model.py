"""A rank by itself, in this process: what is sharded how, piped how and computed how does not change what is learnt."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch.profiler import profile  # noqa: E402

from inputs.errors import InputError  # noqa: E402
from scenarios.prepare import prepare  # noqa: E402
from scenarios.progress import Silent  # noqa: E402
from scenarios.resolve import load_scenario  # noqa: E402
from simulator.operators import Gemm  # noqa: E402
from tests.trainer_jobs import TABLES, graded, model, plan, planned, scenario, write  # noqa: E402
from trainer.job import read_job  # noqa: E402
from trainer.model import RankModel  # noqa: E402
from trainer.pipeline import make_pipeline  # noqa: E402
from trainer.synthetic import Synthetic  # noqa: E402

CPU = torch.device("cpu")


@pytest.fixture(scope="module", autouse=True)
def group(tmp_path_factory):
    """A process group of one, in one thread: more wait longer for each other than such a small job takes."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    store = tmp_path_factory.mktemp("group") / "store"
    dist.init_process_group("gloo", init_method=store.as_uri(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()
    torch.set_num_threads(threads)


def all_as(kind, ranks=(0,)):
    entry = {"sharding_type": kind, "ranks": list(ranks)}
    return {"plan": planned(1, {f"table_{i}": entry for i in range(len(TABLES))})}


def curve(folder, iterations=8, precision=None, **workload):
    """Losses of some iterations with SGD throughout, which no way of sharding changes."""
    content = scenario(1, optimizer={"dense": "sgd", "tables": "sgd"}, **workload)
    content["precision"] |= precision or {}
    job = read_job(write(folder, content))
    pipeline = make_pipeline(job, RankModel(job, 0, CPU), 0, CPU, Synthetic(job, 0), 0)
    return [pipeline.progress().item() for _ in range(iterations)]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    return curve(tmp_path_factory.mktemp("mixed"))


@pytest.mark.parametrize("pipeline", ["none", "sparse_dist"])
@pytest.mark.parametrize(
    "sharding",
    [
        all_as("table_wise"),
        all_as("column_wise", (0, 0)),
        all_as("row_wise"),
        all_as("table_row_wise"),
        all_as("grid_shard"),
        all_as("data_parallel"),
        {"plan": plan(1)},
    ],
    ids=["table_wise", "column_wise", "row_wise", "table_row_wise", "grid_shard", "data_parallel", "mixed"],
)
def test_sharding_and_pipeline_do_not_change_what_is_learnt(mixed, tmp_path, sharding, pipeline):
    assert curve(tmp_path, sharding=sharding, pipeline=pipeline) == pytest.approx(mixed, rel=1e-5)


@pytest.mark.parametrize("dense", ["fp16", "bf16", "tf32"])
def test_dense_layers_in_other_formats_learn_nearly_the_same(mixed, tmp_path, dense):
    """tf32 is fp32 on a CPU; 16-bit formats round each value by up to 2^-11 and 2^-8."""
    found = curve(tmp_path, precision={"dense": dense})
    assert found == pytest.approx(mixed, rel=0.02)
    assert (found == mixed) == (dense == "tf32")


@pytest.mark.parametrize(
    "changes",
    [
        {"interaction": graded("cat")},
        {"interaction": graded("reduce")},
        {"interaction": graded("pool"), "pool_stride": graded(3)},
        {"interaction": graded("dcnv2"), "cross": {"layers": graded(2), "rank": graded(4)}},
        {
            "mlp": None,
            "uniform_mlp": {"width": graded(8), "bottom_layers": graded(2), "top_layers": graded(2)},
            "interaction": graded("reduce"),
        },
    ],
    ids=["cat", "reduce", "pool", "dcnv2", "uniform layers"],
)
def test_every_kind_of_model_learns(tmp_path, changes):
    """With the same 3 batches again and again the loss falls."""
    changed = {key: value for key, value in model(**changes).items() if value is not None}
    job = read_job(write(tmp_path, scenario(1, model=changed)))
    source = Synthetic(job, 0)

    class Again:
        def batch(self, iteration):
            return source.batch(iteration % 3)

    pipeline = make_pipeline(job, RankModel(job, 0, CPU), 0, CPU, Again(), 0)
    losses = [pipeline.progress().item() for _ in range(60)]
    assert sum(losses[-3:]) < 0.97 * sum(losses[:3])


@pytest.mark.parametrize(
    "changes",
    [{}, {"interaction": graded("dcnv2"), "cross": {"layers": graded(2), "rank": graded(4)}}],
    ids=["dot", "dcnv2"],
)
def test_matrix_products_are_those_of_the_simulator_in_their_order(tmp_path, changes):
    """Shapes ``[count, m, n, k]`` as PyTorch was called; costs of products are fitted to times in this order."""
    file = write(tmp_path, scenario(1, model=model(**changes)) | {"cluster": "zen5_2_cores"})
    job = read_job(file)
    pipeline = make_pipeline(job, RankModel(job, 0, CPU), 0, CPU, Synthetic(job, 0), 0)
    with profile(record_shapes=True) as traced:
        pipeline.progress()
    made = []
    for event in sorted(traced.events(), key=lambda event: event.time_range.start):
        if event.name in ("aten::mm", "aten::addmm", "aten::bmm"):
            left, right = [shape for shape in event.input_shapes if len(shape) > 1]
            made.append((left[0] if len(left) == 3 else 1, left[-2], right[-1], left[-1]))
    (program,) = prepare(load_scenario(str(file), []), Silent()).graph.programs
    products = [work for work in program.work if isinstance(work, Gemm)]
    assert made == [(work.count, work.m, work.n, work.k) for work in products]


def test_tables_of_different_widths_and_formats_share_a_rank(mixed, tmp_path):
    """A second block in each group; against one kind of sharding alone."""
    tables = [
        {"rows": rows, "dim": dim, "pooling_factor": 2.0, "precision": precision}
        for rows, dim, precision in [(90, 8, "fp32"), (70, 4, "fp32"), (50, 8, "bf16"), (40, 8, "fp32")]
    ]
    changed = model(tables=graded(tables), interaction=graded("cat"))

    def sharded(kinds):
        entries = {f"table_{i}": {"sharding_type": kind, "ranks": [0]} for i, kind in enumerate(kinds)}
        return {"plan": planned(1, entries)}

    alone = curve(tmp_path / "a", model=changed, sharding=sharded(["table_wise"] * 4))
    for number, kinds in enumerate((["row_wise"] * 4, ["data_parallel"] * 4, ["row_wise", "data_parallel"] * 2)):
        found = curve(tmp_path / str(number), model=changed, sharding=sharded(kinds))
        assert found == pytest.approx(alone, rel=1e-3)  # bf16 weights are rounded after each update


def test_fp8_is_refused(tmp_path):
    content = scenario(1)
    content["precision"]["dense"] = "fp8"
    with pytest.raises(InputError, match=r"precision\.dense: the trainer does not compute in fp8"):
        read_job(write(tmp_path, content))

"""Captured steps with sharded collections: exchanges and lookups by closed forms."""

from __future__ import annotations

import textwrap

import pytest

from tests.torchrec_jobs import BATCH  # first: skips without torchrec

import dlrmsim  # isort: skip
from workloads.captured.records import Collective, Lookup

RANKS, SAMPLES, POOLING, DIM = 4, BATCH, 5.0, 16
KINDS = {"a": "table_wise", "b": "row_wise", "c": "column_wise", "d": "data_parallel", "e": "table_row_wise"}
PLACES = {"a": [1], "c": [0, 3], "e": [2, 3]}

STEP = f"""
import torch
from torch.nn.parallel import DistributedDataParallel
from torchrec.models.dlrm import DLRM
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection

import dlrmsim

KINDS, PLACES = {KINDS!r}, {PLACES!r}


def training_step(rank, world_size):
    tables = [
        EmbeddingBagConfig(name=name, embedding_dim={DIM}, num_embeddings=1000, feature_names=[f"f_{{name}}"])
        for name in KINDS
    ]
    model = DLRM(EmbeddingBagCollection(tables=tables, device=torch.device("meta")), 13, [32, {DIM}], [32, 1])
    entries = {{
        name: {{"sharding_type": kind, "compute_kernel": "dense" if kind == "data_parallel" else "fused"}}
        | ({{"ranks": PLACES[name]}} if name in PLACES else {{}})
        for name, kind in KINDS.items()
    }}
    path = "sparse_arch.embedding_bag_collection"
    plan = {{"world_size": world_size, "local_world_size": 2, "plan": {{path: entries}}}}
    model = dlrmsim.shard_embeddings(model, plan, samples={SAMPLES}, pooling_factors={POOLING})
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    dense = torch.randn({SAMPLES}, 13)

    def step():
        optimizer.zero_grad()
        model(dense, None).sum().backward()
        optimizer.step()

    step.samples = {SAMPLES}
    return step
"""


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captured")
    (folder / "sharded.py").write_text(textwrap.dedent(STEP), encoding="utf-8")
    return dlrmsim.capture(folder / "sharded.py", world_size=RANKS, ranks="all", out=folder / "job")


@pytest.fixture(scope="module")
def job(captured):
    return captured.job


def works_of(job, kind):
    """Works of all ranks of a kind."""
    found = []
    for program in job.programs:
        works = [job.works[task.work] for task in program.tasks]
        found += [work for work in works if isinstance(work, kind)] * len(program.ranks)
    return found


def test_every_lookup_of_all_batches_is_served_once(job):
    lookups = sum(table.lookups for work in works_of(job, Lookup) for table in work.tables)
    columns = len(PLACES["c"])  # each looks up its columns of all bags
    assert lookups == RANKS * SAMPLES * POOLING * (len(KINDS) - 1 + columns)


def test_vectors_travel_as_their_sharding_says(job):
    calls = works_of(job, Collective)
    floats = [call for call in calls if call.dtype == "fp32"]
    vector = 4 * DIM * SAMPLES * RANKS  # of a feature for the samples of all ranks, bytes
    sent = sum(call.bytes for call in floats if call.op == "all_to_all")
    columns, nodes = 2 * vector, 2 * vector / 2  # a and c; e: two ranks have half of it after the sum in its node
    assert sent == 2 * (columns + nodes)  # forward and backward
    scattered = [call for call in floats if call.op == "reduce_scatter"]
    assert sorted({call.bytes for call in scattered}) == [0.0, vector]  # of b on all ranks, of e in one node


def test_the_job_runs(captured, tmp_path):
    done = dlrmsim.run(captured.folder, settings=["cluster=dgx_h100"], report=False, levers=False, out=tmp_path / "run")
    assert done.iteration_time_s > 1e-4
    assert done.summary["global_batch_size"] == RANKS * SAMPLES

"""Laws that every shipped scenario keeps, on one and on two nodes, and those of tables and their exchanges."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dlrmsim
from scenarios.library import CATALOG
from scenarios.resolve import changed, load_scenario
from tests.law_runs import FITS, analysis, base_s, check_sums, iteration_s, small
from traces.formats import import_traces
from traces.replay import job_of, replayed

SCENARIOS = tuple(name for name in CATALOG.names() if load_scenario(name).kind in FITS)
"""Jobs that one node holds; those of servers have laws of their own (`tests.unit.test_dlrm_ps`)."""
JOBS = [(name, nodes) for name in SCENARIOS for nodes in (1, 2)]
DLRMS = [(name, nodes) for name, nodes in JOBS if load_scenario(name).kind == "dlrm"]
WIRES = ("forward_all_to_all", "backward_all_to_all", "all_reduce")
NARROWER = {"fp32": "fp16", "tf32": "fp16"}

CASTS_COST_MORE = {("zionex_a_128", 1, "all_reduce")}
"""Jobs in which the casts of the gradients take longer than NVLink saves: 1 GB of them on one node."""

LEAVES_MEMORY = {"karma_resnet50"}
"""Jobs whose layers leave device memory, the more of them the larger the batch: an image takes longer then."""


@pytest.mark.parametrize(("name", "nodes"), JOBS)
def test_breakdown_and_critical_path_sum_to_their_window(name, nodes):
    check_sums(analysis(small(name, nodes).resolved))


@pytest.mark.parametrize(("name", "nodes"), JOBS)
def test_twice_the_batch_takes_one_to_twice_the_time(name, nodes):
    times = iteration_s(small(name, nodes, 2).resolved) / base_s(name, nodes)

    assert times >= 1.0
    assert times <= 2.05 or name in LEAVES_MEMORY


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("name", "nodes"), DLRMS)
def test_half_the_bytes_of_an_exchange_are_never_slower(name, nodes, wire):
    job = small(name, nodes).resolved
    sent = getattr(job.scenario.precision, wire)
    if sent not in NARROWER:
        return  # there is nothing between two bytes and one that every machine exchanges
    if (name, nodes, wire) in CASTS_COST_MORE or job.world_size == 1:  # a single rank exchanges nothing
        return
    halved = changed(job, [f"precision.{wire}={NARROWER[sent]}"])

    assert iteration_s(halved) <= 1.01 * base_s(name, nodes)


@pytest.mark.parametrize(("name", "nodes"), DLRMS)
def test_the_order_of_tables_changes_nothing(name, nodes):
    job = load_scenario(name, small(name, nodes).settings)
    tables = job.to_dict()["workload"]["model"]["tables"]
    if tables is None:
        return
    turned = changed(job, [f"workload.model.tables.value={json.dumps(tables['value'][::-1])}"])

    assert iteration_s(turned) == pytest.approx(iteration_s(job), rel=1e-3)


@pytest.mark.parametrize(
    "name", ["mlperf_dlrm_v1", "nvidia_dlrm", "zionex_a_128", "bert_8", "llama3_8b_fsdp_128", "llama3_70b_3d_256"]
)
def test_the_timeline_of_a_run_replays_to_itself(name, tmp_path):
    ran = dlrmsim.run(small(name, 1).resolved, out=tmp_path / "run", report=False, levers=False)
    imported = import_traces([ran.folder / "timeline.parquet"])
    again = replayed(job_of(imported))

    for before, after in zip(imported.measured.result.records, again.measured.result.records, strict=True):
        for one, other in zip(before.groups, after.groups, strict=True):
            assert np.array_equal(one.end_ps, other.end_ps)

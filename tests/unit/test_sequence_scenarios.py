"""Shipped jobs with histories fit on one, two and four nodes with the samples of a rank; the model of a page runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scenarios.dlrm.plans import PlanningJob, plan_of
from scenarios.dlrm.typed import dlrm_of
from scenarios.resolve import load_scenario
from tests.law_runs import iteration_s
from workloads.dlrm.model.tables import expand_tables

MLPERF = ("mlperf_dlrm_v4_hstu", "mlperf_dlrm_v4_hstu_h200", "mlperf_dlrm_v4_hstu_mi350x")
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-model.md"


@pytest.mark.parametrize("name", MLPERF)
@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_the_benchmark_fits_on_more_nodes_with_as_many_samples_on_a_rank(name, nodes):
    resolved = load_scenario(name, [f"nodes={nodes}"])
    assert resolved.global_batch_size == 1024 * 8 * nodes
    assert resolved.local_batch_size == 1024
    job = PlanningJob.of(resolved)
    assert job.report(plan_of(job, advise=False)).fits


@pytest.mark.parametrize("nodes", [8, 16, 32, 64])
def test_a_terabyte_of_tables_fits_at_every_size_of_the_study(nodes):
    resolved = dlrm_of(load_scenario("hstu_large_256", [f"nodes={nodes}"]), "this test")
    tables = expand_tables(resolved.model, "fp16")
    assert float((tables.rows * tables.dim * tables.element_bytes).sum()) == pytest.approx(1.04e12, rel=0.01)
    job = PlanningJob.of(resolved)
    assert job.report(plan_of(job, advise=False)).fits


def test_the_model_with_a_history_of_the_page_runs(tmp_path):
    written = re.findall(r"```yaml\n(name: mine_with_history\n.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "mine.yaml").write_text(written[0], encoding="utf-8")
    settings = ["cluster=dgx_h100", "nodes=1", f"workload.model={tmp_path / 'mine.yaml'}", "precision.dense=bf16"]
    assert iteration_s(load_scenario("synthetic_tiny", settings)) > 0.0

"""The DLRM behind the interface of workload families."""

from __future__ import annotations

import numpy as np

from tests.workload_jobs import job_of
from workloads.dlrm.family import DlrmWorkload
from workloads.dlrm.model.model import load_model
from workloads.family import Workload


def test_a_workload_has_a_graph_memory_and_a_headline() -> None:
    job = job_of("mlperf_dlrm_v1", 16)
    workload: Workload = DlrmWorkload(load_model("mlperf_dlrm_v1"), job.plan, job.settings)
    assert workload.graph().world_size == 16
    assert np.all(workload.memory().total("hbm") > 0)
    assert (workload.headline.unit, workload.headline.per_iteration) == ("samples", job.settings.global_batch_size)

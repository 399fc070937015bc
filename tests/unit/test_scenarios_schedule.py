"""Scenario keys that say what overlaps: defaults by framework, refusals, ingestion in the results."""

from __future__ import annotations

import numpy as np
import pytest

from inputs.errors import InputError
from scenarios.dlrm.plans import PlanningJob, plan_of
from scenarios.dlrm.settings import settings_of
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from scenarios.runner import simulate
from workloads.dlrm.iteration.job import make_job
from workloads.dlrm.model.choices import USUAL_OVERLAP

SMALL = (
    "world_size=2",
    "workload.global_batch_size=8192",
    "workload.pipeline=sparse_dist",
    "workload.framework=neo",
)
READERS = "{{reader_hosts: {hosts}, cores_per_host: 10, decode_bytes_per_s: 10 MB/s, queue_batches: {queue}}}"


def readers(hosts: int, queue: int = 2) -> str:
    return "workload.ingestion=" + READERS.format(hosts=hosts, queue=queue)


def test_a_framework_fills_in_what_a_scenario_leaves_out() -> None:
    """The resolved scenario has all of it written out, and is the same scenario again."""
    scenario = load_scenario("mlperf_dlrm_v1", ["workload.overlap.exchange=false"])
    workload = scenario.to_dict()["workload"]
    assert workload["overlap"] == {"exchange": False, "all_reduce": True, "weight_gradients": False}
    assert workload["cuda_graph"] == "none"
    assert settings_of(scenario).overlaps == USUAL_OVERLAP.model_copy(update={"exchange": False})
    graph = load_scenario("mlperf_dlrm_v1", ["workload.cuda_graph=network"])
    assert settings_of(graph).cuda_graph == "network"


def test_a_scenario_with_all_keys_resolves_to_itself(tmp_path) -> None:
    keys = (
        "workload.hybrid_embedding={count_threshold: 3}",
        "workload.gradient_accumulation=4",
        "workload.ingestion={reader_hosts: 3, cores_per_host: 8, decode_bytes_per_s: 40 MB/s, nic_bytes_per_s: 1 GB/s}",
    )
    scenario = load_scenario("mlperf_dlrm_v1", keys)
    file = tmp_path / "again.yaml"
    file.write_text(scenario.to_yaml(), encoding="utf-8")
    assert load_scenario(file).hash == scenario.hash
    settings = settings_of(scenario)
    assert settings.global_batch_size * 4 == scenario.global_batch_size
    assert settings.ingestion is not None
    assert settings.ingestion.bytes_per_s == pytest.approx(3 * 8 * 40e6)  # less than 3 NICs of 1 GB/s


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("workload.gradient_accumulation=65536", "fewer samples than 65536 passes"),
        ("workload.overlap.exchange=false", "beside the dense part"),
        ("workload.pipeline=semisync", "semi_sync"),
        ("workload.ingestion={reader_hosts: 0, cores_per_host: 1, decode_bytes_per_s: 1 MB/s}", "reader_hosts"),
        ("workload.ingestion={reader_hosts: 1, cores_per_host: 1}", "decode_bytes_per_s"),
        ("workload.hybrid_embedding={duplicate_probability: 2}", "duplicate_probability"),
    ],
)
def test_wrong_choices_are_refused(setting: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_scenario("mlperf_dlrm_v1", ["workload.pipeline=semi_sync", setting])


def test_slow_readers_bound_the_iteration() -> None:
    """The batch over what readers deliver; the GPU waits for the difference, and the bound is input."""
    plain = simulate(load_scenario("criteo_small", ["cluster=dgx_a100_80", *SMALL]), Silent()).summary
    outcome = simulate(load_scenario("criteo_small", ["cluster=dgx_a100_80", *SMALL, readers(1)]), Silent())
    job, summary = outcome.prepared, outcome.summary
    batch_bytes = 8192 * (13 * 4 + 26 * (job.workload.settings.index_bytes + job.workload.settings.length_bytes))
    assert summary["iteration_time_s"] == pytest.approx(batch_bytes / (10 * 10e6), rel=1e-6)
    assert summary["bound"]["class"] == "input"
    waiting = summary["breakdown"]["input_waiting_s"]["mean"]
    assert waiting == pytest.approx(summary["iteration_time_s"] - plain["iteration_time_s"], rel=0.02)
    assert plain["breakdown"]["input_waiting_s"]["max"] == 0.0
    fast = simulate(load_scenario("criteo_small", ["cluster=dgx_a100_80", *SMALL, readers(1000)]), Silent()).summary
    assert fast["iteration_time_s"] == pytest.approx(plain["iteration_time_s"], rel=1e-3)
    assert fast["breakdown"]["input_waiting_s"]["max"] == 0.0


def test_a_deep_queue_helps_only_against_variation() -> None:
    """Readers as fast as training: without variation two places are enough, with it more of them help."""
    base = ["cluster=dgx_a100_80", *SMALL, "run.iterations=60"]
    plain = simulate(load_scenario("criteo_small", base), Silent()).summary["iteration_time_s"]
    batch_bytes = 8192 * (13 * 4 + 26 * 8)
    hosts = f"reader_hosts: 1, cores_per_host: 1, decode_bytes_per_s: {batch_bytes / plain / 1e6:.3f} MB/s"

    def mean_s(queue: int, jitter: float) -> float:
        keys = [f"workload.ingestion={{{hosts}, queue_batches: {queue}}}", f"variation.input_jitter={jitter}"]
        ends = simulate(load_scenario("criteo_small", [*base, *keys]), Silent()).result.iteration_end_ps
        return float(np.diff(ends)[10:].mean()) / 1e12

    assert mean_s(16, 0.0) == pytest.approx(mean_s(2, 0.0), rel=1e-3)
    shallow, deep = mean_s(1, 0.8), mean_s(16, 0.8)
    assert deep < 0.97 * shallow
    assert shallow > 1.05 * plain


def test_gradient_buckets_are_those_of_the_scenario() -> None:
    """Smaller limits close more buckets, one that nothing reaches closes one; the gradients are the same."""

    def buckets(*settings: str) -> list[int]:
        kept = ["workload.framework=pytorch", "workload.sharding.planner=table_wise", *SMALL]
        resolved = load_scenario("mlperf_dlrm_v1", [*kept, *settings])
        job = PlanningJob.of(resolved)
        return [bucket.bytes for bucket in make_job(resolved.model, plan_of(job), job.settings).buckets]

    usual = buckets()
    small = buckets("workload.gradient_buckets={first_bytes: 1 kB, bytes: 100 kB}")
    one = buckets("workload.gradient_buckets={first_bytes: 1 GB, bytes: 1 GB}")
    assert sum(usual) == sum(small) == one[0]
    assert len(one) == 1 < len(usual) < len(small)
    assert all(size >= 100e3 for size in small[1:-1])
    assert buckets("workload.gradient_buckets={first_bytes: 1 MiB}") == usual
    resolved = load_scenario("mlperf_dlrm_v1", ["workload.gradient_buckets={bytes: 5 MiB}"])
    assert resolved.framework.bucket_bytes.value == 5 * 2**20
    assert "gradient_buckets" not in resolved.to_dict()["workload"]


@pytest.mark.parametrize(
    ("key", "given"), [("all_reduce", "oneshot"), ("all_to_all", "one_shot"), ("all_to_all_between_nodes", "store")]
)
def test_an_unknown_algorithm_of_a_framework_is_refused_by_its_own_key_on_one_node_too(key: str, given: str) -> None:
    with pytest.raises(InputError, match="no such all_") as caught:
        load_scenario("mlperf_dlrm_v1", ["nodes=1", f"workload.framework.{key}={given}"])
    assert caught.value.key == f"workload.framework.{key}"

"""``python -m benchmarks estimates [CASE]``: ``run --check`` against the run, memory and time.

A row is the larger of predicted over measured and its inverse, 1 at best; a case's name may be given, or its beginning.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence

from benchmarks.commands import cost_of
from benchmarks.rows import Row

WITHIN = "<= 2"
CASES: dict[str, Sequence[str]] = {
    "synthetic_tiny": (),
    "mlperf_dlrm_v1": (),
    "mlperf_dlrm_dcnv2": (),
    "mlperf_dlrm_dcnv2@512": ("nodes=64", "workload.global_batch_size=262144"),
    "zionex_a_128": (),
    "zionex_a_128@greedy_1024": ("nodes=128", "workload.global_batch_size=524288"),
    "zionex_a_128@greedy_4096": ("nodes=512", "workload.global_batch_size=2097152"),
    "zionex_a_128@table_row_wise": ("workload.sharding.planner=table_row_wise",),
    "zionex_a_128@table_row_wise_512": (
        "workload.sharding.planner=table_row_wise", "nodes=64", "workload.global_batch_size=262144",
    ),
    "zionex_a_128@row_wise": ("workload.sharding.planner=row_wise",),
    "zionex_a_128@jitter": ("variation.compute_jitter=0.05",),
    "zionex_i_128": (),
    "criteo_small": (),
    "tf_resnet50": (),
    "tf_resnet50@512": ("nodes=512",),
    "tf_resnet50@grpc_ps_64": ("workload.strategy=grpc_ps", "nodes=64"),
    "llama3_8b_fsdp_128": (),
    "llama3_70b_3d_256": (),
}  # fmt: skip
"""Settings by case: a shipped scenario, and behind ``@`` what differs. All families are here, and planners."""


def rows(name: str | None) -> Iterator[Row]:
    """Memory and seconds of each case."""
    import dlrmsim

    for case, settings in CASES.items():
        if name is not None and not case.startswith(name):
            continue
        scenario = case.split("@")[0]
        size = dlrmsim.check(scenario, settings=settings).size
        arguments = [argument for setting in settings for argument in ("--set", setting)]
        with tempfile.TemporaryDirectory() as folder:
            cost = cost_of(["run", scenario, *arguments, "--out", f"{folder}/run"])
        yield Row(f"{case}_memory", off(size.memory_bytes, cost.peak_rss_bytes), "x", WITHIN)
        yield Row(f"{case}_seconds", off(size.seconds, cost.cpu_s), "x", WITHIN)


def off(predicted: float, measured: float) -> float:
    """Factor between two amounts, 1 or more."""
    return max(predicted / measured, measured / predicted)

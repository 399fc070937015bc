"""Networks in partitions: engine = oracle, on GPUs and on CPUs, with each schedule and any cut."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from benchmarks.oracle import compare
from benchmarks.random_programs import RandomProgram
from simulator.lowering import lower
from tests.partition_jobs import blocks, job, machine
from workloads.convnet.partitioned import partitioned_graph
from workloads.convnet.stages import even_counts


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(
    st.lists(st.integers(0, 9), min_size=12, max_size=12), st.integers(1, 5), st.integers(1, 3),
    st.sampled_from([1, 2, 4]), st.sampled_from(["gpipe", "1f1b"]), st.sampled_from(["piz_daint", "stampede2_skx"]),
)  # fmt: skip
def test_engine_equals_oracle(costs, partitions, replicas, micro_batches, schedule, cluster) -> None:
    net = blocks(2)
    layers = even_counts(net, partitions, [float(1 + cost) for cost in (*costs, *costs)[: len(net.layers)]])
    own = job(layers, replicas, micro_batches=micro_batches, schedule=schedule, on_host=cluster != "piz_daint")
    lowered = lower(partitioned_graph(net, own), machine(own.world_size, cluster)).program
    assert compare(RandomProgram(lowered, 3)) == ""

"""DLRMs on CPU sockets with either backend and any exchange: engine = oracle, and the same bytes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from benchmarks.oracle import compare
from benchmarks.random_programs import RandomProgram
from scenarios.prepare import Prepared, prepare
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from simulator.collective_calls import CollectiveCall
from simulator.lowering import lower

BACKENDS, EXCHANGES = ("ccl", "mpi"), ("all_to_all", "scatter", "scatter_list")
CLUSTERS = ("xeon_8280_opa", "xeon_8180_upi8")


@cache
def prepared(backend: str, exchange: str, cluster: str, passes: int, ranks: int) -> Prepared:
    asked = [
        f"cluster={cluster}",
        f"network.backend={backend}",
        f"workload.exchange={exchange}",
        f"workload.gradient_accumulation={passes}",
        f"world_size={ranks}",
        "workload.global_batch_size=4096",
    ]
    return prepare(load_scenario("cpu_dlrm_small", asked), Silent())


def moved_bytes(found: Prepared) -> float:
    """Bytes of pooled vectors and gradients that all ranks put into the exchanges of an iteration."""
    program, total = found.graph.programs[0], 0.0
    for name, work in zip(program.names, program.work, strict=True):
        if isinstance(work, CollectiveCall) and "output_dist" in name:
            of_rank = work.op in ("scatter", "gather")  # the root's buffer, once
            total += float(work.bytes if of_rank else np.broadcast_to(work.bytes, program.rank_count).sum())
    return total


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(
    st.sampled_from(BACKENDS), st.sampled_from(EXCHANGES), st.sampled_from(CLUSTERS), st.integers(1, 2),
    st.sampled_from([2, 3, 8]),
)  # fmt: skip
def test_engine_equals_oracle(backend: str, exchange: str, cluster: str, passes: int, ranks: int) -> None:
    found = prepared(backend, exchange, cluster, passes, ranks)
    lowered = lower(found.graph, found.machine).program
    assert compare(RandomProgram(lowered, 3)) == ""


@pytest.mark.parametrize("passes", [1, 2])
def test_every_exchange_moves_the_same_bytes(passes: int) -> None:
    sizes = {
        moved_bytes(prepared(backend, exchange, "xeon_8280_opa", passes, 3))
        for backend in BACKENDS
        for exchange in EXCHANGES
    }
    assert max(sizes) == pytest.approx(min(sizes), rel=1e-12)

"""Sums of gradients with a stream of their own, generated as HugeCTR's profiles ask for."""

from __future__ import annotations

import pytest

from scenarios.prepare import prepare
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from simulator.collective_calls import CollectiveCall
from simulator.program import Program


def program(framework: str) -> Program:
    resolved = load_scenario("mlperf_dlrm_v1", (f"workload.framework={framework}", "nodes=2"))
    return prepare(resolved, Silent()).graph.programs[0]


@pytest.mark.parametrize(("framework", "stream", "group"), [
    ("hugectr_2021", "comm", "world"),
    ("hugectr_2022", "sum_comm", "sum_world"),
])  # fmt: skip
def test_the_stream_and_communicator_of_the_sum(framework: str, stream: str, group: str) -> None:
    found = program(framework)
    place = found.names.index("gradient_all_reduce_0")
    call = found.work[place]
    assert isinstance(call, CollectiveCall)
    assert call.communicator == group
    assert found.streams[found.stream_of[place]].name == stream


def test_copied_rows_come_before_the_exchange_has_ended_where_sums_are_apart() -> None:
    """v1.1 sums them beside the exchange; in v1.0 the update of sharded rows is first."""
    early, late = (program(f"hugectr_{year}").names for year in (2022, 2021))
    assert early.index("frequent_update") < early.index("gradient_all_reduce_0") < early.index("column_update")
    assert late.index("column_update") < late.index("frequent_update") < late.index("gradient_all_reduce_0")


def test_weight_gradients_of_the_top_follow_the_start_of_the_exchange() -> None:
    """async_mlp_wgrad of v1.1; in v1.0 they are computed before."""
    early, late = (program(f"hugectr_{year}").names for year in (2021, 2022))
    exchange = "column_output_dist_backward"
    assert early.index("top_0_weight_gradient") < early.index(exchange)
    assert late.index(exchange) < late.index("top_0_weight_gradient")

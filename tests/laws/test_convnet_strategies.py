"""Laws of convolutional networks with each strategy of exchanging gradients, on two nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from scenarios.engine_run import run_options
from scenarios.library import CATALOG
from scenarios.prepare import Prepared, prepare
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from simulator.collective_calls import CollectiveCall
from simulator.engine import run
from simulator.lowering import lower
from simulator.operators import Copy
from simulator.program import TaskGraph
from simulator.work import Work
from tests.law_runs import analysis, base_s, check_sums, iteration_s, small
from workloads.convnet.all_reduce import BAIDU_CYCLE_S
from workloads.convnet.settings import Strategy

NAMES = [name for name in CATALOG.names() if load_scenario(name).kind == "convnet"]
STRATEGIES = get_args(Strategy)
JOBS = [
    *(("tf_alexnet", strategy) for strategy in STRATEGIES),
    *((name, strategy) for name in ("tf_mobilenet", "tf_resnet50") for strategy in STRATEGIES if "ps" not in strategy),
]
"""Networks that are bound by their exchange, by the host and by the GPU; few variables where servers have them."""

NO_CYCLE = "workload.cycle_time=0 s"
"""Setting without which iterations of Horovod are whole cycles."""


def of(strategy: str) -> tuple[str, ...]:
    """The settings of a strategy, without cycles."""
    cycle = [NO_CYCLE] if strategy.startswith("horovod") else []
    return (f"workload.strategy={strategy}", *cycle)


def halved(work: Work) -> Work:
    """A call, or a copy between GPU and host, with half its bytes; any other work as it is."""
    return replace(work, bytes=work.bytes / 2) if isinstance(work, CollectiveCall | Copy) else work


def with_half_the_bytes(graph: TaskGraph) -> TaskGraph:
    """The graph with half the bytes of each exchange: synthetic images are not copied."""
    programs = (replace(program, work=tuple(map(halved, program.work))) for program in graph.programs)
    return replace(graph, programs=tuple(programs))


def ends_s(prepared: Prepared, graph: TaskGraph) -> float:
    """Seconds of an iteration: from the end of the second to that of the fourth; of two where all are alike."""
    program = lower(graph, prepared.machine).program
    ends = run(program, run_options(prepared.resolved, prepared.machine, graph, 4)).iteration_end_ps
    first = min(1, len(ends) - 2)
    return float(ends[-1] - ends[first]) / (len(ends) - 1 - first) / 1e12


@pytest.mark.parametrize(("name", "strategy"), JOBS)
def test_breakdown_and_critical_path_sum_to_their_window(name, strategy):
    check_sums(analysis(small(name, 2, 1, *of(strategy)).resolved))


@pytest.mark.parametrize(("name", "strategy"), JOBS)
def test_twice_the_images_take_one_to_twice_the_time(name, strategy):
    settings = of(strategy)
    times = iteration_s(small(name, 2, 2, *settings).resolved) / base_s(name, 2, *settings)

    assert 1.0 <= times <= 2.0


@pytest.mark.parametrize(("name", "strategy"), JOBS)
def test_half_the_bytes_of_gradients_are_never_slower(name, strategy):
    prepared = prepare(small(name, 2, 1, *of(strategy)).resolved, Silent())
    whole_s, half_s = (ends_s(prepared, graph) for graph in (prepared.graph, with_half_the_bytes(prepared.graph)))

    assert half_s <= whole_s + (BAIDU_CYCLE_S if strategy == "baidu_ring" else 0.0)  # its iterations are whole cycles
    if name == "tf_alexnet":  # the exchange bounds it, beside the work of hosts on tensors of servers
        assert half_s < (0.95 if "ps" in strategy else 0.7) * whole_s


@pytest.mark.parametrize("name", NAMES)
def test_two_nodes_are_never_faster_than_one_without_an_exchange(name):
    assert base_s(name, 2) >= base_s(name, 1)

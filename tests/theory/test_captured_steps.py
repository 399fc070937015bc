"""Timelines of captured steps against closed forms: overlap, waits, calls of groups, pipelines, memory."""

from __future__ import annotations

import numpy as np
import pytest

from inputs.errors import InputError
from simulator.collective_calls import CollectiveCall
from simulator.engine import RunOptions, run
from simulator.lowered import PS_PER_S
from simulator.lowering import lower
from simulator.operators import Elementwise, Gemm
from simulator.program import Program, TaskGraph
from tests.captured_jobs import (
    GEMM,
    SAMPLES,
    WIDTH,
    JobRecords,
    framework,
    graph_of,
    machine,
    settings_of,
    small_job,
    world,
)
from workloads.captured.iteration import iteration_graph
from workloads.captured.memory import memory_per_rank
from workloads.captured.records import (
    Collective,
    CopyWork,
    HostWait,
    Moved,
    Product,
    RecordedJob,
)
from workloads.captured.settings import CapturedSettings

LAUNCH_S = 5e-6
"""Host time of a launch of the profile below, on a CPU whose factor is 1."""
LARGE = Collective("all_reduce", "world", 1e9, "fp32")


def times(graph: TaskGraph, ranks: int, iterations: int = 1) -> list[dict[str, tuple[float, float]]]:
    """Start and end of each task of the first rank in each iteration, seconds."""
    result = run(lower(graph, machine(ranks)).program, RunOptions(max_iterations=iterations, keep_last=None))
    found = []
    for record in result.records:
        own = record.groups[0]
        spans = zip(own.start_ps[:, 0].tolist(), own.end_ps[:, 0].tolist(), strict=True)
        names = graph.programs[0].names
        found.append({name: (a / PS_PER_S, b / PS_PER_S) for name, (a, b) in zip(names, spans, strict=True)})
    return found


def work_of(program: Program, name: str) -> object:
    return program.work[program.names.index(name)]


# Tasks


def overlapped() -> RecordedJob:
    """Two products beside a sum, and one after it, on two ranks."""
    records = JobRecords()
    records.add("aten.mm", GEMM, "layers.0")
    summed = records.add("c10d.all_reduce", LARGE, "layers.0")
    records.add("aten.mm", GEMM, "layers.1")
    records.add("aten.mm", Product(4096, 4096, 4096, "bf16"), "layers.1", after=[summed])
    return records.job([records.program([0, 1])], world(2))


def test_a_sum_beside_a_product_is_exposed_by_the_time_that_it_takes_longer() -> None:
    """Launches end at 5, 10, 15 and 20 us; a collective waits for what its stream has so far."""
    graph = graph_of(overlapped())
    lowering = lower(graph, machine(2))
    found = times(graph, 2)[0]
    model = machine(2).compute
    long_s, short_s = (float(model.duration_s(Gemm(n, n, n, "bf16"))) for n in (8192, 4096))
    sum_s = lowering.collectives[0].alone_s
    assert sum_s > long_s > 20e-6
    first_end = LAUNCH_S + long_s
    expected = {
        "launch_layers.0.mm": (0.0, LAUNCH_S),
        "layers.0.mm": (LAUNCH_S, first_end),
        "layers.0.all_reduce": (first_end, first_end + sum_s),
        "layers.1.mm": (first_end, first_end + long_s),
        "launch_layers.1.mm_1": (3 * LAUNCH_S, 4 * LAUNCH_S),
        "layers.1.mm_1": (first_end + sum_s, first_end + sum_s + short_s),
    }
    for name, (start_s, end_s) in expected.items():
        assert found[name] == (pytest.approx(start_s, abs=2e-11), pytest.approx(end_s, abs=2e-11)), name


def test_names_are_paths_with_operators_and_numbers_where_they_repeat() -> None:
    records = JobRecords()
    for _ in range(3):
        records.add("aten.addmm.default", GEMM, "layers.3.self_attn")
    records.add("aten.addmm_1", GEMM, "layers.3.self_attn")
    records.add("fused", GEMM)
    program = graph_of(records.job([records.program([0])], world(1))).programs[0]
    own = [name for name in program.names if not name.startswith("launch_")]
    at = "layers.3.self_attn.addmm"
    assert own == ["begin", at, f"{at}_1", f"{at}_2", f"{at}_1_1", "fused"]
    assert set(program.sections) == {"forward"}


def test_streams_of_communicators_run_beside_each_other() -> None:
    records = JobRecords()
    for name in ("left", "right"):
        records.add("c10d.all_reduce", Collective("all_reduce", name, 1e9, "fp32"))
    ranks = ((0, 1),)
    job = records.job([records.program([0, 1])], {"left": ranks, "right": ranks})
    found = times(graph_of(job), 2)[0]
    assert found["all_reduce_1"][0] < found["all_reduce"][1]


def test_the_host_waits_where_it_is_recorded() -> None:
    records = JobRecords()
    product = records.add("aten.mm", GEMM)
    records.add("wait", HostWait(), after=[product])
    records.add("aten.mm", GEMM)
    found = times(graph_of(records.job([records.program([0])], world(1))), 1)[0]
    assert found["wait"][0] == found["mm"][1]
    assert found["launch_mm_1"][0] == found["mm"][1]
    assert found["mm_1"][0] == pytest.approx(found["mm"][1] + LAUNCH_S, abs=2e-12)


def test_a_task_may_wait_for_a_stream_of_the_iteration_before() -> None:
    """A copy overwrites a buffer that the last product of the iteration before reads."""
    records = JobRecords()
    copied = records.add("aten.copy_", CopyWork(1e6, "h2d"), stream=1, after_streams=[0])
    records.add("aten.mm", GEMM, after=[copied])
    job = records.job([records.program([0], streams=("default", "memcpy"))], world(1))
    first, second = times(graph_of(job), 1, 2)
    assert second["copy_"][0] == first["mm"][1]
    assert first["copy_"][0] == pytest.approx(LAUNCH_S, abs=2e-12)


def test_what_follows_a_collective_on_its_stream_waits_as_it_does() -> None:
    """A stream that waits before it issues a collective holds the kernels behind it, too."""
    records = JobRecords()
    aside = records.add("aten.mm", GEMM, "aside", stream=1)
    records.add("c10d.all_reduce", Collective("all_reduce", "world", 8.0, "fp32"), after=[aside])
    records.add("aten.mm", Product(256, 256, 256, "bf16"), "next")
    job = records.job([records.program([0, 1], streams=("default", "side"))], world(2))
    found = times(graph_of(job), 2)[0]
    assert found["all_reduce"][0] == found["next.mm"][0] == found["aside.mm"][1]


def test_a_task_without_launches_needs_no_host() -> None:
    records = JobRecords()
    records.add("aten.mm", GEMM, launches=2)
    records.add("aten.mm", GEMM, launches=0)
    program = graph_of(records.job([records.program([0])], world(1))).programs[0]
    assert program.names == ("begin", "launch_mm", "mm", "mm_1")
    assert work_of(program, "launch_mm").launches == 2  # type: ignore[attr-defined]


def test_no_factor_of_a_framework_changes_what_was_recorded() -> None:
    """PyTorch's profile multiplies the traffic of element-wise kernels that a generator counts."""
    records = JobRecords()
    records.add("aten.relu", Moved(1e9, 1e9, element_wise=True))
    job = records.job([records.program([0])], world(1))
    assert framework("pytorch").factor("elementwise_factor") > 1.0
    assert iteration_graph(CapturedSettings(job, framework("pytorch"))).programs[0].work[-1] == Elementwise(1e9, 1e9)


# Calls


def test_even_calls_are_in_step_and_uneven_ones_have_shares() -> None:
    even, uneven = graph_of(small_job()), graph_of(small_job(uneven=True))
    calls = [[w for w in graph.programs[0].work if isinstance(w, CollectiveCall)] for graph in (even, uneven)]
    assert all(call.in_step and call.peer_shares is None for call in calls[0])
    assert even.repeats
    assert uneven.repeats, "all ranks are members of one call"
    shares = [call.peer_shares for call in calls[1] if call.op == "all_to_all"]
    assert not any(call.in_step for call in calls[1])
    assert all(rows.shape == (4, 4) for rows in shares if rows is not None)
    assert np.allclose(shares[0][2], [0.5, 0.5 / 3, 0.5 / 3, 0.5 / 3])  # type: ignore[index]
    assert calls[0][0].bytes == SAMPLES * WIDTH * 4 * 4


def test_parts_of_a_group_in_another_order_go_to_the_same_ranks() -> None:
    """A process group of ranks 2, 0, 3, 1: its first member is rank 2."""
    records = JobRecords()
    records.add("c10d.alltoall", Collective("all_to_all", "mixed", 8e6, "fp32", sent=(0.7, 0.1, 0.1, 0.1)))
    records.add("c10d.gather", Collective("gather", "mixed", 8e6, "fp32", root=3))
    records.add("c10d.broadcast", Collective("broadcast", "mixed", 8e6, "fp32", root=3))
    job = records.job([records.program(range(4))], {"mixed": ((2, 0, 3, 1),)})
    exchange, gather, broadcast = (w for w in graph_of(job).programs[0].work if isinstance(w, CollectiveCall))
    assert exchange.peer_shares is not None
    assert np.allclose(exchange.peer_shares, [[0.1, 0.1, 0.7, 0.1]] * 4)
    assert gather.root == 1, "rank 1 is the second one in rank order"
    assert broadcast.root is None, "the library's algorithm"


def pipeline(stages: int, ranks_of_a_stage: int) -> RecordedJob:
    """Stages that send activations on and gradients back, a rank of each stage after the other."""
    records, programs = JobRecords(), []
    count, size = stages * ranks_of_a_stage, 1e6
    forward, taken = (Collective("send", "pipe", size, "bf16", peer=1, receives=end) for end in (False, True))
    backward, back = (Collective("send", "pipe", size, "bf16", peer=-1, receives=end) for end in (False, True))
    for stage in range(stages):
        got = [records.add("c10d.recv", taken)] if stage else []
        records.add("aten.mm", GEMM, after=got)
        if stage < stages - 1:
            records.add("c10d.send", forward)
            got = [records.add("c10d.recv", back, section="backward")]
        records.add("aten.mm", GEMM, section="backward", after=got if stage < stages - 1 else [])
        if stage:
            records.add("c10d.send", backward, section="backward")
        programs.append(records.program(range(stage, count, stages)))
    groups = tuple(tuple(range(first, first + stages)) for first in range(0, count, stages))
    return records.job(programs, {"pipe": groups})


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_pipeline_takes_its_stages_one_after_the_other(stages: int) -> None:
    """Activations pass all stages, gradients come back: two products a stage, and a message between neighbours."""
    graph = graph_of(pipeline(stages, 2))
    assert all(call.in_step for program in graph.programs for call in program.work if isinstance(call, CollectiveCall))
    lowering = lower(graph, machine(2 * stages))
    found = times(graph, 2 * stages)[0]
    product_s = float(machine(2).compute.duration_s(Gemm(8192, 8192, 8192, "bf16")))
    message_s = max(info.alone_s for info in lowering.collectives)
    whole_s = 2 * stages * product_s + 2 * (stages - 1) * message_s
    assert found["mm_1"][1] == pytest.approx(LAUNCH_S + whole_s, rel=1e-3)


def test_neighbours_of_a_line_are_in_two_communicators_in_turn() -> None:
    """The middle ranks receive from the one before and send to the next one; they are recorded as one program."""
    sends = Collective("send", "line", 1e8, "bf16", peer=1)
    records = JobRecords()
    records.add("c10d.send", sends)
    first = records.program([0])
    records.add("c10d.send", Collective("send", "line", 1e8, "bf16", peer=1, receives=True))
    records.add("c10d.send", sends)
    middle = records.program([1, 2])
    records.add("c10d.send", sends)
    graph = graph_of(records.job([first, middle, records.program([3])], {"line": ((0, 1, 2, 3),)}))
    assert [program.ranks.tolist() for program in graph.programs] == [[0], [1], [2], [3]]
    assert {name: instance.tolist() for name, instance in graph.communicators.items()} == {
        "line_to_+1_a": [0, 0, 1, 1],
        "line_to_+1_b": [-1, 0, 0, -1],
    }
    graph.check()
    assert all(end > start for name, (start, end) in times(graph, 4)[0].items() if name == "send")


def test_a_send_to_no_member_is_refused() -> None:
    records = JobRecords()
    records.add("c10d.send", Collective("send", "world", 8.0, "fp32", peer=5))
    with pytest.raises(InputError, match="rank 0 sends to no member of world"):
        graph_of(records.job([records.program([0, 1])], world(2)))


def test_groups_that_mix_programs_in_different_ways_are_not_in_step() -> None:
    """Rank 0 meets a slow rank and rank 1 a fast one, so that they do not reach their next call together."""
    records = JobRecords()
    call = Collective("all_reduce", "pairs", 1e6, "fp32")
    programs = []
    for ranks, count in (([0, 1], 1), ([2], 1), ([3], 4)):
        for _ in range(count):
            records.add("aten.mm", GEMM)
        records.add("c10d.all_reduce", call)
        programs.append(records.program(ranks))
    graph = graph_of(records.job(programs, {"pairs": ((0, 2), (1, 3))}))
    assert not any(work.in_step for program in graph.programs for work in program.work if hasattr(work, "in_step"))
    assert not graph.repeats


def test_memory_is_that_of_the_peak_and_the_reserve() -> None:
    records = JobRecords()
    records.add("aten.mm", GEMM)
    first = records.program([0, 2], peak=8e9)
    records.add("aten.mm", GEMM)
    job = records.job([first, records.program([1], peak=4e9)], world(3))
    use = memory_per_rank(settings_of(job))
    reserve = framework().reserve_bytes.value
    assert use.total("hbm").tolist() == [8e9 + reserve, 4e9 + reserve, 8e9 + reserve]
    assert use.tiers["hbm"]["activations"].tolist() == [4e9, 2e9, 4e9]

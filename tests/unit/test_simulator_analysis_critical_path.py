"""The critical path of runs written down by hand."""

import numpy as np

from simulator.analysis import critical_path
from simulator.collective_calls import CollectiveCall
from simulator.operators import Gemm, HostWork
from simulator.program import ProgramBuilder, Stream, TaskGraph
from tests.analysis_runs import group_times, hand_run, lowered

GEMM = Gemm(8, 8, 8, "fp16")


def training(ranks):
    """Launch a GEMM, reduce its gradient, then update the parameters."""
    builder = ProgramBuilder("group", ranks, ["host", "default", "comm"])
    launch = builder.task("launch", "host", HostWork(1), section="forward")
    gemm = builder.task("gemm", "default", GEMM, after=[launch], section="forward")
    reduce = builder.task("reduce", "comm", CollectiveCall("all_reduce", "world", 8), after=[gemm], section="backward")
    update = builder.task("update", "default", GEMM, after=[reduce], section="optimizer")
    builder.depend(launch, update, lag=1)
    return builder.build()


def graph_of(*programs):
    world_size = sum(p.rank_count for p in programs)
    return TaskGraph(programs, {"world": np.zeros(world_size, dtype=np.int64)})


def steps(path):
    return [(s.task, s.rank, s.start_ps, s.end_ps) for s in path.segments]


def test_path_crosses_to_the_rank_that_arrived_last():
    """Rank 1 computes until 30, rank 0 until 10: the path is rank 1's until the reduce, then lowest rank's update."""
    program = training([0, 1])
    graph = graph_of(program)
    times = group_times([[(0, 4), (4, 10), (10, 50, 20), (50, 60)], [(0, 5), (5, 30), (30, 50, 0), (50, 60)]])
    path = critical_path([program], lowered(graph), hand_run([program], [[times]]))
    assert steps(path) == [("launch", 1, 0, 5), ("gemm", 1, 5, 30), ("reduce", 0, 30, 50), ("update", 0, 50, 60)]
    assert path.segments[2].why == "waited for rank 1, the last to arrive: after gemm"
    assert path.by_category_ps() == {"compute": 35, "comm": 20, "copy": 0, "host": 5, "input": 0, "idle": 0}
    assert path.by_section_ps() == {"forward": 30, "backward": 20, "optimizer": 10}
    assert path.by_operator_ps() == {"Gemm": 35, "all_reduce": 20, "HostWork": 5}


def test_members_in_another_group_are_found():
    first, second = training([0]), training([1])
    graph = graph_of(first, second)
    early = group_times([[(0, 4), (4, 10), (10, 50, 20), (50, 60)]])
    late = group_times([[(0, 5), (5, 30), (30, 50, 0), (50, 55)]])
    path = critical_path([first, second], lowered(graph), hand_run([first, second], [[early, late]]))
    assert [(s.task, s.rank) for s in path.segments] == [("launch", 1), ("gemm", 1), ("reduce", 0), ("update", 0)]


def test_chain_is_cut_at_the_begin_of_the_window_and_may_reach_into_the_iteration_before():
    """In iteration 1 launch follows the update of iteration 0 (lag 1), which another rank ended later."""
    program = training([0, 1])
    zero = group_times([[(0, 4), (4, 10), (10, 20, 0), (20, 25)], [(0, 4), (4, 10), (10, 20, 0), (20, 30)]])
    one = group_times([[(25, 45), (45, 60), (60, 70, 0), (70, 80)], [(30, 40), (40, 50), (50, 70, 10), (70, 75)]])
    two = group_times([[(80, 81), (81, 82), (82, 83), (83, 84)], [(80, 81), (81, 82), (82, 83), (83, 84)]])
    result = hand_run([program], [[zero], [one], [two]])
    path = critical_path([program], lowered(graph_of(program)), result)
    assert (path.window.start_ps, path.window.end_ps) == (30, 80)
    assert steps(path) == [("launch", 0, 30, 45), ("gemm", 0, 45, 60), ("reduce", 0, 60, 70), ("update", 0, 70, 80)]
    assert path.segments[0].why == "after update of iteration 0"


def test_ties_go_to_the_lowest_task_number():
    builder = ProgramBuilder("group", [0], ["a", "b", "c"])
    one, two = builder.task("one", "a", GEMM), builder.task("two", "b", GEMM)
    builder.task("join", "c", GEMM, after=[two, one])
    program = builder.build()
    result = hand_run([program], [[group_times([[(0, 7), (0, 7), (7, 9)]])]])
    path = critical_path([program], lowered(graph_of(program)), result)
    assert [s.task for s in path.segments] == ["one", "join"]


def test_time_a_controller_holds_a_task_back_is_idle():
    """Both tasks could have run at 0; the controller let ``second`` go at 6, then ``first`` at 10."""
    builder = ProgramBuilder("group", [0], [Stream("comm", controller="by_priority")])
    builder.task("first", "comm", GEMM)
    builder.task("second", "comm", GEMM)
    program = builder.build()
    result = hand_run([program], [[group_times([[(10, 15), (6, 9)]])]])
    path = critical_path([program], lowered(graph_of(program)), result)
    assert [(s.task, s.category, s.length_ps) for s in path.segments] == [
        ("second", "idle", 6), ("second", "compute", 3), ("first", "idle", 1), ("first", "compute", 5),
    ]  # fmt: skip
    assert path.segments[0].why == "stream comm was held back"


def test_tasks_without_duration_leave_no_segment():
    program = training([0])
    result = hand_run([program], [[group_times([[(0, 0), (0, 5), (5, 5, 0), (5, 8)]])]])
    path = critical_path([program], lowered(graph_of(program)), result)
    assert steps(path) == [("gemm", 0, 0, 5), ("update", 0, 5, 8)]

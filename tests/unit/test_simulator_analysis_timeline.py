"""The timeline's columns and its Parquet file."""

import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from simulator.analysis import Timeline, timeline_blocks, write_parquet
from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from simulator.operators import Gemm
from simulator.program import ProgramBuilder
from tests.analysis_runs import group_times, hand_run


def program(name, ranks, streams):
    builder = ProgramBuilder(name, ranks, streams)
    builder.task("gemm", "default", Gemm(8, 8, 8, "fp16"), section="forward")
    builder.task(f"{name}.reduce", "comm", CollectiveCall("all_reduce", "world", 8), section="backward")
    return builder.build()


@pytest.fixture
def run():
    """Two groups that number their streams differently, two iterations."""
    programs = [program("one", [0, 2], ["default", "comm"]), program("two", [1], ["comm", "default"])]
    zero = [group_times([[(0, 3), (3, 9, 2)], [(0, 5), (5, 9, 0)]]), group_times([[(0, 4), (4, 9, 1)]])]
    one = [group_times([[(9, 13), (13, 19, 2)], [(9, 15), (15, 19, 0)]]), group_times([[(9, 14), (14, 19, 1)]])]
    return programs, hand_run(programs, [zero, one])


def test_rows_come_by_iteration_group_rank_and_task(run):
    frame = Timeline.from_run(*run).to_pandas()
    assert list(frame.columns) == ["rank", "ranks", "iteration", "task", "stream", "start_ps", "end_ps", "waiting_ps"]
    assert set(frame.pop("ranks")) == {1}
    assert frame.iloc[:6].astype(object).values.tolist() == [
        [0, 0, "gemm", "default", 0, 3, 0],
        [0, 0, "one.reduce", "comm", 3, 9, 2],
        [2, 0, "gemm", "default", 0, 5, 0],
        [2, 0, "one.reduce", "comm", 5, 9, 0],
        [1, 0, "gemm", "default", 0, 4, 0],
        [1, 0, "two.reduce", "comm", 4, 9, 1],
    ]
    assert len(frame) == 12


def test_symbols_carry_section_and_category(run):
    symbols = Timeline.from_run(*run).symbols
    assert symbols.tasks == ("gemm", "one.reduce", "two.reduce")
    assert symbols.sections == ("forward", "backward", "backward")
    assert symbols.categories == (Category.COMPUTE, Category.COMM, Category.COMM)


def test_taking_ranks_from_the_run_and_from_the_timeline_is_the_same(run):
    whole = Timeline.from_run(*run)
    taken = Timeline.from_run(*run, ranks=[1, 2, 77])
    assert taken.to_pandas().equals(whole.select(ranks=[1, 2]).to_pandas())
    assert set(taken.rank.tolist()) == {1, 2}


def test_no_rank_gives_an_empty_timeline_with_all_columns(run):
    empty = Timeline.from_run(*run, ranks=[])
    assert (len(empty), empty.to_arrow().num_columns, empty.symbols.streams) == (0, 8, ("default", "comm"))


@pytest.mark.parametrize("ranks_per_block", [1, 2, 100])
def test_parquet_holds_the_same_rows_whatever_the_blocks(run, tmp_path, ranks_per_block):
    path = tmp_path / "timeline.parquet"
    rows = write_parquet(timeline_blocks(*run, ranks_per_block=ranks_per_block), path)
    back = pq.read_table(path)
    assert (rows, back.num_rows) == (12, 12)
    assert back.to_pandas().equals(Timeline.from_run(*run).to_pandas())
    types = {field.name: str(field.type) for field in back.schema}
    assert types["rank"] == types["ranks"] == types["iteration"] == "int32"
    assert types["start_ps"] == types["end_ps"] == types["waiting_ps"] == "int64"
    assert types["task"].startswith("dictionary<values=string")


def test_same_run_gives_the_same_bytes(run, tmp_path):
    for name in ("a", "b"):
        write_parquet(timeline_blocks(*run), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_parquet_of_no_rank_has_all_columns_and_no_rows(run, tmp_path):
    path = tmp_path / "timeline.parquet"
    assert write_parquet(timeline_blocks(*run, ranks=np.array([77])), path) == 0
    assert pq.read_table(path).shape == (0, 8)


def test_no_block_is_refused_and_leaves_no_file(tmp_path):
    with pytest.raises(ValueError, match="no schema"):
        write_parquet([], tmp_path / "timeline.parquet")
    assert not list(tmp_path.iterdir())


def test_analysis_loads_neither_pandas_nor_pyarrow():
    """Both take longer to import than the command line may take to start."""
    code = "import sys, simulator.analysis; print([m for m in ('pandas', 'pyarrow', 'plotly') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"

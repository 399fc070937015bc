"""Reading measured collectives: logs of nccl-tests, tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from inputs.errors import InputError
from traces.formats import import_traces
from traces.nccl_tests import TimedCollective, read_timed_collectives

HEAD = """# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#
# Using devices
#  Rank  0 Group  0 Pid   1001 on     node-a device  0 [0000:19:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   1002 on     node-a device  1 [0000:3b:00] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid   2001 on     node-b device  0 [0000:19:00] NVIDIA H100 80GB HBM3
#  Rank  3 Group  0 Pid   2002 on     node-b device  1 [0000:3b:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
ROWS = """     1048576        262144     float     sum      -1    95.21   11.01   16.52   0   94.80  11.06  16.59   0
     4194304       1048576     float     sum      -1   201.30   20.84   31.25   0  200.10  20.96  31.44   0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 23.95
"""


COLUMNS = "op,nodes,ranks_per_node,bytes,time_us\n"


def written(tmp_path: Path, text: str, name: str = "all_reduce.log") -> Path:
    file = tmp_path / name
    file.write_text(text)
    return file


def test_a_log_has_its_operation_ranks_nodes_and_out_of_place_times(tmp_path):
    found = read_timed_collectives(written(tmp_path, HEAD + ROWS))
    assert found == [
        TimedCollective("all_reduce", 2, 2, 1048576.0, pytest.approx(95.21e-6), "all_reduce"),
        TimedCollective("all_reduce", 2, 2, 4194304.0, pytest.approx(201.3e-6), "all_reduce"),
    ]


@pytest.mark.parametrize(
    ("name", "op", "expected"),
    [
        ("alltoall_perf.log", None, "all_to_all"),
        ("run1.log", "all_gather", "all_gather"),
        ("reduce_scatter.txt", None, "reduce_scatter"),
        ("sendrecv_perf.log", None, "sendrecv"),
        ("scatter_perf.log", None, "scatter"),
    ],
)
def test_the_operation_comes_from_the_name_or_the_caller(tmp_path, name, op, expected):
    assert {row.op for row in read_timed_collectives(written(tmp_path, HEAD + ROWS, name), op)} == {expected}


@pytest.mark.parametrize("name", ["run1.log", "all_reduce.log"])
def test_an_operation_that_is_none_is_refused(tmp_path, name):
    with pytest.raises(InputError, match=r"--op: no such operation; given 'all_gathr'.*did you mean 'all_gather'"):
        read_timed_collectives(written(tmp_path, HEAD + ROWS, name), "all_gathr")


def test_import_takes_the_operation_of_a_log_that_names_none(tmp_path):
    found = import_traces([written(tmp_path, HEAD + ROWS, "run1.log")], op="reduce_scatter_perf")
    assert found.found == {"logs": 1, "sizes of reduce_scatter": 2}
    with pytest.raises(InputError, match="does not say which operation"):
        import_traces([tmp_path / "run1.log"])


def test_other_formats_take_no_operation(tmp_path):
    trace = written(tmp_path, '{"traceEvents": []}', "trace.json")
    with pytest.raises(InputError, match="--op: only logs of nccl-tests"):
        import_traces([trace], op="all_reduce")


def test_the_line_of_newer_releases_comes_before_the_name(tmp_path):
    text = "# Collective test starting: alltoall_perf\n" + HEAD + ROWS
    assert {row.op for row in read_timed_collectives(written(tmp_path, text))} == {"all_to_all"}


def test_a_table_has_units_and_aliases(tmp_path):
    text = "repo,nodes,ngpus,op,size_bytes,time_us\nlab,2,8,alltoall,1024,50\nlab,2,8,hypercube,1024,9\n"
    (row,) = read_timed_collectives(written(tmp_path, text, "lab.csv"))
    assert (row.op, row.nodes, row.ranks_per_node, row.bytes, row.source) == ("all_to_all", 2, 4, 1024.0, "lab")
    assert row.time_s == pytest.approx(50e-6)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.log", HEAD + ROWS, "does not say which operation"),
        ("all_reduce.log", "nothing here\n", "names no ranks"),
        ("all_reduce.log", HEAD, "no collective was found"),
        ("t.csv", COLUMNS + "all_reduce,1,8,fast,3\n", r"t\.csv:2: bytes: not a number; given 'fast'"),
        ("t.csv", COLUMNS + "all_reduc,1,8,4,3\n", r"t\.csv:2.*did you mean 'all_reduce'"),
        ("t.csv", COLUMNS + "all_reduce,0,8,4,3\n", r"t\.csv:2: nodes: .*more than 0"),
        ("t.csv", "op,nodes,bytes,time_us\nall_reduce,1,4,3\n", r"t\.csv:2.*ranks is missing"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told_at_its_line(tmp_path, name, text, message):
    with pytest.raises(InputError, match=message):
        read_timed_collectives(written(tmp_path, text, name))


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_timed_collectives(tmp_path / "nothing.log")

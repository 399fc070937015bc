"""Files of others and our own, with values of another kind than their format has: one line, exit code 2, no file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dlrmsim.cli import main
from inputs.csv_table import MAX_CELL
from inputs.errors import InputError
from tests.trace_files import KinetoRank, chakra_bytes, chakra_iteration, two_ranks, write_ranks
from traces.nccl_tests import read_timed_collectives
from traces.typed import MAX_BYTES, MAX_RANKS
from validation.host.record import HostRecord
from validation.suites.kernel_rows import kernel_rows
from workloads.dlrm.laws.index_files import read_counts
from workloads.dlrm.model.table_list import read_table_list

WRONG: list[Any] = ["x", -1, MAX_RANKS + 1, 10**12, 10**30, 1.5, True, [], {}]
"""Values that no rank is."""


def refused(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: object) -> str:
    """The message, after checking that it is one line and that nothing was written."""
    before = sorted(folder.rglob("*"))
    code = main([*map(str, arguments)])
    message = capsys.readouterr().err
    assert code == 2, message
    assert message.count("\n") == 1, message
    assert "expected" in message
    assert len(message) < 500
    assert sorted(folder.rglob("*")) == before
    return message


@pytest.mark.parametrize("key", ["rank", "world_size"])
@pytest.mark.parametrize("value", WRONG, ids=str)
def test_a_rank_of_kineto_is_a_rank_of_the_job(capsys, tmp_path, key, value):
    own = two_ranks(1)[0]
    own.head["distributedInfo"][key] = value
    file = own.write(tmp_path / "trace.json")
    message = refused(capsys, tmp_path, "import", file, "--out", tmp_path / "out")
    assert f"trace.json: distributedInfo.{key}: wrong value; given" in message


def test_a_rank_beyond_the_jobs(capsys, tmp_path):
    file = KinetoRank(5, 2).write(tmp_path / "trace.json")
    file.write_text(file.read_text().replace("[]", '[{"ph": "M"}]'))
    assert "a rank below world_size, which is 2" in refused(capsys, tmp_path, "import", file, "--out", tmp_path / "o")


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("distributedInfo", 3), ("distributedInfo", ["a"]), ("deviceProperties", {"a": 1}), ("deviceProperties", [3]),
        ("baseTimeNanoseconds", "now"), ("baseTimeNanoseconds", 10**30),
    ],
)  # fmt: skip
def test_the_head_of_kineto(capsys, tmp_path, where, value):
    own = two_ranks(1)[0]
    own.head[where] = value
    file = own.write(tmp_path / "trace.json")
    assert f"trace.json: {where}" in refused(capsys, tmp_path, "import", file, "--out", tmp_path / "out")


@pytest.mark.parametrize("key", ["Collective name", "dtype", "Process Group Name", "Process Group Ranks", "Group size"])
@pytest.mark.parametrize("value", [{"a": 1}, [["x"]], 1.5, True], ids=str)
def test_an_argument_of_a_collective(capsys, tmp_path, key, value):
    own = two_ranks(1)[0]
    collective = next(event for event in own.events if "nccl" in event["name"])
    collective["args"][key] = value
    file = own.write(tmp_path / "trace.json")
    number = own.events.index(collective)
    message = refused(capsys, tmp_path, "import", file, "--out", tmp_path / "out")
    assert f"trace.json: event {number} ('ncclDevKernel_AllReduce_Sum_f32') args: {key}" in message


@pytest.mark.parametrize(("key", "value"), [("args", 3), ("name", ["a"]), ("ph", 1), ("cat", {}), ("ts", "soon")])
def test_an_event_shows_the_given_value(capsys, tmp_path, key, value):
    own = two_ranks(1)[0]
    own.events[3][key] = value
    file = own.write(tmp_path / "trace.json")
    message = refused(capsys, tmp_path, "import", file, "--out", tmp_path / "out")
    assert f"element 3 of traceEvents: {key}: wrong value; given" in message


def execution_trace(folder: Path, **changes: Any) -> Path:
    """An execution trace whose node 2 has other values."""
    tensor = [1, 1, 0, 8, 4, "cuda:0"]
    node = {"id": 2, "name": "aten::add", "inputs": {"values": [tensor], "shapes": [[8]], "types": ["Tensor(float)"]}}
    file = folder / "et_0.json"
    file.write_text(json.dumps({"schema": "1.1.1", "nodes": [{"id": 1, "name": "root"}, node | changes]}))
    return file


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"attrs": 5}, "element 1 of nodes: attrs"),
        ({"attrs": [{"name": ["a"]}]}, "element 1 of nodes: attrs[0].name"),
        ({"name": ["a"]}, "element 1 of nodes: name"),
        (
            {"name": "process_group:init", "inputs": {"values": ['[{"pg_name": "0", "ranks": ["x"]}]']}},
            "node 2 ('process_group:init'): [0].ranks[0]",
        ),
        (
            {"name": "process_group:init", "inputs": {"values": ['[{"pg_name": "0", "group_size": 1000000000000}]']}},
            "node 2 ('process_group:init'): group_size",
        ),
    ],
)
def test_a_node_of_an_execution_trace(capsys, tmp_path, changes, place):
    file = execution_trace(tmp_path, **changes)
    message = refused(capsys, tmp_path, "import", file, "--out", tmp_path / "out")
    assert f"et_0.json: {place}: wrong value; given" in message


@pytest.mark.parametrize(
    ("place", "change"),
    [
        (0, {"duration_micros": 2**63}), (1, {"attrs": {"comm_type": "x", "comm_size": 1}}),
        (1, {"attrs": {"comm_type": True, "comm_size": 1}}), (1, {"attrs": {"comm_type": 0, "comm_size": "x"}}),
        (1, {"attrs": {"comm_type": 0, "comm_size": -1}}), (1, {"attrs": {"comm_type": 0, "comm_size": MAX_BYTES + 1}}),
        (2, {"type": 2, "attrs": {"tensor_size": "x"}}),
    ],
)  # fmt: skip
def test_a_node_of_chakra(capsys, tmp_path, place, change):
    nodes = chakra_iteration()
    nodes[place] |= change
    file = tmp_path / "t.0.et"
    file.write_bytes(chakra_bytes(nodes))
    message = refused(capsys, tmp_path, "import", file, "--out", tmp_path / "out")
    assert f"t.0.et: byte {'' if place else 8}" in message
    assert f"node {place + 1} " in message


@pytest.mark.parametrize("name", [f"rank{10**12}.json", f"et_{10**12}.json", f"t.{10**30}.et"])
def test_a_rank_in_a_files_name(capsys, tmp_path, name):
    file = tmp_path / name
    if name.startswith("rank"):
        own = two_ranks(1)[0]
        own.head = {}
        own.write(file)
    elif name.startswith("et"):
        execution_trace(tmp_path).rename(file)
    else:
        file.write_bytes(chakra_bytes(chakra_iteration()))
    message = refused(capsys, tmp_path, "import", file, "--out", tmp_path / "out")
    assert f"{name}: rank in its name: wrong value; given" in message


@pytest.fixture(scope="module")
def imported(tmp_path_factory) -> Path:
    """A folder that `import` wrote."""
    folder = tmp_path_factory.mktemp("imported")
    files = write_ranks(folder, two_ranks())
    assert main(["import", *map(str, files), "--out", str(folder / "out"), "--no-report"]) == 0
    return folder / "out"


NUMBERS = ("rank", "iteration", "start_ps", "end_ps")
CHANGES = {
    "null": lambda column: pa.array([None, *column.to_pylist()[1:]], pa.int64()),
    "nulls": lambda column: pa.nulls(len(column)),
    "text": lambda column: pa.array([str(value) for value in column.to_pylist()]),
    "fractions": lambda column: pa.array([float(value) for value in column.to_pylist()]),
    "lists": lambda column: pa.array([[value] for value in column.to_pylist()]),
    "dates": lambda column: pa.array(column.to_pylist(), pa.timestamp("us")),
    "too large": lambda column: pa.array([2**64 - 1, *column.to_pylist()[1:]], pa.uint64()),
    "far": lambda column: pa.array([2**62, *column.to_pylist()[1:]], pa.int64()),
    "before": lambda column: pa.array([-(2**63), *column.to_pylist()[1:]], pa.int64()),
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("change", [*CHANGES, "absent", "twice"])
def test_a_column_of_a_timeline(capsys, tmp_path, imported, name, change):
    table = pq.read_table(imported / "timeline.parquet")
    column, place = table.column(name), table.column_names.index(name)
    if change == "absent":
        table = table.drop_columns([name])
    elif change == "twice":
        table = table.append_column(name, column)
    else:
        table = table.set_column(place, name, CHANGES[change](column))
    pq.write_table(table, tmp_path / "timeline.parquet")
    message = refused(capsys, tmp_path, "import", tmp_path / "timeline.parquet", "--out", tmp_path / "out")
    assert "timeline.parquet: " in message
    assert f"{name}: " in message


def test_narrow_whole_numbers_of_a_timeline_are_read(tmp_path, imported):
    table = pq.read_table(imported / "timeline.parquet")
    table = table.set_column(0, "rank", table.column("rank").cast(pa.int8()))
    pq.write_table(table, tmp_path / "timeline.parquet")
    assert main(["import", str(tmp_path), "--out", str(tmp_path / "out"), "--no-report"]) == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("breakdown", 3), ("breakdown", []), ("steps", {"a": 1}), ("steps", [3]), ("steps", [{"compute_s": "x"}]),
        ("operators", [3]), ("operators", [{"name": ["x"], "total_s": 1}]), ("operators", {"a": {}}),
        ("iteration_time_s", None), ("iteration_time_s", [1]), ("collectives", [[1]]),
    ],
)  # fmt: skip
def test_our_own_summary(capsys, tmp_path, imported, key, value):
    summary = json.loads((imported / "summary.json").read_text())
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "summary.json").write_text(json.dumps(summary | {key: value}))
    assert f"a/summary.json: {key}" in refused(capsys, tmp_path, "compare", tmp_path / "a", imported)


@pytest.mark.parametrize("files", [3, [3.5, "summary.json"], {"a": 1}, None, "summary.json"])
def test_a_record_whose_files_are_no_names_makes_no_folder_ours(capsys, tmp_path, files):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("kept")
    (tmp_path / "out" / "run.json").write_text(json.dumps({"tool": "dlrmsim", "files": files}))
    trace = two_ranks(1)[0].write(tmp_path / "trace.json")
    message = refused(capsys, tmp_path, "import", trace, "--out", tmp_path / "out")
    assert "holds files that dlrmsim did not write" in message


POINTS = "op,nodes,ranks_per_node,bytes,time_us,source\nall_reduce,2,8,1024,10,a\nall_reduce,2,8,2048,12,a\n"
TABLES = "name,rows,dim,features,pooling\nusers,1000,64,1,1\nitems,1000,64,1,1\n"
KERNELS = "kind,precision,m,n,k,time_us,source\ngemm,fp16,8,8,8,3,a\ngemm,fp16,8,8,8,3,a\n"
READERS = {
    "points": (POINTS, read_timed_collectives),
    "tables": (TABLES, read_table_list),
    "kernels": (KERNELS, lambda file: kernel_rows(str(file))),
}
BROKEN = {
    "a NUL": lambda text: text.replace("1000", "1\0").replace("10,", "1\0,").replace("8,8", "8\0,8"),
    "a long cell": lambda text: text + "x" * 200_000 + "\n",
    "a cell over the limit": lambda text: text + "x" * (MAX_CELL + 1) + "\n",
    "a short row": lambda text: text + "users\n",
    "a long row": lambda text: text + ",".join("x" * 12) + "\n",
    "a column twice": lambda text: "\n".join(f"{line},{line.split(',')[0]}" for line in text.splitlines()),
    "half a quote": lambda text: text + '"x,1,2\n',
    "no text": lambda text: text + "\ud800",
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("broken", BROKEN)
def test_every_csv_is_a_table(tmp_path, reader, broken):
    text, read = READERS[reader]
    file = tmp_path / "t.csv"
    file.write_text(text)
    assert read(file)
    file.write_bytes(BROKEN[broken](text).encode("utf-8", "surrogatepass"))
    with pytest.raises(InputError, match=r"t\.csv") as caught:
        read(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("column", ["nodes", "ranks_per_node", "bytes", "time_us"])
@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e400", "-1", "0", "x", "", "\u0663"])
def test_numbers_of_measured_collectives(tmp_path, column, value):
    names = POINTS.splitlines()[0].split(",")
    row = ["all_reduce", "2", "8", "1024", "10", "a"]
    row[names.index(column)] = value
    file = tmp_path / "t.csv"
    file.write_text(f"{','.join(names)}\n{','.join(row)}\n")
    with pytest.raises(InputError, match=rf"t\.csv:2.*{column}"):
        read_timed_collectives(file)


@pytest.mark.parametrize("column", ["nodes", "ranks_per_node"])
def test_there_are_no_fractions_of_nodes(tmp_path, column):
    file = tmp_path / "t.csv"
    file.write_text(POINTS.replace(",2,8,1024", ",1.5,8,1024" if column == "nodes" else ",2,1.5,1024"))
    with pytest.raises(InputError, match=rf"t\.csv:2: {column}: not a whole number"):
        read_timed_collectives(file)


@pytest.mark.parametrize("time_us", ["nan", "inf", "-4", "0.0", "x"])
def test_a_time_of_a_log(tmp_path, time_us):
    file = tmp_path / "all_reduce.log"
    file.write_text(
        "# nccl-tests\n#  Rank  0 Group 0 Pid 1 on host device 0\n#  size count type redop root time algbw busbw #wrong"
        f" time algbw busbw #wrong\n 8 2 float sum -1 {time_us} 0 0 0 5 0 0 0\n"
    )
    with pytest.raises(InputError, match=r"log:4: time: .*; given .*; expected "):
        read_timed_collectives(file)


def test_pooling_factors_that_are_not_one_for_each_feature(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("name,rows,dim,features,pooling\na,10,4,2,1|2|3\n")
    with pytest.raises(InputError, match=r"t\.csv:2.*3 pooling factors for 2 features"):
        read_table_list(file)


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"}", b" "), (b"(50,)", b"(-1,)"), (b"'<i8'", b"'|O'"), (b"(50,)", b"((((("), (b"\x76\x00", b"\xff\xff")],
)  # fmt: skip
def test_a_header_of_npy_without_end(tmp_path, old, new):
    file = tmp_path / "i.npy"
    np.save(file, np.arange(50))
    file.write_bytes(file.read_bytes().replace(old, new, 1))
    with pytest.raises(InputError, match=r"i\.npy: cannot be read") as caught:
        read_counts(file, "t")
    assert len(str(caught.value)) < 300 + len(str(file))


def test_a_record_of_a_host_that_is_cut_inside(tmp_path):
    file = tmp_path / "r.record.json.gz"
    packed = bytearray(gzip.compress(b'{"schema": 4}' * 100))
    packed[12:20] = b"\xff" * 8
    file.write_bytes(packed)
    with pytest.raises(InputError, match=r"r\.record\.json\.gz: not a record"):
        HostRecord.read(str(file))

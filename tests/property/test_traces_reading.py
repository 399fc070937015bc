"""Reading long arrays in pieces, and importers against files with anything wrong in them."""

from __future__ import annotations

import functools
import gzip
import json
import tempfile
import zlib
from base64 import b85decode, b85encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dlrmsim.verbs.export import WRITERS
from inputs.errors import DlrmsimError, InputError
from tests.trace_files import chakra_bytes, chakra_iteration, two_ranks
from traces.formats import import_traces
from traces.json_array import JsonArray

BUDGET = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
"""The same files in every run, some seconds of them."""

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(max_size=8)
    | st.sampled_from(['}, {"', "]}", '\\"']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=6), values, max_size=4)


@BUDGET
@given(
    elements=st.lists(objects, max_size=12),
    head=st.dictionaries(st.text(max_size=5).filter(lambda key: key != "rows"), values, max_size=3),
    tail=st.dictionaries(st.just("tail"), values, max_size=1),
    indent=st.sampled_from([None, 0, 2]),
    separators=st.sampled_from([(",", ":"), (", ", ": "), (" ,  ", " : ")]),
    ascii_only=st.booleans(),
    chunk=st.integers(1, 60),
)
def test_whatever_the_layout_and_the_chunks_all_elements_come_in_order(
    tmp_path, elements, head, tail, indent, separators, ascii_only, chunk
):
    file = tmp_path / "rows.json"
    text = json.dumps(head | {"rows": elements} | tail, indent=indent, separators=separators, ensure_ascii=ascii_only)
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    array: JsonArray[Any] = JsonArray(file, "rows", dict, chunk_bytes=chunk)
    assert [element for batch in array.batches() for element in batch] == elements
    assert array.head == head | tail


@BUDGET
@given(elements=st.lists(objects, max_size=6), keep=st.floats(0.0, 1.0, exclude_max=True), chunk=st.integers(1, 60))
def test_an_array_that_is_cut_off_is_refused(tmp_path, elements, keep, chunk):
    file = tmp_path / "rows.json"
    text = json.dumps({"rows": elements})
    file.write_text(text[: max(int(len(text) * keep), 1)])
    with pytest.raises(InputError):
        list(JsonArray(file, "rows", dict, chunk_bytes=chunk).batches())


def kineto() -> bytes:
    return two_ranks(world_size=1)[0].text().encode()


def chakra() -> bytes:
    return chakra_bytes(chakra_iteration())


def execution_trace() -> bytes:
    node = {"id": 2, "name": "aten::relu", "parent": 1, "inputs": [[1, 1, 0, 8, 4, "cuda:0"]], "outputs": []}
    return json.dumps({"schema": "1.0.1", "nodes": [{"id": 1, "name": "root", "parent": 0}, node]}).encode()


def log() -> bytes:
    return (
        b"# Collective test starting: all_reduce_perf\n#  Rank  0 Group  0 Pid 1 on a device  0 [0] H100\n"
        b"#       size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n"
        b"  1024  256  float  sum  -1  15.5  1.0  2.0  0  15.4  1.0  2.0  0\n"
    )


@functools.cache
def parquet() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        WRITERS["parquet"](import_traces([two_ranks(world_size=1)[0].write(Path(folder) / "a.json")]), Path(folder))
        return (Path(folder) / "timeline.parquet").read_bytes()


@functools.cache
def chrome() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        WRITERS["chrome"](import_traces([two_ranks(world_size=1)[0].write(Path(folder) / "a.json")]), Path(folder))
        return gzip.decompress((Path(folder) / "rank0.json.gz").read_bytes())


@functools.cache
def exported_chakra() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        WRITERS["chakra"](import_traces([two_ranks(world_size=1)[0].write(Path(folder) / "a.json")]), Path(folder))
        return (Path(folder) / "trace.0.et").read_bytes()


edits = st.lists(
    st.tuples(st.floats(0.0, 1.0, exclude_max=True), st.integers(0, 6), st.binary(max_size=6)), min_size=1, max_size=4
)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rank0.json", kineto),
        ("job.0.et", chakra),
        ("et_0.json", execution_trace),
        ("all_reduce.log", log),
        ("rank0.json", chrome),
        ("timeline.parquet", parquet),
        ("job.0.et", exported_chakra),
    ],
    ids=["kineto", "chakra", "pytorch_et", "nccl_tests", "chrome", "parquet", "exported_chakra"],
)
@BUDGET
@given(edits=edits)
def test_an_importer_imports_or_says_what_is_wrong(tmp_path, name, content, edits):
    """Bytes are replaced, removed and inserted anywhere; whatever comes of it is an import or one message."""
    data = content()
    for place, removed, inserted in edits:
        at = int(place * len(data))
        data = data[:at] + inserted + data[at + removed :]
    imported_or_refused(tmp_path / name, data)


numbers = st.sampled_from([-1, 0, 1e308, -1e18, 2**63, 2**64, 1e-9, True, None, "7", [], {}, 3.5])
keys = [
    "ph",
    "cat",
    "name",
    "pid",
    "tid",
    "ts",
    "dur",
    "args",
    "correlation",
    "stream",
    "bytes",
    "In msg nelems",
    "dtype",
]


@BUDGET
@given(changes=st.lists(st.tuples(st.integers(0, 30), st.sampled_from(keys), numbers), min_size=1, max_size=4))
def test_events_with_odd_values_are_imported_or_refused(tmp_path, changes):
    own = two_ranks(world_size=1)[0]
    for number, key, value in changes:
        event = own.events[number % len(own.events)]
        args = event.get("args")
        (args if isinstance(args, dict) and key in args else event)[key] = value
    imported_or_refused(tmp_path / "rank0.json", own.text().encode())


@BUDGET
@given(changes=st.lists(st.tuples(st.integers(0, 400), numbers | values), min_size=1, max_size=3))
def test_programs_with_odd_values_are_imported_or_refused(tmp_path, changes):
    """What an exported trace says of its programs, each value replaced by any other."""
    trace = json.loads(chrome())
    about = json.loads(zlib.decompress(b85decode(trace["dlrmsim"])))
    for number, value in changes:
        places = list(containers(about))
        holder, key = places[number % len(places)]
        holder[key] = value
    trace["dlrmsim"] = b85encode(zlib.compress(json.dumps(about).encode())).decode()
    imported_or_refused(tmp_path / "rank0.json", json.dumps(trace).encode())


def containers(value):
    """(list or dict, key) of every value inside one."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from containers(inner)


def imported_or_refused(file, data) -> None:
    file.write_bytes(data)
    found = outcome(file)
    if isinstance(found, DlrmsimError):
        assert found.exit_code == 2
        assert file.name in str(found)
    else:
        assert found.format


def outcome(file):
    try:
        return import_traces([file])
    except DlrmsimError as error:
        return error

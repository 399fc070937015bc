"""Traces that are read by the layout of an earlier one give what parsing each of them gives, errors included."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dlrmsim.cli import main
from inputs.errors import InputError
from tests.trace_files import chakra_bytes, chakra_iteration
from traces.chakra import importer
from traces.chakra.importer import LONGEST_US, import_chakra
from traces.chakra.layouts import Layout

durations = st.sampled_from([0, 1, 127, 128, 300, 10**6, LONGEST_US, LONGEST_US + 1, 1 << 63])
times = st.lists(st.tuples(durations, st.sampled_from([0, 5, 1 << 40, (1 << 64) - 1])), min_size=4, max_size=4)

BEHIND = [b"", b"", b"", b"\x38\x07", b"\x30\x07", b"\x20\x01", b"\x7a\x01x"]
"""Fields 7 (duration), 6 (start), 4 (a dependency) and 15 (unknown) on the wire."""


@st.composite
def traces(draw) -> bytes:
    """A trace of one of three structures with any times, and perhaps a byte changed, cut off or added.

    Behind the fields of a node there may be one more that the schema has before them, or does not have.
    """
    nodes = chakra_iteration()
    nodes[draw(st.integers(0, 3))]["behind"] = draw(st.sampled_from(BEHIND))
    group = draw(st.sampled_from([None, "pair", "pain"]))
    if group is not None:
        nodes[1]["attrs"]["pg_name"] = group
    rare = draw(st.integers(0, 9)) == 0
    for node, (duration_us, start_us) in zip(nodes, draw(times), strict=True):
        node |= {
            "duration_micros": duration_us if rare else min(duration_us, LONGEST_US),
            "start_time_micros": start_us,
        }
    raw = bytearray(chakra_bytes(nodes))
    change, at = draw(st.sampled_from(["none"] * 6 + ["change", "cut", "add"])), draw(st.integers(0, len(raw) - 1))
    if change == "change":
        raw[at] = draw(st.integers(0, 255))
    if change == "cut":
        del raw[at:]
    if change == "add":
        raw += draw(st.binary(min_size=1, max_size=5))
    return bytes(raw)


def outcome(files: list[Path]) -> object:
    """Everything an import says, or its error."""
    try:
        found = import_chakra(files)
    except InputError as error:
        return str(error)
    programs = [
        (p.name, p.ranks.tolist(), p.names, p.dep_task.tolist(), [amounts(work) for work in p.work])
        for p in found.graph.programs
    ]
    groups = {name: instances.tolist() for name, instances in found.graph.communicators.items()}
    return found.files, found.world_size, programs, groups, dict(found.found), found.gaps


def amounts(work: object) -> object:
    fields = {name: getattr(work, name) for name in type(work).__dataclass_fields__}
    return type(work).__name__, {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in fields.items()}


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raws=st.lists(traces(), min_size=2, max_size=6))
def test_reading_by_layout_equals_parsing(tmp_path, raws):
    files = [tmp_path / f"job.{rank}.et" for rank in range(len(raws))]
    for file, raw in zip(files, raws, strict=True):
        file.write_bytes(raw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Layout, "of", classmethod(lambda *_: None))
        parsed = outcome(files)
    assert outcome(files) == parsed
    assert outcome(files[::-1]) == parsed_alone(files[::-1])


def parsed_alone(files: list[Path]) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importer, "nodes_begin", lambda *_: None)
        return outcome(files)


def test_a_node_shorter_than_the_layout_is_another():
    """Its bytes begin as they should and end as they should; those in the middle are the same ones."""
    named, with_attribute = b"\x12\x02R\x00", b"\x12\x02R\x00R\x00"
    layout = Layout.of([with_attribute])
    assert layout.durations_us(bytes([len(with_attribute)]) + with_attribute, 0) == [0]
    assert layout.durations_us(bytes([len(named)]) + named, 0) is None


def test_fields_out_of_order_have_no_layout():
    """A time that stands before a field of the head would be taken for a part of the head."""
    duration, dependency = b"\x38\x07", b"\x20\x01"
    assert Layout.of([dependency + duration]) is not None
    assert Layout.of([duration + dependency]) is None


def test_ranks_that_differ_in_times_are_parsed_once(tmp_path):
    """The law above holds for layouts that are never used, too."""
    nodes, parsed = chakra_iteration(), []
    files = [tmp_path / f"job.{rank}.et" for rank in range(8)]
    for rank, file in enumerate(files):
        nodes[0]["duration_micros"] = 10**rank - 1
        file.write_bytes(chakra_bytes(nodes))
    with pytest.MonkeyPatch.context() as patch:
        read = importer.read_nodes
        patch.setattr(importer, "read_nodes", lambda file, parts: parsed.append(file) or read(file, parts))
        program = import_chakra(files).graph.programs[0]
    assert parsed == files[:1]
    assert np.asarray(program.work[0].seconds).tolist() == [(10**rank - 1) * importer.US for rank in range(8)]


def test_a_folder_of_traces_is_replayed_as_its_files(tmp_path, capsys):
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in range(8):
        (folder / f"job.{rank}.et").write_bytes(chakra_bytes(chakra_iteration(100 + rank)))
    options = ["--cluster", "zionex", "--json"]
    assert main(["replay", str(folder), *options]) == 0
    of_folder = capsys.readouterr().out
    assert main(["replay", *map(str, sorted(folder.iterdir())), *options]) == 0
    assert capsys.readouterr().out == of_folder

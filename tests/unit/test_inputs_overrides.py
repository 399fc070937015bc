"""``--set KEY=VALUE``: a copy of the document with one other value, and messages that point at the option."""

from pathlib import Path

import pytest

from inputs.errors import InputError
from inputs.yaml_lines import Document, parse_yaml

TEXT = "name: a\nworkload:\n  batch: 1\n  empty:\ntables:\n  - dim: 64\n  - dim: 32\n"


@pytest.fixture
def document() -> Document:
    return parse_yaml(TEXT, Path("job.yaml"))


@pytest.mark.parametrize(
    ("key", "text", "path", "value"),
    [
        ("name", "b", ("name",), "b"),
        ("workload.batch", "1e6", ("workload", "batch"), 10**6),
        ("workload.empty.deep", "true", ("workload", "empty", "deep"), True),
        ("workload.new", "{planner: greedy}", ("workload", "new", "planner"), "greedy"),
        ("run.iterations", "[1, 2]", ("run", "iterations", 1), 2),
        ("tables[1].dim", "8", ("tables", 1, "dim"), 8),
        ("tables[0]", "{dim: 4}", ("tables", 0, "dim"), 4),
        ("link", "25 GB/s", ("link",), "25 GB/s"),
        ("name", "", ("name",), None),
    ],
)
def test_a_value_is_set_in_a_copy(document, key, text, path, value):
    changed: object = document.set(key, text).data
    for part in path:
        changed = changed[part]
    assert changed == value
    assert document == parse_yaml(TEXT, Path("job.yaml"))


def test_messages_point_at_the_option_that_set_the_value_and_at_the_file_for_the_rest(document):
    changed = document.set("workload.batch", "0").set("run.max", "3").set("tables[0]", "{dim: 1}")
    assert changed.where(("workload", "batch")) == ("--set workload.batch=0", None)
    assert changed.where(("run",)) == ("--set run.max=3", None)
    assert changed.where(("tables", 0, "dim")) == ("--set tables[0]={dim: 1}", None)
    assert changed.where(("tables", 1, "dim")) == ("job.yaml", 7)
    assert changed.where(("workload",)) == ("job.yaml", 2)
    assert changed.where(("workload", "absent")) == ("job.yaml", 2)
    assert str(changed.error(("run", "max"), "bad")) == "--set run.max=3: run.max: bad"


def test_the_last_of_two_options_wins(document):
    twice = document.set("workload", "{batch: 2}").set("workload.batch", "3")
    assert twice.data["workload"] == {"batch": 3}
    assert twice.where(("workload", "batch")) == ("--set workload.batch=3", None)
    over = twice.set("workload", "{batch: 4}")
    assert over.where(("workload", "batch")) == ("--set workload={batch: 4}", None)


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("", "1", "not a key"),
        ("a..b", "1", "not a key; given 'a..b'"),
        ("name.x", "1", "--set name.x=1: name: not a mapping, so it has no key 'x'; given 'a'"),
        ("name[0]", "1", "name: not a list; given 'a'"),
        ("tables[2]", "1", "tables: no such item; given 2; expected a position from 0 to 1"),
        ("tables[2].dim", "1", "tables: no such item"),
        ("tables.dim", "1", "tables: not a mapping, so it has no key 'dim'; given a list of 2 items"),
        ("run[0]", "1", "run: not a list; given nothing (null)"),
        ("name", "[1", "not valid YAML"),
        ("name", "!!python/name:os.system x", "YAML tags are not accepted"),
    ],
)
def test_what_cannot_be_set_is_refused(document, key, text, message):
    with pytest.raises(InputError) as caught:
        document.set(key, text)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"--set {key}={text}: ")

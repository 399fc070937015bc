"""Models and frameworks: what ships, alternatives, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inputs.errors import InputError
from workloads.catalogs import FRAMEWORKS, MODELS
from workloads.dlrm.model.model import DlrmModel, load_model
from workloads.dlrm.model.tables import expand_tables, scale_rows
from workloads.graded import check_choices, graded_quantities, picked
from workloads.graph.framework import load_framework


@pytest.mark.parametrize("name", MODELS.names())
def test_shipped_models_are_sourced(name: str) -> None:
    """Every quantity and every alternative says where it is from; the name is the file's."""
    model = load_model(name)
    assert model.name == name
    for key, quantity in graded_quantities(model):
        for given in (quantity, *quantity.alternatives):
            assert given.source.strip(), key
            assert given.grade != "given", key


@pytest.mark.parametrize("name", FRAMEWORKS.names())
def test_shipped_frameworks_are_sourced(name: str) -> None:
    """As for models."""
    framework = load_framework(name)
    assert framework.name == name
    for key, quantity in graded_quantities(framework):
        assert quantity.source.strip(), key
        assert quantity.grade != "given", key


def chosen(name: str, alternatives: dict[str, object]) -> DlrmModel:
    """A shipped model with listed alternatives in place of its values."""
    model = load_model(name)
    check_choices([model], alternatives)
    return picked(model, alternatives)


def test_a_listed_alternative_replaces_the_value() -> None:
    """4,096 tables of A keep the parameter count; the batch of I becomes 2,048."""
    model = chosen("zionex_a", {"tables": 4096})
    tables = expand_tables(model)
    assert len(tables) == 4096
    assert tables.parameters == pytest.approx(793e9, rel=1e-6)
    assert chosen("zionex_i", {"local_batch_size": 2048}).local_batch_size.value == 2048


def test_an_alternative_brings_its_own_source() -> None:
    """The provenance of what is simulated is that of the alternative."""
    model = chosen("zionex_a", {"tables": 4096})
    assert model.population is not None
    assert "MAD-Max" in model.population.tables.source
    assert model.population.tables.grade == "read"


@pytest.mark.parametrize("key", ["pooling_range", "width", "index_reuse"])
def test_every_listed_alternative_of_a_builds(key: str) -> None:
    """An alternative that could not be expanded would be useless."""
    known = dict(graded_quantities(load_model("zionex_a")))
    for other in known[key].alternatives:
        assert len(expand_tables(chosen("zionex_a", {key: other.value}))) == 1000


def test_alternatives_are_picked_as_they_are_written() -> None:
    """A mapping from YAML picks the alternative that is a range."""
    model = chosen("zionex_a", {"pooling_range": {"low": 15, "high": 15}})
    assert np.all(expand_tables(model).pooling_factor == 15)


def test_unlisted_values_and_unknown_keys_are_refused() -> None:
    """Only values with a source can be picked; the message lists them and the nearest key."""
    with pytest.raises(InputError, match="one of 1000, 4096"):
        chosen("zionex_a", {"tables": 2000})
    with pytest.raises(InputError, match="did you mean 'tables'"):
        chosen("zionex_a", {"table": 4096})


def test_unknown_model_names_the_nearest() -> None:
    """A typo of a shipped name."""
    with pytest.raises(InputError, match="did you mean 'zionex_a'"):
        load_model("zionexa")


def write_model(folder: Path, body: str) -> Path:
    file = folder / "mine.yaml"
    file.write_text(
        "name: mine\ntitle: mine\n"
        "interaction: {value: dot, source: me, grade: assumed}\n"
        "index_reuse: {value: uniform, source: me, grade: assumed}\n"
        "local_batch_size: {value: 64, source: me, grade: assumed}\n" + body
    )
    return file


MLP = (
    "mlp:\n"
    "  dense_features: {value: 4, source: me, grade: assumed}\n"
    "  bottom: {value: [8, 16], source: me, grade: assumed}\n"
    "  top: {value: [8, 1], source: me, grade: assumed}\n"
)


def test_tables_one_by_one_with_their_own_precision(tmp_path: Path) -> None:
    """`count` repeats a table; `precision` overrides the scenario's for that table only."""
    tables = (
        "tables:\n  source: me\n  grade: assumed\n  value:\n"
        "    - {rows: 10, dim: 16, pooling_factor: 2, count: 2}\n"
        "    - {rows: 20, dim: 16, pooling_factor: 1.5, precision: fp32}\n"
    )
    expanded = expand_tables(load_model(write_model(tmp_path, MLP + tables)), "fp16")
    assert expanded.rows.tolist() == [10, 10, 20]
    assert expanded.element_bytes.tolist() == [2, 2, 4]
    assert expanded.weight_bytes.tolist() == [320, 320, 1280]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (MLP, "exactly one of tables, table_list and population"),
        (MLP + "tables: {source: me, grade: assumed, value: [{rows: 0, dim: 4, pooling_factor: 1}]}\n", "rows"),
        (MLP + "tables: {source: me, grade: assumed, value: []}\n", "tables.value: .* at least one item"),
        (
            MLP + "tables: {source: me, grade: assumed, value: [{rows: 9, dim: 4, pooling_factor: 1, count: 1e8}]}\n",
            "count: .* from 1 to 100,000",
        ),
        (MLP + "tables: {source: me, grade: guess, value: [{rows: 1, dim: 4, pooling_factor: 1}]}\n", "grade"),
        (MLP + "tables: {source: me, grade: read, value: [{row: 1, dim: 4, pooling_factor: 1}]}\n", "rows"),
    ],
)
def test_wrong_models_are_refused_with_the_file(tmp_path: Path, body: str, message: str) -> None:
    """One message with the file, the key and what is wrong."""
    file = write_model(tmp_path, body)
    with pytest.raises(InputError, match=message) as caught:
        load_model(file)
    assert str(file) in str(caught.value)


def test_scaling_rows_keeps_dimensions_and_at_least_one_row() -> None:
    """`rows_scaling: fit` shrinks rows alone."""
    tables = expand_tables(load_model("mlperf_dlrm_v1"))
    small = scale_rows(tables, 0.01)
    assert np.all(small.dim == tables.dim)
    assert small.rows.min() == 1
    assert small.rows.max() == 399_797


PLAIN = """
name: mine
title: Four tables and two small MLPs
tables: [{rows: 1e6, dim: 16, pooling_factor: 3, count: 4}]
mlp: {dense_features: 13, bottom: [32, 16], top: [64, 1]}
interaction: dot
index_reuse: {distribution: zipf, exponent: 1.05}
local_batch_size: 256
"""


def test_users_may_write_plain_values(tmp_path: Path) -> None:
    """Their grade is ``given``; beside them quantities with sources may stand."""
    file = tmp_path / "mine.yaml"
    file.write_text(PLAIN.replace("dot", "{value: dot, source: me, grade: read}"), encoding="utf-8")
    quantities = dict(graded_quantities(load_model(file)))
    assert quantities["local_batch_size"].value == 256
    assert {key for key, quantity in quantities.items() if quantity.grade != "given"} == {"interaction"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("256", "many", "mine.yaml:8: local_batch_size: wrong type; given 'many'; expected a whole number"),
        ("[32, 16]", "[32, sixteen]", r"mlp.bottom\[1\]: wrong type; given 'sixteen'"),
        ("rows: 1e6", "rows: 0", r"mine.yaml:4: tables\[0\].rows: impossible value; given 0; expected from 1 to"),
        ("rows: 1e6", "row: 1e6", r"tables\[0\].row: unknown key; .*expected one of rows, .*did you mean 'rows'"),
        ("1.05", "-1", "mine.yaml:7: index_reuse.exponent: impossible value; given -1"),
        ("256", "{value: 256}", "local_batch_size.source: the key is missing"),
    ],
)
def test_a_wrong_plain_value_is_reported_where_it_stands(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(PLAIN.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        load_model(file)


def test_the_schema_offers_plain_values() -> None:
    schema = DlrmModel.model_json_schema()
    definition = schema["properties"]["local_batch_size"]["$ref"].rpartition("/")[2]
    plain, sourced = schema["$defs"][definition]["anyOf"]
    assert plain["type"] == "integer"
    assert {"value", "source", "grade"} <= set(sourced["properties"])

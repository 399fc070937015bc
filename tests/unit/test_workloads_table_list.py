"""Lists of tables: CSV, YAML and JSON say the same; mistakes are told at their line; features share a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from inputs.errors import InputError
from inputs.yaml_lines import parse_yaml
from scenarios.resolve import resolve
from workloads.dlrm.model.dense import dense_part
from workloads.dlrm.model.model import load_model
from workloads.dlrm.model.table_list import read_table_list
from workloads.dlrm.model.tables import expand_tables

CSV = """name,rows,dim,features,pooling,dtype
users,1e6,64,1,1,fp16
items,5000,64,clicked|bought,12.5,

tags,300,64,3,2,fp32
"""
ENTRIES = [
    {"name": "users", "rows": 1_000_000, "dim": 64, "features": 1, "pooling": 1, "dtype": "fp16"},
    {"name": "items", "rows": 5000, "dim": 64, "features": ["clicked", "bought"], "pooling": 12.5},
    {"name": "tags", "rows": 300, "dim": 64, "features": 3, "pooling": 2, "dtype": "fp32"},
]
MODEL = """name: mine
title: a model with a list of tables
table_list: {value: LIST, source: my feature store, grade: read}
mlp:
  dense_features: {value: 13, source: me, grade: assumed}
  bottom: {value: [128, 64], source: me, grade: assumed}
  top: {value: [64, 1], source: me, grade: assumed}
interaction: {value: dot, source: me, grade: assumed}
index_reuse: {value: uniform, source: me, grade: assumed}
local_batch_size: {value: 64, source: me, grade: assumed}
"""


def written(folder: Path, name: str) -> Path:
    """The same list in the format of the name."""
    text = {
        "csv": CSV,
        "json": json.dumps({"tables": ENTRIES}),
        "yaml": yaml.safe_dump({"tables": ENTRIES}),
    }
    file = folder / name
    file.write_text(text[file.suffix[1:]])
    return file


@pytest.mark.parametrize("name", ["t.csv", "t.json", "t.yaml"])
def test_every_format_gives_the_same_tables(tmp_path: Path, name: str) -> None:
    users, items, tags = read_table_list(written(tmp_path, name))
    assert (users.name, users.rows, users.dim, users.precision) == ("users", 1_000_000, 64, "fp16")
    assert (items.features, items.pooling_factor, items.precision) == (2, 12.5, None)
    assert (tags.features, tags.precision) == (3, "fp32")


def test_a_model_reads_the_list_beside_it(tmp_path: Path) -> None:
    """Names, sizes and types arrive; each feature looks its table up and gives a vector of its own."""
    written(tmp_path, "t.csv")
    (tmp_path / "m.yaml").write_text(MODEL.replace("LIST", "t.csv"))
    model = load_model(tmp_path / "m.yaml")
    tables = expand_tables(model, "bf16")
    assert tables.names == ("users", "items", "tags")
    assert tables.element_bytes.tolist() == [2, 2, 4]
    assert tables.lookups_per_sample.tolist() == [1.0, 25.0, 6.0]
    assert tables.pooled_dim.tolist() == [64, 128, 192]
    assert model.tables is not None
    assert model.tables.source == "my feature store"
    vectors = 1 + 2 + 3 + 1  # features and the bottom MLP
    assert dense_part(model, tables).interaction_outputs == 64 + vectors * (vectors - 1) // 2


def test_a_scenario_with_the_list_resolves_to_one_without_files(tmp_path: Path) -> None:
    written(tmp_path, "t.json")
    (tmp_path / "m.yaml").write_text(MODEL.replace("LIST", "t.json"))
    text = "name: s\ncluster: zionex\nnodes: 1\nworkload: {model: m.yaml}\n"
    one = resolve(parse_yaml(text, tmp_path / "s.yaml"))
    again = resolve(parse_yaml(one.to_yaml(), tmp_path / "elsewhere" / "s.yaml"))
    assert again.hash == one.hash
    assert one.to_dict()["workload"]["model"]["table_list"] is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,rows,dim\na,10,4\nb,0,4\n", r"t.csv:3: tables\[1\].rows: .* from 1 to"),
        ("name,rows,dim\na,10,4\na,20,4\n", r"t.csv:3: tables\[1\].name: two tables have one name; given 'a'"),
        ("name,rows,dimm\na,10,4\n", r"t.csv:1: unknown column; given 'dimm'; expected name, .*did you mean 'dim'"),
        ("name,num_embedings,dim\na,10,4\n", r"t.csv:1: unknown column; .*did you mean 'num_embeddings'"),
        ("name,rows\na,10\n", r"t.csv:1: the column dim is missing"),
        ("name;rows;dim\na;10;4\n", r"t.csv:1: wrong separator; given ';'; expected commas"),
        ("name\trows\tdim\na\t10\t4\n", r"t.csv:1: wrong separator"),
        ("name,rows,num_embeddings,dim\na,10,10,4\n", r"t.csv:1: the header"),
        ("name,rows,dim\na,10\n", r"t.csv:2: a row of another length .* expected 3"),
        ("name,rows,rows\na,10,4\n", r"t.csv:1: the header"),
        ("name,rows,dim,dtype\na,10,4,fp15\n", r"t.csv:2: tables\[0\].dtype: .*did you mean 'fp16'"),
        ("name,rows,dim\na,many,4\n", r"t.csv:2: tables\[0\].rows"),
        ("", "t.csv"),
    ],
)
def test_mistakes_are_told_at_their_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_table_list(tmp_path / "t.csv")


TORCHREC = """name,num_embeddings,embedding_dim,feature_names,pooling_factor,data_type
users,1e6,64,1,1,FP16
items,5000,64,"['clicked', 'bought']",12.5,
tags,300,64,3,2,DataType.FP32
"""


def test_torchrec_names_are_the_same_list(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TORCHREC)
    ours = read_table_list(written(tmp_path, "ours.csv"))
    assert read_table_list(tmp_path / "t.csv") == ours
    names = {"rows": "num_embeddings", "dim": "embedding_dim", "features": "feature_names", "pooling": "pooling_factor"}
    entries = [{names.get(key, key): value for key, value in entry.items()} for entry in ENTRIES]
    (tmp_path / "t.json").write_text(json.dumps({"tables": entries}))
    assert read_table_list(tmp_path / "t.json") == ours


def test_a_key_under_both_names_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(
        "tables:\n- {name: a, rows: 1, dim: 4}\n- {name: b, rows: 1, dim: 4, embedding_dim: 4}\n"
    )
    with pytest.raises(InputError, match=r"t.yaml:3: tables\[1\].embedding_dim: given together with dim"):
        read_table_list(tmp_path / "t.yaml")


def test_every_unknown_column_is_named_once_for_the_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("name,rowz,dimm\n" + "a,10,4\n" * 300)
    with pytest.raises(InputError) as refused:
        read_table_list(tmp_path / "t.csv")
    assert [line.partition("; expected")[0] for line in str(refused.value).splitlines()] == [
        f"{tmp_path}/t.csv:1: unknown column; given 'rowz'",
        f"{tmp_path}/t.csv:1: unknown column; given 'dimm'",
    ]


def test_a_missing_list_is_told_where_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(MODEL.replace("LIST", "gone.csv"))
    with pytest.raises(InputError, match=r"m.yaml:3: table_list.value: no such file"):
        load_model(tmp_path / "m.yaml")

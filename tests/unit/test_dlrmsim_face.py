"""``import dlrmsim``: a list of typed verbs with one calling pattern."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import dlrmsim
from inputs.errors import InputError

ROOT = Path(__file__).parents[2]
VERBS = sorted(path.stem for path in (ROOT / "dlrmsim" / "verbs").glob("*.py") if path.stem not in {"__init__", "what"})


def names_for_type_checkers() -> set[str]:
    """Names that ``dlrmsim/__init__.py`` imports under ``TYPE_CHECKING``."""
    tree = ast.parse((ROOT / "dlrmsim" / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    return {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}


def result_of(verb: str) -> str:
    return "".join(word.capitalize() for word in verb.split("_")) + "Result"


def test_public_names_are_listed_and_sorted():
    public = {*names_for_type_checkers(), "__version__"}
    assert dlrmsim.__all__ == sorted(public)
    assert dir(dlrmsim) == dlrmsim.__all__
    assert set(VERBS) | {result_of(verb) for verb in VERBS} <= public


@pytest.mark.parametrize("name", dlrmsim.__all__)
def test_every_public_name_is_there(name):
    assert getattr(dlrmsim, name) is not None


def test_another_name_is_refused():
    with pytest.raises(AttributeError, match="no attribute 'simulate'"):
        dlrmsim.simulate  # noqa: B018


SECOND = {"compare": "against", "from_torchrec": "plan"}
"""Verbs with a second argument that has a place of its own."""


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_takes_what_and_keywords_and_returns_its_result(verb):
    function = getattr(dlrmsim, verb)
    first, *others = inspect.signature(function).parameters.values()
    assert (first.name, first.kind) == ("what", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [other.name for other in others if other.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert positional == ([SECOND[verb]] if verb in SECOND else [])
    assert others[-1].name == "progress"
    result = getattr(dlrmsim, result_of(verb))
    assert typing.get_type_hints(function)["return"] is result
    assert dataclasses.is_dataclass(result)
    assert result.__dataclass_params__.frozen


def test_type_checkers_know_every_verb(tmp_path):
    """No parameter and no result is Any."""
    file = tmp_path / "face.py"
    lines = ["import dlrmsim", *(f"reveal_type(dlrmsim.{name})" for name in dlrmsim.__all__)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(file)]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    revealed = re.findall(r'note: Revealed type is "(.*)"', shown.stdout)
    assert len(revealed) == len(dlrmsim.__all__), shown.stdout + shown.stderr
    assert [text for text in revealed if re.search(r"\bAny\b", text)] == []


DOCUMENTS = {"summary", "to_dict"}
"""Attributes that are a JSON document: the content of a written file, or what the command prints with ``--json``."""


def attributes_of(result: type) -> list[str]:
    """Public fields, properties and methods of a result."""
    return [name for name in dir(result) if not name.startswith("_")]


def test_type_checkers_know_every_part_of_a_result(tmp_path):
    """Data are dataclasses, tables or plain values; only JSON documents hold values of any type."""
    file = tmp_path / "results.py"
    parts = [(result_of(verb), name) for verb in VERBS for name in attributes_of(getattr(dlrmsim, result_of(verb)))]
    lines = [
        f"def part_{n}(found: dlrmsim.{of}) -> None:\n    reveal_type(found.{name})"
        for n, (of, name) in enumerate(parts)
    ]
    file.write_text("import dlrmsim\n" + "\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(file)]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    revealed = re.findall(r'note: Revealed type is "(.*)"', shown.stdout)
    assert len(revealed) == len(parts) > 60, shown.stdout + shown.stderr
    loose = re.compile(r"\b(Any|object|dict)\b")
    found = zip(parts, revealed, strict=True)
    assert [(*part, text) for part, text in found if loose.search(text) and part[1] not in DOCUMENTS] == []


def test_settings_beside_a_resolved_scenario_are_refused():
    with pytest.raises(InputError, match="resolved already"):
        dlrmsim.check(dlrmsim.load_scenario("mlperf_dlrm_v1"), settings=["nodes=2"])


def test_unknown_words_are_refused(tmp_path):
    with pytest.raises(InputError, match="none of its words"):
        dlrmsim.replay(tmp_path / "none.json", overlap="hiden")
    with pytest.raises(InputError, match="no such format"):
        dlrmsim.export(tmp_path, form="chakr", out=tmp_path / "out")


def test_a_sweep_is_a_table(tmp_path):
    found = dlrmsim.sweep("mlperf_dlrm_v1", over="nodes=1,2", workers=1, out=tmp_path / "sweep")
    assert found.table["nodes"].tolist() == [1, 2]
    assert found.table["efficiency"].iloc[0] == 1.0
    assert [point["nodes"] for point in found.to_dict()["points"]] == [1, 2]


def test_a_check_has_size_and_memory():
    found = dlrmsim.check("mlperf_dlrm_v1")
    assert found.size.runs > 1
    assert found.memory.fits
    assert found.to_dict()["size"]["memory_bytes"] == found.size.memory_bytes


def test_a_validation_is_a_table_of_cases_and_one_of_suites():
    found = dlrmsim.validate(["fdr_allreduce", "aries_alltoall"], workers=1)
    assert len(found.table) == len(found.cases) > 10
    errors = 100 * (found.table["predicted"] / found.table["measured"] - 1)
    assert found.table["error_pct"].to_numpy() == pytest.approx(errors.to_numpy())
    assert found.statistics["suite"].tolist() == ["fdr_allreduce", "aries_alltoall"]
    assert found.statistics["mape_pct"].tolist() == [suite["mape_pct"] for suite in found.to_dict()["suites"]]


def test_a_sweep_over_several_keys_is_a_table_with_a_column_each(tmp_path):
    over = ["precision.dense=fp16,fp32", "world_size=1,2"]
    found = dlrmsim.sweep("mlperf_dlrm_v1", over=over, workers=1, out=tmp_path / "sweep")
    assert found.table["precision.dense"].tolist() == ["fp16", "fp16", "fp32", "fp32"]
    assert found.table["world_size"].tolist() == [1, 2, 1, 2]
    assert set(found.warnings) == {1, 2}


def test_a_run_has_its_headline(tmp_path):
    found = dlrmsim.run("mlperf_dlrm_v1", out=str(tmp_path / "run"), report=False)
    assert found.folder == tmp_path / "run"
    assert found.iteration_time_s == found.summary["iteration_time_s"]
    assert found.throughput_samples_per_s == found.summary["throughput_samples_per_s"]
    assert found.finding == found.summary["bound"]["finding"]


def test_a_collective_takes_numbers_or_words():
    words = dlrmsim.collective("dgx_h100", op="all_reduce", ranks="8,16", sizes="1MiB,4MiB")
    numbers = dlrmsim.collective("dgx_h100", op="all_reduce", ranks=[8, 16], sizes=[2**22, 2**20])
    assert words.to_dict() == numbers.to_dict()
    with pytest.raises(InputError, match="impossible value"):
        dlrmsim.collective("dgx_h100", op="all_reduce", ranks=8, sizes=[])

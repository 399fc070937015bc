"""The examples of docs/how-to/torchrec.md run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.torchrec_jobs import torchrec_plan  # first: skips without torchrec

from torchrec.distributed.types import ShardingPlan  # isort: skip

import dlrmsim

pytestmark = pytest.mark.filterwarnings("ignore")

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "torchrec.md"


def test_the_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(code, PAGE.name, "exec"), names)  # noqa: S102
    assert "pooling factor 1 is assumed for users, articles, countries" in capsys.readouterr().out
    assert isinstance(names["sharding_plan"], ShardingPlan)
    assert names["sharding_plan"].plan.keys() == torchrec_plan(names["model"], 16).plan.keys()
    assert names["found"].study.iteration_time_s <= dlrmsim.plan("job/scenario.yaml").study.iteration_time_s

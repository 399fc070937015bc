"""The how-to's program is captured as the page says, and its commands run."""

from __future__ import annotations

import re
from pathlib import Path

import dlrmsim
from dlrmsim.cli import main
from workloads.captured.records import Collective, CopyWork

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "capture.md"


def test_the_program_of_the_page_is_captured_and_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    program = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert program is not None
    Path("train.py").write_text(program[1], encoding="utf-8")
    assert main(["capture", "train.py", "--world-size", "64", "--out", "job"]) == 0
    assert "operations" in capsys.readouterr().out
    assert main(["run", "job", "--cluster", "dgx_h100", "--nodes", "8", "--no-report", "--no-levers"]) == 0
    job = dlrmsim.load_scenario("job").model.records
    assert job.samples_per_rank == 2048
    copies = [work for work in job.works if isinstance(work, CopyWork)]
    assert [(copy.bytes, copy.direction) for copy in copies] == [(2048 * 512 * 4, "h2d")]
    sums = [job.works[task.work] for task in job.programs[0].tasks]
    parameters = 512 * 4096 + 4096 + 4096 + 1
    assert sum(call.bytes for call in sums if isinstance(call, Collective)) == 4 * parameters

"""The Python example of README runs and prints what its commands print."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = README.read_text(encoding="utf-8")
    (code,) = re.findall(r"## From Python\n\n```python\n(.*?)```", text, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})  # noqa: S102
    out = capsys.readouterr().out
    assert "samples/s" in out
    assert "efficiency" in out
    assert (tmp_path / "a_256" / "report.html").exists()
    assert (tmp_path / "weak_scaling" / "scaling.html").exists()

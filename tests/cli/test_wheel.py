"""The wheel works in an empty environment, from any folder: the YAML ships inside."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OFFLINE = re.compile(r"connection broken by|ConnectionError|ProxyError|Temporary failure in name resolution")
LEFT_BEHIND = shutil.ignore_patterns(
    ".*", "build", "dist", "runs", "site", "*.egg-info", "__pycache__", "tests", "docs"
)


def run(command: list[str | Path], folder: Path) -> str:
    """Standard output; skips when the package index is out of reach, fails with the error output otherwise."""
    done = subprocess.run([str(c) for c in command], cwd=folder, capture_output=True, text=True, check=False)
    told = done.stdout + done.stderr
    if done.returncode and OFFLINE.search(told):
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, told
    return done.stdout


@pytest.mark.slow
def test_a_wheel_in_an_empty_environment_runs_the_main_job_from_any_folder(tmp_path: Path) -> None:
    """Built from a copy of the sources: what an earlier build left beside them must not get in."""
    source, elsewhere, bin_folder = tmp_path / "source", tmp_path / "elsewhere", tmp_path / "empty" / "bin"
    shutil.copytree(ROOT, source, ignore=LEFT_BEHIND)
    elsewhere.mkdir()
    run([sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path / "dist", source], tmp_path)
    (wheel,) = (tmp_path / "dist").glob("dlrmsim-*.whl")
    run([sys.executable, "-m", "venv", tmp_path / "empty"], tmp_path)
    run([bin_folder / "python", "-m", "pip", "install", "--disable-pip-version-check", "--no-compile", wheel], tmp_path)
    summary = json.loads(run([bin_folder / "dlrmsim", "run", "zionex_a_128", "--no-levers", "--json"], elsewhere))
    assert summary["world_size"] == 128
    assert len(list((elsewhere / "runs").glob("zionex_a_128-*/report.html"))) == 1
    assert "zionex" in run([bin_folder / "dlrmsim", "list", "suites"], elsewhere)

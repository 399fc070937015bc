"""The wheel works in an empty environment, from any folder: the YAML ships inside."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(command: list[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(c) for c in command], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_wheel_in_an_empty_environment_runs_the_main_job_from_any_folder(tmp_path: Path) -> None:
    built = run([sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path / "dist", ROOT], tmp_path)
    if built.returncode and "ConnectionError" in built.stdout + built.stderr:
        pytest.skip("the package index cannot be reached, so no wheel can be built")
    assert built.returncode == 0, built.stderr
    run([sys.executable, "-m", "venv", tmp_path / "empty"], tmp_path)
    python = tmp_path / "empty" / "bin" / "python"
    (wheel,) = (tmp_path / "dist").glob("dlrmsim-*.whl")
    installed = run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel], tmp_path)
    assert installed.returncode == 0, installed.stderr
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = run([tmp_path / "empty" / "bin" / "dlrmsim", "run", "zionex_a_128", "--json"], elsewhere)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["world_size"] == 128
    assert len(list((elsewhere / "runs").glob("zionex_a_128-*/report.html"))) == 1
    suites = run([tmp_path / "empty" / "bin" / "dlrmsim", "list", "suites"], elsewhere)
    assert "zionex" in suites.stdout

"""Modules that a command loads: start-up is most of a small job's time, and large packages most of start-up."""

import json
import subprocess
import sys

import pytest

CODE = """
import contextlib, io, json, sys
from dlrmsim.cli import main
with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
    code = main(sys.argv[1:])
print(json.dumps([code, sorted(sys.modules)]))
"""
TABLES = {"pandas", "scipy", "plotly.graph_objects"}
NUMBERS = {"numpy", "pyarrow", "simulator", "hardware_specs.types", "scenarios.types", "workloads.dlrm", *TABLES}
OTHER_KINDS = {f"scenarios.{kind}" for kind in ("captured", "convnet", "dlrm_ps", "inference", "transformer")}


def loaded(tmp_path, *arguments: str) -> set[str]:
    """Modules in memory at the end of a command in a process of its own."""
    command = [sys.executable, "-c", CODE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    code, modules = json.loads(done.stdout)
    assert code == 0, done.stderr
    return set(modules)


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        pytest.param(["--help"], {"rich", "yaml", "pydantic", *NUMBERS}, id="help"),
        pytest.param(["sweep", "--help"], {"rich", "yaml", *NUMBERS}, id="help of a command"),
        pytest.param(["list", "clusters"], NUMBERS, id="list of files"),
        pytest.param(["show", "zionex_a"], NUMBERS, id="show"),
        pytest.param(
            ["run", "synthetic_tiny", "--check"],
            {"pyarrow", "scenarios.runner", "scenarios.levers", "validation", *OTHER_KINDS, *TABLES},
            id="check",
        ),
        pytest.param(["run", "synthetic_tiny", "--out", "run"], {"validation", *OTHER_KINDS, *TABLES}, id="run"),
    ],
)
def test_a_command_does_not_load(tmp_path, arguments, absent):
    assert loaded(tmp_path, *arguments) & absent == set()

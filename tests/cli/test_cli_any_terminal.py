"""Output that cannot be written or shown: full disks, readers that end, ASCII, names with controls."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.command import installed_command
from tests.trace_files import two_ranks, write_ranks

LONG = "a" * 300
NAME = "[bold]odd[/b] \x1b[31m \x9b1m \u202e <b>&"
SEEN = r"[bold]odd[/b] \x1b[31m \x9b1m \u202e <b>&"
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")


def dlrmsim(folder: Path, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [installed_command(), *map(str, arguments)],
        cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip


@pytest.mark.parametrize("arguments", [["list"], ["list", "--help"], ["show", "zionex_a"], ["schema", "plan"]])
def test_a_full_output_is_one_line(tmp_path, arguments):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [installed_command(), *arguments], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.startswith("dlrmsim: the output cannot be written: No space left on device")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", ["list", "schema scenario", "show zionex_a"])
def test_a_reader_that_has_gone_is_told_nothing(tmp_path, arguments):
    line = f"set -o pipefail; {installed_command()} {arguments} | true"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode in (0, 1)  # 0 where all was written before the reader ended


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", f"{LONG}.yaml"], ["run", "criteo_small", "--out", LONG], ["import", LONG], ["compare", LONG, LONG],
        ["import", "rank0.json", "--out", LONG], ["init", LONG], ["validate", f"{LONG}.yaml"], ["show", LONG],
        ["calibrate", "kernels", LONG, "--gpu", "a100_sxm4_40", "--out", "x.yaml"],
        ["calibrate", "collectives", LONG, "--cluster", "dgx_h100", "--out", "x.yaml"],
        ["validate", "--measured", LONG], ["calibrate", "host", "--record", LONG],
        ["export", "rank0.json", "--format", "chrome", "--out", LONG],
        ["collective", "dgx_h100", "--op", "all_reduce", "--ranks", "8", "--bytes", "1MiB", "--plot", LONG],
    ],
)  # fmt: skip
def test_a_name_of_300_characters_is_one_line(tmp_path, arguments):
    write_ranks(tmp_path, two_ranks(1)[:1])
    done = dlrmsim(tmp_path, *arguments)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["rank0.json"]


@pytest.fixture
def odd_names(tmp_path: Path) -> Path:
    """A folder with a trace whose names hold markup, controls and a mark of direction."""
    own = two_ranks(1)[0]
    own.head["deviceProperties"] = [{"id": 0, "name": NAME}]
    for event in own.events:
        if event["name"] in ("gemm", "adam"):
            event["name"] = NAME + event["name"]
    own.write(tmp_path / "rank0.json")
    return tmp_path


def test_names_are_text_everywhere(odd_names):
    done = dlrmsim(odd_names, "import", "rank0.json", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert SEEN in done.stdout
    page = (odd_names / "out" / "report.html").read_text(encoding="utf-8")
    summary = (odd_names / "out" / "summary.json").read_text(encoding="utf-8")
    assert NAME in json.loads(summary)["device"]
    compared = dlrmsim(odd_names, "compare", "out", "out")
    assert SEEN in compared.stdout
    as_json = dlrmsim(odd_names, "compare", "out", "out", "--json")
    assert any(NAME in row["name"] for row in json.loads(as_json.stdout))
    scriptless = re.sub(r"(?s)<script(?! type=\"application/json\").*?</script>", "", page)
    for text in (done.stdout, compared.stdout, as_json.stdout, summary, scriptless.replace("\t", "")):
        assert CONTROLS.search(text) is None


def test_names_of_an_export_come_back(odd_names):
    assert dlrmsim(odd_names, "export", "rank0.json", "--format", "chrome", "--out", "ex").returncode == 0
    assert dlrmsim(odd_names, "import", "ex/chrome", "--out", "back", "--no-report").returncode == 0
    operators = json.loads((odd_names / "back" / "summary.json").read_text(encoding="utf-8"))["operators"]
    assert any(row["name"].startswith(NAME) for row in operators)


@pytest.mark.parametrize(
    "environment", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]
)
def test_an_ascii_terminal_gets_ascii(odd_names, environment):
    done = dlrmsim(odd_names, "import", "rank0.json", "--out", "out", "--no-report", **environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert "200 us" in done.stdout
    as_json = dlrmsim(odd_names, "compare", "out", "out", "--json", **environment)
    assert as_json.stdout.isascii()
    assert json.loads(as_json.stdout)


def test_a_message_about_a_name_with_controls_is_one_line(tmp_path):
    (tmp_path / "odd\x1b[31m\n.yaml").write_text("name: [")
    done = dlrmsim(tmp_path, "run", "odd\x1b[31m\n.yaml")
    assert done.returncode == 2
    assert r"odd\x1b[31m\n.yaml:1" in done.stderr
    assert done.stderr.count("\n") == 1

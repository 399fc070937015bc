"""The command as a user starts it: exit codes, what goes to stdout and stderr, what is left on disk."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.command import installed_command

ROOT = Path(__file__).parents[2]


def start(*arguments, folder):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [installed_command(), *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True)


def dlrmsim(*arguments, folder):
    process = start(*arguments, folder=folder)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def cpu_s(process):
    """Seconds of CPU that a process had so far; 0 before it is one."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def left(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_run_prints_the_headline_and_writes_every_file(tmp_path):
    code, out, err = dlrmsim("run", "mlperf_dlrm_v1", folder=tmp_path)
    assert (code, err) == (0, "")
    for words in (
        "iteration time",
        "throughput",
        "exposed communication",
        "bound",
        "slowest rank",
        "waits least for",
        "imbalance",
        "memory, hbm",
    ):
        assert words in out
    report = Path(out.strip().rsplit(maxsplit=1)[-1])
    assert (tmp_path / report).is_file()
    summary = json.loads((tmp_path / report.parent / "summary.json").read_text())
    assert summary["bound"]["finding"] in out
    assert summary["levers"]["advice"] in out
    assert f"--set {summary['levers']['best']['free']} " in out
    assert left(tmp_path / report.parent) == [
        "report.html", "run.json", "scenario.resolved.yaml", "summary.json", "timeline.parquet", "trace.json.gz",
    ]  # fmt: skip


def test_with_json_stdout_is_the_summary_and_nothing_else(tmp_path):
    options = ("--json", "--no-report", "--no-levers", "--out", "x")
    code, out, err = dlrmsim("run", "mlperf_dlrm_v1", *options, folder=tmp_path)
    assert (code, err) == (0, "")
    assert json.loads(out)["levers"] is None
    assert out == (tmp_path / "x" / "summary.json").read_text()
    assert json.loads(out)["world_size"] == 8


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", "zionx_a_128"], 2, "did you mean 'zionex_a_128'?"),
        (["run", "zionex_a_128", "--set", "workload.global_batch_size=100"], 2, "128"),
        (["run", "mlperf_dlrm_v1", "--set", "workload.sharding.planner=data_parallel"], 3, "would fit: --set"),
        (["run", "zionex_a_128", "--ranks", "0,128"], 2, "0 to 127"),
        (["run", "zionex_a_128", "--frobnicate"], 2, "--frobnicate"),
        (["list", "clutsers"], 2, "did you mean 'clusters'?"),
    ],
)
def test_what_is_wrong_is_one_message_without_traceback_and_nothing_is_written(tmp_path, arguments, code, words):
    got, out, err = dlrmsim(*arguments, folder=tmp_path)
    assert (got, out) == (code, "")
    assert words in err
    assert "Traceback" not in err
    assert left(tmp_path) == []


def test_interrupting_a_run_leaves_nothing_and_gives_130(tmp_path):
    batch = "workload.global_batch_size=2097152"
    process = start("run", "zionex_a_128", "--set", "nodes=512", "--set", batch, folder=tmp_path)
    while cpu_s(process) < 1.5:  # in the midst of it, however busy the machine: the whole takes over 3 s
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err
    assert left(tmp_path) == []


def has_loaded(process, library):
    return f"/{library}." in Path(f"/proc/{process.pid}/maps").read_text()


@pytest.mark.parametrize("library", ["math", "zlib", "select", "_datetime", "_uuid"])
def test_interrupting_while_the_command_loads_is_as_clean(tmp_path, library):
    """When it has come to a library that Python itself starts without: how long that takes depends on the machine."""
    process = start("run", "zionex_a_128", folder=tmp_path)
    while not has_loaded(process, library):
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "dlrmsim: interrupted; nothing was written\n")


LOST = """
import signal, sys
from dlrmsim.__main__ import main

class Leaving:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

class Finder:
    def find_spec(self, name, *_):
        if name == {library!r}:
            sys.meta_path.remove(self)
            Leaving()

sys.meta_path.insert(0, Finder())
sys.argv = ["dlrmsim", "run", "zionex_a_128"]
sys.exit(main())
"""


@pytest.mark.parametrize("library", ["dlrmsim.cli", "pyarrow"])
def test_an_interrupt_that_python_ignores_is_not_lost(tmp_path, library):
    """While an object goes away nothing can be raised: the interrupt comes again."""
    made = [sys.executable, "-c", LOST.format(library=library)]
    done = subprocess.run(made, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "dlrmsim: interrupted; nothing was written\n")
    assert left(tmp_path) == []


def test_a_reader_that_goes_away_is_no_fault(tmp_path):
    process = start("schema", "cluster", folder=tmp_path)
    with process.stdout, process.stderr:
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()
        process.wait(timeout=60)

"""`advise --over` and `advise --arrivals` as a user calls them: results, pages and wrong input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import dlrmsim
from dlrmsim.cli import main
from inputs.errors import InputError

SIZES = ["advise", "mlperf_dlrm_v1", "--over", "nodes=1,2", "--workers", "1"]
JOBS = """cluster: dgx_a100_80
nodes: 2
arrivals_per_hour: 30
simulated_jobs: 1000
jobs:
  - scenario: mlperf_dlrm_v1
    iterations: 100_000
    nodes: [1, 2]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.yaml").write_text(JOBS, encoding="utf-8")
    return tmp_path


def test_sizes_are_advised_in_words_and_as_json_and_drawn(here, capsys):
    """The price of a million is that of the sweep, and the page marks the best size and the knee."""
    price = ["--set", "cost.gpu_hour_usd=2"]
    assert main([*SIZES, "--objective", "cost", *price, "--out", "made", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((here / "made" / "advice.json").read_text(encoding="utf-8"))
    assert found["finding"].startswith("mlperf_dlrm_v1, weak scaling: 1 node is best by price of a million samples: $")
    ranks, rate = found["sizes"][0]["world_size"], found["sizes"][0]["throughput_per_s"]
    assert found["sizes"][0]["value"] == pytest.approx(2 * ranks / 3600 / rate * 1e6)
    page = (here / "made" / "sizes.html").read_text(encoding="utf-8")
    assert '"marks":[{"place":' in page
    assert '"objective":{"unit":"USD per million samples"' in page
    assert sorted(path.name for path in (here / "made").iterdir()) == ["advice.json", "run.json", "sizes.html"]


def test_arriving_jobs_are_advised_in_words(here, capsys):
    assert main(["advise", "--arrivals", "jobs.yaml", "--workers", "1"]) == 0
    shown = capsys.readouterr().out
    assert "jobs: best with " in shown
    assert "maximum parallelism" in shown
    assert "1,000 jobs with each choice; standard errors in brackets" in shown
    assert sorted(path.name for path in here.iterdir()) == ["jobs.yaml"]


def test_arriving_jobs_are_drawn(here, capsys):
    """Each choice with jobs that start is a point with its standard errors."""
    assert main(["advise", "--arrivals", "jobs.yaml", "--workers", "1", "--out", "made", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((here / "made" / "advice.json").read_text(encoding="utf-8"))
    page = (here / "made" / "arrivals.html").read_text(encoding="utf-8")
    points = json.loads(re.search(r'id="payload">(.*?)</script>', page)[1])["choices"]
    choices = {choice["name"]: choice for choice in found["choices"]}
    assert {point["name"] for point in points} <= set(choices)
    assert [point["name"] for point in points if point["kind"] == "the best"] == [found["best"]]
    assert all(point["blocked"] == 100 * choices[point["name"]]["blocking"]["value"] for point in points)


def test_settings_change_keys_of_a_file_of_jobs(here, capsys):
    """As the file with other values does; a wrong key or value is refused with the setting."""
    assert main(["advise", "--arrivals", "jobs.yaml", "--workers", "1", "--set", "arrivals_per_hour=90", "--json"]) == 0
    by_setting = json.loads(capsys.readouterr().out)
    (here / "jobs.yaml").write_text(JOBS.replace("per_hour: 30", "per_hour: 90"), encoding="utf-8")
    assert main(["advise", "--arrivals", "jobs.yaml", "--workers", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == by_setting
    assert main(["advise", "--arrivals", "jobs.yaml", "--set", "arrival_per_hour=90"]) == 2
    assert "--set arrival_per_hour=90: arrival_per_hour: unknown key; given" in capsys.readouterr().err


def test_a_shipped_file_of_jobs_is_listed_shown_and_reads(capsys):
    assert "pacml_five_networks" in dlrmsim.list_names("jobs")["jobs"]
    assert main(["show", "pacml_five_networks"]) == 0
    assert "arrivals_per_hour: 6" in capsys.readouterr().out


SIZE_ERRORS = [
    (
        ["--objective", "costs"],
        "--objective: no such objective; given 'costs'; expected throughput_per_gpu, cost, time",
    ),
    (["--objective", "costs"], "did you mean 'cost'?"),
    (
        ["--objective", "cost"],
        "cost.gpu_hour_usd: the objective cost needs the price of a GPU for an hour; expected USD",
    ),
    (
        ["--objective", "time_to_target"],
        "--target: the objective time_to_target needs the amount to train; expected an",
    ),
    (
        ["--objective", "time_to_target", "--target", "0"],
        "--target: impossible value; given 0.0; expected an amount of",
    ),
    (["--objective", "time_to_target", "--target", "inf"], "--target: impossible value; given .inf"),
    (["--set", "nodes=x"], "nodes"),
]


@pytest.mark.parametrize(("options", "message"), SIZE_ERRORS)
def test_wrong_questions_about_sizes_are_refused(options, message, here, capsys):
    assert main([*SIZES, *options, "--out", "made"]) == 2
    assert message in capsys.readouterr().err
    assert not (here / "made").exists()


def test_keys_beside_sizes_are_refused(here, capsys):
    assert main(["advise", "mlperf_dlrm_v1", "--over", "precision.dense=fp16,fp32"]) == 2
    expected = "--over: advice on the number of devices needs sizes only; given 'precision.dense'; expected one list of"
    assert expected in capsys.readouterr().err
    with pytest.raises(InputError, match="needs a name or path"):
        dlrmsim.advise(dlrmsim.load_scenario("mlperf_dlrm_v1"), over="nodes=1,2")


FILE_ERRORS = [
    ("arrivals_per_hour: 30", "arrivals_per_hour: 0", "jobs.yaml:3: arrivals_per_hour: impossible value; given 0"),
    ("scenario: mlperf_dlrm_v1", "scenario: mlperf_dlrm_v2", "jobs.yaml:6: jobs[0].scenario: unknown scenario; given"),
    ("scenario: mlperf_dlrm_v1", "scenario: mlperf_dlrm_v2", "did you mean 'mlperf_dlrm_v1'?"),
    (
        "nodes: [1, 2]",
        "nodes: [1, 4]",
        "jobs.yaml:8: jobs[0].nodes[1]: larger than the cluster; given 4; expected 1 to 2",
    ),
    (
        "nodes: [1, 2]",
        "nodes: [2, 1]",
        "jobs.yaml:8: jobs[0].nodes[1]: the sizes do not ascend; given 1; expected more",
    ),
    ("nodes: [1, 2]", "nodes: []", "jobs.yaml:8: jobs[0].nodes: "),
    ("    nodes:", "    weight: 0\n    nodes:", "jobs.yaml:8: jobs[0].weight: impossible value; given 0"),
    ("    nodes:", "    weight: -1\n    nodes:", "jobs.yaml:8: jobs[0].weight: impossible value; given -1"),
    ("    nodes:", "    weight: .nan\n    nodes:", "jobs.yaml:8: jobs[0].weight: "),
    (
        "    nodes:",
        "    amount: 5\n    nodes:",
        "jobs[0]: states how much a job trains twice or not at all; expected one of",
    ),
    ("    nodes:", "    lenght: fixed\n    nodes:", "did you mean 'length'?"),
    (
        "    nodes:",
        "    deadline: {low: 2, high: 1}\n    nodes:",
        "jobs[0].deadline: the range 2 to 1 is empty; expected",
    ),
    (
        "    nodes:",
        "    set: {precision.dens: fp16}\n    nodes:",
        "jobs.yaml:8: jobs[0].set['precision.dens']: unknown key; given 'd",
    ),
    (
        "    nodes:",
        "    set: {cluster: zionex}\n    nodes:",
        "jobs[0].set.cluster: arriving jobs share their cluster; given",
    ),
    ("cluster: dgx_a100_80", "cluster: dgx_a100_81", "jobs.yaml:1: cluster: unknown cluster; given 'dgx_a100_81'"),
    ("nodes: 2\n", "nodes: 2\nqueue: {longest_wait: 5}\n", "jobs.yaml:3: queue.longest_wait: the unit is missing"),
]


@pytest.mark.parametrize(("there", "instead", "message"), FILE_ERRORS)
def test_a_wrong_file_of_jobs_is_refused_with_file_line_and_key(there, instead, message, here, capsys):
    (here / "jobs.yaml").write_text(JOBS.replace(there, instead, 1), encoding="utf-8")
    assert main(["advise", "--arrivals", "jobs.yaml"]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""
    assert sorted(path.name for path in here.iterdir()) == ["jobs.yaml"]


def test_an_unknown_file_of_jobs_is_refused_with_the_nearest_name(here, capsys):
    assert main(["advise", "pacml_five_network", "--arrivals"]) == 2
    assert "did you mean 'pacml_five_networks'?" in capsys.readouterr().err


def test_a_queue_without_end_that_no_size_serves_ends_with_exit_code_3(here, capsys):
    text = JOBS.replace("nodes: 2\n", "nodes: 2\nqueue: {}\n", 1).replace("per_hour: 30", "per_hour: 30_000")
    (here / "jobs.yaml").write_text(text, encoding="utf-8")
    assert main(["advise", "--arrivals", "jobs.yaml", "--workers", "1"]) == 3
    assert "jobs: the queue grows without bound: jobs offer " in capsys.readouterr().err


def test_a_job_that_fits_at_no_size_ends_with_exit_code_3(here, capsys):
    text = JOBS.replace("dgx_a100_80", "piz_daint").replace("mlperf_dlrm_v1", "pacml_vgg16").replace("[1, 2]", "[1]")
    (here / "jobs.yaml").write_text(text, encoding="utf-8")
    assert main(["advise", "--arrivals", "jobs.yaml", "--workers", "1"]) == 3
    why = "pacml_vgg16 does not fit: a rank needs more memory than it has"
    words = f"pacml_vgg16 runs at none of its sizes:\n  1 nodes: {why}"
    assert words in capsys.readouterr().err

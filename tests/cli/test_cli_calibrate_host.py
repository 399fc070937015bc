"""``calibrate host`` and ``validate --measured`` as a user starts them, on the machine that the tests run on."""

import csv
import json
import os
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from dlrmsim.cli import main
from dlrmsim.hosts.cpus import calibrate_host
from hardware_specs import load_cluster
from inputs.errors import MissingExtraError
from tests.trainer_jobs import SLEEPING, scenario

ROOT = Path(__file__).parents[2]

pytest.importorskip("torch")
pytestmark = pytest.mark.slow


def dlrmsim(*arguments, folder):
    command = [sys.executable, "-m", "dlrmsim", *map(str, arguments)]
    settings = {**os.environ, "PYTHONPATH": str(ROOT), **SLEEPING}
    done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, timeout=900, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def here(monkeypatch, capsys):
    """The same in this process, for calls that start no ranks."""

    def called(*arguments, folder):
        monkeypatch.chdir(folder)
        code = main([*map(str, arguments)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return called


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """A folder with a spec of this machine, made in a few seconds."""
    folder = tmp_path_factory.mktemp("host")
    code, out, err = dlrmsim("calibrate", "host", "--out", "here.yaml", "--minutes", "0.05", folder=folder)
    assert code == 0, err
    assert "here.rows.csv" in out
    return folder


@pytest.fixture(scope="module")
def measured(calibrated):
    """The folder with a measurement beside the spec: a rank on each core, two at most."""
    ranks = min(2, len(os.sched_getaffinity(0)))
    content = scenario(ranks, sharding={"planner": "greedy"}, global_batch_size=512)
    (calibrated / "job.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    code, _, err = dlrmsim("measure", "job.yaml", "--iterations", "20", "--out", "measured", folder=calibrated)
    assert code == 0, err
    return calibrated


def test_the_spec_is_a_cluster_with_costs_and_collectives_of_this_machine(calibrated):
    cluster = load_cluster(calibrated / "here.yaml")
    cores = len(os.sched_getaffinity(0))
    assert cluster.node.cpu.cores.value == cores
    assert {known.threads for known in cluster.node.cpu.kernels} == {1, cores}
    for known in cluster.node.cpu.kernels:
        assert {"gemm", "lookup", "update", "stream", "optimizer", "host"} <= set(known.costs)
        assert known.yardstick_s > 0.0
        assert all(cost.noise_pct >= 0 and cost.rows >= 1 for cost in known.costs.values())
        assert known.costs["gemm"].seconds_per
    assert cluster.fitted is not None
    assert {"all_reduce", "all_to_all"} <= set(cluster.fitted.near_fraction)


def test_what_was_measured_lies_beside_it_with_the_error_of_the_fit(calibrated):
    with (calibrated / "here.rows.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert {"gemm", "update", "all_reduce", "all_to_all", "all_gather", "reduce_scatter"} <= {r["kind"] for r in rows}
    assert {"2", "4"} <= {row["ranks"] for row in rows if row["kind"] == "all_reduce"}
    assert all(float(row["median_s"]) > 0 for row in rows)
    cores = len(os.sched_getaffinity(0))
    assert all(row["error_pct"] for row in rows if int(row["ranks"]) <= cores), "of what was fitted"
    parts = {row["kind"] for row in rows if row["kind"].startswith("training ")}
    assert {"training gemm", "training input", "training backward", "training ends"} <= parts


def test_the_spec_is_made_anew_from_what_was_measured(here, calibrated):
    arguments = ("--record", "here.record.json.gz", "--out", "again.yaml")
    code, out, err = here("calibrate", "host", *arguments, folder=calibrated)
    assert code == 0, err
    assert "again.rows.csv" in out
    assert (calibrated / "again.yaml").read_bytes() == (calibrated / "here.yaml").read_bytes()
    assert (calibrated / "again.rows.csv").read_bytes() == (calibrated / "here.rows.csv").read_bytes()


def test_a_record_that_is_none_is_refused(here, calibrated):
    arguments = ("--record", "here.rows.csv", "--out", "no.yaml")
    code, _, err = here("calibrate", "host", *arguments, folder=calibrated)
    assert code == 2
    assert "not a record of a calibration" in err
    assert not (calibrated / "no.yaml").exists()


@pytest.mark.parametrize("option", ["--minutes", "--seed"])
def test_what_says_how_to_measure_is_refused_with_a_record(here, tmp_path, option):
    code, _, err = here(
        "calibrate", "host", "--record", "zen5_2_cores", option, "1", "--out", "no.yaml", folder=tmp_path
    )
    assert code == 2
    assert option in err
    assert "nothing is measured with --record" in err
    assert list(tmp_path.iterdir()) == []


def test_a_shipped_job_runs_on_the_spec(here, calibrated):
    arguments = ("--set", "cluster=here.yaml", "--set", "world_size=4", "--no-levers", "--no-report", "--json")
    code, out, err = here("run", "criteo_small", *arguments, "--out", "run", folder=calibrated)
    assert code == 0, err
    assert json.loads(out)["iteration_time_s"] > 0


def test_a_measurement_is_predicted_class_by_class(here, measured):
    arguments = ("--measured", "measured", "--cluster", "here.yaml", "--json", "--report", "page.html")
    code, out, err = here("validate", *arguments, folder=measured)
    assert code == 0, err
    (run,) = json.loads(out)["measured"]
    cases = {case["metric"]: case for case in run["cases"]}
    assert {"iteration", "embedding_forward", "embedding_update", "gemm", "collectives", "rest"} <= set(cases)
    parts = ("embedding_forward", "embedding_update", "gemm", "collectives", "rest")
    for side in ("measured", "predicted"):
        assert sum(cases[part][side] for part in parts) == pytest.approx(cases["iteration"][side], rel=1e-6)
    summary = json.loads((measured / "measured" / "measured.json").read_text(encoding="utf-8"))
    calibrated_s = [known.yardstick_s for known in load_cluster(measured / "here.yaml").node.cpu.kernels]
    assert any(run["slower"] == pytest.approx(summary["yardstick_s"] / seconds, rel=1e-9) for seconds in calibrated_s)
    # CPU time of the rank's own thread, which what else runs here changes little; a factor of 4 either way
    work = cases.get("own thread", cases["iteration"])
    assert 0.25 < work["predicted"] / work["measured"] < 4.0
    page = (measured / "page.html").read_text(encoding="utf-8")
    assert "rank 0 host, measured" in page
    assert "rank 0 host, predicted" in page


def test_a_measurement_may_be_predicted_with_another_profile(here, measured):
    arguments = ("validate", "--measured", "measured", "--cluster", "here.yaml", "--json")
    predicted = {}
    for name in ("pytorch", "small_buckets.yaml"):
        if name.endswith(".yaml"):
            text = files("workloads").joinpath("frameworks", "pytorch.yaml").read_text(encoding="utf-8")
            (measured / name).write_text(
                text.replace("value: 25 MiB", "value: 1 KiB").replace("value: 1 MiB", "value: 1 KiB"), encoding="utf-8"
            )
        code, out, err = here(*arguments, "--framework", name, folder=measured)
        assert code == 0, err
        cases = {case["metric"]: case for case in json.loads(out)["measured"][0]["cases"]}
        predicted[name] = cases["iteration"]["predicted"]
    assert len(set(predicted.values())) == 2, "more buckets of gradients"
    code, _, err = here(*arguments, "--framework", "pytorhc", folder=measured)
    assert code == 2
    assert "did you mean 'pytorch'" in err


def test_errors_above_a_limit_end_with_their_own_code(here, measured):
    arguments = ("--measured", "measured", "--cluster", "here.yaml", "--fail-above", "0")
    code, _, err = here("validate", *arguments, folder=measured)
    assert code == 4
    assert "above 0 %: measured" in err


def test_a_folder_without_a_measurement_is_refused(here, calibrated):
    code, _, err = here("validate", "--measured", "nowhere", folder=calibrated)
    assert code == 2
    assert "not a measurement" in err


def test_nothing_to_validate_is_refused(here, calibrated):
    code, _, err = here("validate", folder=calibrated)
    assert code == 2
    assert "nothing to validate" in err


def test_without_pytorch_the_command_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr("dlrmsim.hosts.machine.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dlrmsim\[trainer\]'") as refused:
        calibrate_host(tmp_path / "x.yaml")
    assert refused.value.exit_code == 2
    assert not (tmp_path / "x.yaml").exists()


@pytest.mark.parametrize("minutes", ["0", "-1", "inf"])
def test_a_time_that_is_none_is_refused(here, tmp_path, minutes):
    code, _, err = here("calibrate", "host", "--out", "x.yaml", "--minutes", minutes, folder=tmp_path)
    assert code == 2
    assert "--minutes" in err


def test_a_spec_that_could_not_be_written_is_refused_before_anything_is_measured(tmp_path):
    begin = time.monotonic()
    code, _, err = dlrmsim("calibrate", "host", "--out", "no/folder/here.yaml", folder=tmp_path)
    assert code == 2
    assert "nothing was written" in err
    assert time.monotonic() - begin < 30.0

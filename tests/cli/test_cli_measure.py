"""``dlrmsim measure`` as a user starts it: its files, and what is left when a rank or the command dies."""

import gzip
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import yaml

from dlrmsim.cli import main
from tests.command import installed_command
from tests.trainer_jobs import graded, model, scenario
from tests.waiting import soon
from validation.host.measurement import read_measured

ROOT = Path(__file__).parents[2]
LINUX = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")
SAMPLE = ROOT / "trainer" / "samples" / "criteo.tsv"

pytest.importorskip("torch")


def start(*arguments, folder):
    pipe, environment = subprocess.PIPE, {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [installed_command(), *map(str, arguments)]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True)


def dlrmsim(*arguments, folder):
    process = start(*arguments, folder=folder)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def tiny(folder, **workload):
    file = folder / "tiny.yaml"
    file.write_text(yaml.safe_dump(scenario(2, **({"sharding": {"planner": "greedy"}} | workload))), encoding="utf-8")
    return file


def ranks_in(folder):
    """Process ids of ranks whose command line names ``folder``: leaders of their sessions."""
    return [process for process in processes_in(folder) if is_leader(process)]


def is_leader(process):
    try:
        return os.getsid(process) == process
    except OSError:
        return False


def processes_in(folder):
    """Those of the ranks and of their children, which have their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if b"trainer" in words and any(str(folder).encode() in word for word in words):
            found.append(int(entry.name))
    return found


@pytest.fixture
def endless(tmp_path):
    """A measurement that would go on for hours, with both ranks started."""
    process = start("measure", tiny(tmp_path), "--ranks", 2, "--iterations", 10**7, "--out", "out", folder=tmp_path)
    try:
        assert soon(lambda: len(ranks_in(tmp_path)) == 2, seconds=60.0)
        yield process
    finally:
        process.kill()
        process.communicate()
        for left in processes_in(tmp_path):
            with suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The shipped small job on the shipped clicks."""
    folder = tmp_path_factory.mktemp("measured")
    arguments = ("--ranks", 2, "--iterations", 24, "--data", SAMPLE, "--set", "workload.global_batch_size=64")
    code, out, err = dlrmsim("measure", "criteo_small", *arguments, "--out", "out", folder=folder)
    assert (code, err) == (0, "")
    return folder / "out", out


def read(file):
    content = file.read_bytes()
    return json.loads(gzip.decompress(content) if file.suffix == ".gz" else content)


def test_a_measurement_writes_every_file_and_prints_its_figures(measured):
    folder, out = measured
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == [
        "environment.json", "et/rank0.json.gz", "et/rank1.json.gz", "iterations.parquet", "kineto/rank0.json.gz",
        "kineto/rank1.json.gz", "measured.json", "run.json", "scenario.resolved.yaml", "timed/rank0.json.gz",
        "timed/rank1.json.gz",
    ]  # fmt: skip
    assert all(words in out for words in ("iteration time", "samples/s", "drift", "loss", "2 ranks of this machine"))


def test_the_figures_are_those_of_the_recorded_iterations(measured):
    """10 of warm-up, 24 measured in blocks of 3, 2 and 4 times 3 for timed operators, 1 and 3 with the profiler."""
    import pandas as pd

    folder, _ = measured
    table, summary = pd.read_parquet(folder / "iterations.parquet"), read(folder / "measured.json")
    assert table.groupby("phase", observed=True).size().to_dict() == {
        "warm_up": 20,
        "measured": 48,
        "timed": 28,
        "profiled": 8,
    }
    ranks = table.groupby("iteration")
    begins_s, ends_s = ranks.start_s.min().to_numpy(), ranks.end_s.max().to_numpy()
    between_s = np.maximum(0.0, begins_s[1:] - ends_s[:-1])
    blocks_s = [ends_s[begin + 2] - begins_s[begin] for begin in range(10, 34, 3)]
    assert summary["iteration_time_s"] == pytest.approx(sum(blocks_s) / 24)
    assert np.flatnonzero(between_s > 0).tolist() == list(range(9, 34, 3)), "looks: before each block, after the last"
    assert 1e-4 < summary["yardstick_s"] < 1.0
    assert summary["throughput_samples_per_s"] == pytest.approx(64 / summary["iteration_time_s"])
    assert (table.time_s > 0).all()
    losses = table.groupby("iteration").loss.mean()
    assert summary["loss"] == {"first": pytest.approx(losses[0]), "last": pytest.approx(losses[33])}
    assert losses[24:].mean() < losses[:8].mean(), "8 batches of clicks are learnt in turns"


def test_no_large_temporaries_are_made_in_an_iteration(measured):
    """Less than 4 MB of new pages: the embedding vectors and activations of a batch are kept from one to the next."""
    summary = read(measured[0] / "measured.json")
    assert summary["page_faults_per_iteration"] < 1000
    assert 0.0 <= summary["stolen_share"] < 1.0


def test_operators_are_timed_in_traces_that_hold_nothing_else(measured):
    """Eight iterations, in sessions of two, without shapes."""
    for rank in range(2):
        events = read(measured[0] / "timed" / f"rank{rank}.json.gz")["traceEvents"]
        steps = sorted(
            (event["ts"], event["ts"] + event["dur"])
            for event in events
            if event.get("ph") == "X" and event["name"].startswith("ProfilerStep")
        )
        updates = sorted(event["ts"] for event in events if event.get("ph") == "X" and event["name"] == "column_update")
        assert len(steps) == len(updates) == 8
        assert all(begin < update < end for (begin, end), update in zip(steps, updates, strict=True))
        shortest = min(end - begin for begin, end in steps)
        between = [after[0] - before[1] for before, after in itertools.pairwise(steps)]
        assert [gap > 0.5 * shortest for gap in between] == [False, True] * 3 + [False], "one between sessions"
        assert not any("Input Dims" in event.get("args", {}) for event in events)


def test_the_clock_of_collectives_tells_what_traces_tell(measured):
    """Of each traced iteration on each rank, but for what Python does around calls, and a profiler that is at work."""
    import pandas as pd

    table = pd.read_parquet(measured[0] / "iterations.parquet")
    assert (table.collectives_s > 0.0).all()
    assert (table.collectives_s < table.time_s).all()
    for rank in range(2):
        events = read(measured[0] / "timed" / f"rank{rank}.json.gz")["traceEvents"]
        events = [event for event in events if event.get("ph") == "X"]
        told = table[(table["rank"] == rank) & (table["phase"] == "timed")].collectives_s.to_numpy()
        for step in (event for event in events if event["name"].startswith("ProfilerStep#")):
            begin, end = step["ts"], step["ts"] + step["dur"]
            within = [event for event in events if begin <= event["ts"] < end and event["tid"] == step["tid"]]
            traced_s = sum(
                event["dur"]
                for event in within
                if event["name"] == "collective_wait" or event["name"].startswith("c10d::")
            )
            number = int(step["name"].removeprefix("ProfilerStep#"))
            calls = sum(event["name"].startswith("c10d::") for event in within)
            assert calls > 4
            assert 0.95e-6 * traced_s <= told[number] <= 1e-6 * traced_s + 1e-3 * calls


def test_collectives_are_told_of_iterations_that_nothing_held_up(measured, tmp_path):
    """Rank 0 is 0.1 of each iteration in collectives and done 0.1 before rank 1, which is 0.4 of it in collectives.

    In one that takes ten times as long both are all of it.
    """
    import pandas as pd

    folder = shutil.copytree(measured[0], tmp_path / "measured")
    table = pd.read_parquet(folder / "iterations.parquet")
    slowest = table[table.phase == "measured"].iteration.max()
    table["iteration_time_s"] = table.iteration_time_s.median()  # whatever this machine held up
    table.loc[table.iteration == slowest, "iteration_time_s"] *= 10.0
    of_rank_0 = table[table["rank"] == 0].set_index("iteration").iteration_time_s
    times_s = table.iteration.map(of_rank_0)
    table["collectives_s"] = times_s * table["rank"].map({0: 0.1, 1: 0.4})
    table["time_s"] = times_s * table["rank"].map({0: 0.9, 1: 1.0})
    table.loc[table.iteration == slowest, "collectives_s"] = table.time_s
    table.to_parquet(folder / "iterations.parquet")
    told = read_measured(folder)
    assert told.times.classes_s["collectives"] == pytest.approx(0.3 * told.times.iteration_s)
    assert told.noise_pct["collectives"] == pytest.approx(0.0, abs=1e-9)
    assert sum(told.times.classes_s.values()) == pytest.approx(told.times.iteration_s)


def test_traces_hold_three_iterations_with_their_stages(measured):
    for rank in range(2):
        events = read(measured[0] / "kineto" / f"rank{rank}.json.gz")["traceEvents"]
        names = [event["name"] for event in events if event.get("ph") == "X"]
        assert sum(name.startswith("ProfilerStep") for name in names) == 3
        for stage in ("embedding_forward", "top_mlp_forward", "backward", "column_update", "gradient_all_reduce_0"):
            assert names.count(stage) == 3, stage
        assert any("all_to_all" in name for name in names)
        nodes = read(measured[0] / "et" / f"rank{rank}.json.gz")["nodes"]
        assert any("embedding_bag" in node["name"] for node in nodes)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not pin processes")
def test_ranks_are_pinned_to_cores_of_their_own(measured):
    environment = read(measured[0] / "environment.json")
    cores = [set(rank["cores"]) for rank in environment["ranks"]]
    assert not cores[0] & cores[1] or len(os.sched_getaffinity(0)) < 2
    assert [rank["threads"] for rank in environment["ranks"]] == [len(own) for own in cores]
    assert environment["cpu"]


def test_the_scenario_beside_it_is_what_was_measured(measured, capsys):
    """Its plan is written out, and it can be predicted as it is."""
    folder, _ = measured
    resolved = yaml.safe_load((folder / "scenario.resolved.yaml").read_text(encoding="utf-8"))
    assert resolved["workload"]["sharding"]["plan"]["world_size"] == 2
    code = main(["run", str(folder / "scenario.resolved.yaml"), "--check", "--json"])
    assert (code, capsys.readouterr().err) == (0, "")
    from scenarios.resolve import load_scenario

    assert load_scenario(folder / "scenario.resolved.yaml").hash == read(folder / "measured.json")["scenario_hash"]


@LINUX
def test_a_dying_rank_ends_all_at_once_and_is_named(endless, tmp_path):
    victim = max(ranks_in(tmp_path))
    os.kill(victim, signal.SIGKILL)
    out, err = endless.communicate(timeout=60)
    assert endless.returncode == 1
    assert "of 2 was ended by SIGKILL" in err
    assert "all ranks were ended" in err
    assert "Traceback" not in err
    assert (processes_in(tmp_path), out) == ([], "")
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"], "nothing was written"


@LINUX
def test_ctrl_c_ends_all_ranks(endless, tmp_path):
    time.sleep(1.0)  # somewhere between the start of PyTorch and the first iterations
    endless.send_signal(signal.SIGINT)
    _, err = endless.communicate(timeout=60)
    assert (endless.returncode, err) == (130, "dlrmsim: interrupted; nothing was written\n")
    assert processes_in(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]


@LINUX
def test_ranks_do_not_outlive_a_killed_command(endless, tmp_path):
    endless.kill()
    endless.communicate()
    assert soon(lambda: processes_in(tmp_path) == [], seconds=60.0)


def test_a_wrong_line_of_data_is_named_and_nothing_written(tmp_path):
    lines = SAMPLE.read_text(encoding="utf-8").splitlines()
    (tmp_path / "clicks.tsv").write_text("\n".join([*lines[:70], "no click", *lines[71:]]), encoding="utf-8")
    arguments = ("--set", "workload.global_batch_size=64", "--data", "clicks.tsv", "--out", "out")
    code, out, err = dlrmsim("measure", "criteo_small", *arguments, folder=tmp_path)
    assert (code, out) == (2, "")
    assert "clicks.tsv:71: not a line of Criteo's format; given '1 fields'; expected 40" in err
    assert len(err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["clicks.tsv"]


def test_without_pytorch_the_pip_command_is_shown(tmp_path):
    program = "import sys; sys.modules['torch'] = None; from dlrmsim.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "measure", "criteo_small", "--out", "out"]
    there = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(ROOT)}}
    found = subprocess.run(command, **there, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 2
    assert "pip install 'dlrmsim[trainer]'" in found.stderr
    assert list(tmp_path.iterdir()) == []


def test_tables_beyond_this_machine_are_refused_with_the_numbers(tmp_path, monkeypatch):
    """6.4 GB of tables and 2 GB free."""
    import dlrmsim
    from inputs.errors import InfeasibleError

    monkeypatch.setattr("dlrmsim.verbs.measure.free_memory_bytes", lambda: 2e9)
    tables = graded([{"rows": 100_000_000, "dim": 8, "pooling_factor": 1.0}] * 2)
    file = tiny(tmp_path, model=model(tables=tables))
    with pytest.raises(InfeasibleError, match=r"hold 8.0 GB, 2.0 GB are\s+free"):
        dlrmsim.measure(file, device="cpu", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--ranks", "65536", "--set", "workload.global_batch_size=65536"), "too many ranks for this machine"),
        (("--ranks", "3"), "the 3 ranks of the reference trainer cannot share the batch evenly"),
        (("--device", "cuda"), "not enough GPUs"),
        (("--iterations", "0"), "--iterations"),
        (("--data", "nowhere.tsv"), "--data: no such file"),
    ],
)
def test_wrong_input_is_told_in_one_line(tmp_path, monkeypatch, capsys, arguments, expected):
    if expected == "not enough GPUs":
        import torch

        if torch.cuda.device_count() >= 2:
            pytest.skip("this machine has the GPUs")
    monkeypatch.chdir(tmp_path)
    code = main(["measure", str(tiny(tmp_path)), *arguments, "--out", "out"])
    out, err = capsys.readouterr()
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert expected in err
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]


def test_a_single_iteration_has_a_yardstick_too(tmp_path):
    code, _, err = dlrmsim(
        "measure", tiny(tmp_path), "--ranks", "1", "--iterations", "1", "--out", "one", folder=tmp_path
    )
    assert code == 0, err
    assert read(tmp_path / "one" / "measured.json")["yardstick_s"] > 0.0


def test_a_measurement_of_an_earlier_version_is_refused_with_one_message(measured, tmp_path, capsys):
    """It has no iterations whose operators were timed."""
    for name in ("measured.json", "scenario.resolved.yaml"):
        (tmp_path / name).write_bytes((measured[0] / name).read_bytes())
    assert main(["validate", "--measured", str(tmp_path), "--cluster", "zen5_2_cores"]) == 2
    assert "not a measurement" in capsys.readouterr().err


def test_of_a_measurement_on_a_gpu_the_iteration_alone_is_validated(measured, tmp_path, monkeypatch, capsys):
    """What its host did were launches: they say nothing of kernels."""
    shutil.copytree(measured[0], tmp_path / "on_gpu")
    file = tmp_path / "on_gpu" / "measured.json"
    file.write_text(json.dumps({**read(file), "device": "NVIDIA H100"}))
    arguments = ("--measured", "on_gpu", "--cluster", "zen5_2_cores", "--report", "page.html", "--json")
    monkeypatch.chdir(tmp_path)
    assert main(["validate", *arguments]) == 0
    assert {case["metric"] for run in json.loads(capsys.readouterr().out)["measured"] for case in run["cases"]} == {
        "iteration"
    }
    assert (tmp_path / "page.html").is_file()


def test_a_validated_measurement_is_a_table(measured):
    import dlrmsim

    found = dlrmsim.validate_measured(measured[0], cluster="zen5_2_cores")
    iteration = found.table.set_index("metric").loc["iteration"]
    assert iteration["error_pct"] == found.iteration_error_pct[str(measured[0])]
    assert set(found.statistics["metric"]) == set(found.table["metric"]) > {"iteration"}

"""Captured jobs on the command line: their folder is a scenario for every command."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

import dlrmsim
from dlrmsim.cli import main
from tests.captured_jobs import JobRecords, small_job, world, written
from workloads.captured.job_file import write_job
from workloads.captured.records import Product


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with a job of 8 ranks, in the folder of the commands."""
    monkeypatch.chdir(tmp_path)
    return str(written(small_job(8), Path("job")))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == code
    return capsys.readouterr().err


def summary_of(folder: str) -> dict:
    return json.loads((Path(folder) / "summary.json").read_text(encoding="utf-8"))


def test_a_folder_runs_and_its_results_say_what_was_captured(job, capsys):
    assert main(["run", job, "--out", "out"]) == 0
    printed = capsys.readouterr().out
    for part in ("small on 8 GPUs, 1 node of dgx_h100", "peak of tensors", "in top.1", "aten.unknown_op"):
        assert part in printed
    found = summary_of("out")
    assert (found["workload"], found["global_batch_size"]) == ("captured", 8 * 512)
    of = found["captured"]
    assert (of["source"], of["torch"]) == ("train.py:step", "2.9.0")
    assert of["programs"] == [
        {"ranks": 8, "first_rank": 0, "captured": [0], "tasks": of["tasks"], "streams": ["default", "memcpy"]}
    ]
    assert of["product_flops_per_rank"] == 8 * 2.0 * 512 * 1024 * 1024
    assert of["collective_bytes_per_rank"] == {"all_to_all": 2 * 8 * 512 * 1024 * 4.0, "all_reduce": 8.0 * 1024**2}
    assert 0.0 < of["priced_by_bytes_share"] < 0.2
    assert sum("priced by the bytes they move alone, most of all aten.unknown_op" in w for w in found["warnings"]) == 1
    assert {k: found["memory_peak"][k] for k in ("rank", "module")} == {"rank": 0, "module": "top.1"}
    assert found["memory_peak"]["bytes"] == {"parameters": 2e9, "activations": 4e9, "gradients": 2e9}
    blocks = {row["block"]: row for row in found["blocks"]}
    assert {"tables", "bottom.0", "top.0", "top.1", "optimizer", "interaction"} <= set(blocks)
    assert blocks["top.0"]["backward_s"] > blocks["top.0"]["forward_s"] > 0.0
    page = Path("out/report.html").read_text(encoding="utf-8")
    for part in ("Memory over the step", "Captured from", "train.py:step", "<td>top.1</td>"):
        assert part in page
    tried = {lever["setting"] for lever in found["levers"]["tried"]}
    assert {"workload.fuse=elementwise", "precision.dense=tf32"} <= tried


def test_the_resolved_scenario_runs_again_from_anywhere(job, tmp_path, monkeypatch):
    """It has the packed job: no file of the capture is needed."""
    first = dlrmsim.run(job, out="out", report=False, levers=False)
    (Path(job) / "job.json").unlink()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = dlrmsim.run("../out/scenario.resolved.yaml", out="out", report=False, levers=False)
    assert again.summary == first.summary


def test_cluster_and_nodes_are_short_for_settings(job, capsys):
    assert main(["run", job, "--cluster", "dgx_a100_80", "--nodes", "1", "--check", "--json"]) == 0
    short = json.loads(capsys.readouterr().out) | {"size": None}
    assert main(["run", job, "--set", "cluster=dgx_a100_80", "--set", "nodes=1", "--check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) | {"size": None} == short
    assert (short["cluster"], short["world_size"]) == ("dgx_a100_80", 8)
    assert main(["run", "zionex_a_128", "--nodes", "8", "--check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["world_size"] == 64


@pytest.mark.parametrize("spelling", ["job", "job/", "./job", "job/scenario.yaml"])
def test_a_folder_may_be_spelt_in_any_way(job, capsys, spelling):
    assert main(["run", spelling, "--check"]) == 0


def test_folders_without_a_scenario_are_refused(job, capsys):
    Path("empty").mkdir()
    words = refused(capsys, "run", "empty/", "--check")
    assert "empty: this folder has no scenario.yaml; expected a folder with scenario.yaml, or a YAML file" in words
    assert "unknown scenario; given 'empty'" in refused(capsys, "run", "empty", "--check")


def test_other_numbers_of_ranks_name_the_command_that_captures_them(job, capsys):
    words = refused(capsys, "run", job, "--nodes", "4", "--check")
    for part in ("captured on 8 ranks, and the scenario has 32", "dlrmsim capture train.py:step --world-size 32 --out"):
        assert part in words
    assert "expected world_size=8 (nodes=1 of dgx_h100)" in words


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("workload.global_batch_size=100", "512 on each of 8 ranks"),
        ("workload.gradient_buckets={bytes: 1 MiB}", "no buckets are made"),
        ("workload.gradient_accumulation=2", "no passes are added"),
        ("workload.optimizer={dense: adam}", "no optimizer is added"),
        ("workload.indices=zipf(9)", "zipf(EXPONENT) with 0 to 8"),
        ("workload.indices=zipf(x)", "zipf(EXPONENT) with 0 to 8"),
        ("workload.indices=no_such_histogram", "no_such_histogram"),
        ("workload.fuse=all", "one of none, elementwise"),
        ("precision.dense=bf16", "one of fp32, tf32"),
        ("precision.all_reduce=fp16", "precision.all_reduce"),
        ("workload.model=elsewhere", "no such job"),
        ("workload.model={name: x, title: y, job: abc}", "workload.model.job"),
        ("workload.sharding={planner: greedy}", "sharding is a key of dlrm workloads"),
    ],
)
def test_keys_that_do_not_go_with_a_recording_are_refused(job, capsys, setting, words):
    assert words in refused(capsys, "run", job, "--check", "--set", setting)


def test_a_recording_runs_on_cpus(job, capsys):
    assert main(["run", job, "--check", "--set", "cluster=xeon_8280_opa", "--json"]) == 0
    assert "kernels" not in capsys.readouterr().err


def test_the_batch_of_the_capture_may_be_stated(job, capsys):
    assert main(["run", job, "--check", "--set", "workload.global_batch_size=4096"]) == 0


def test_a_type_that_the_gpu_lacks_is_refused(job, capsys):
    records = JobRecords()
    records.add("aten.mm", Product(8, 8, 8, "fp8"))
    write_job(records.job([records.program(range(8))], world(8)), Path("job/job.json"))
    words = refused(capsys, "run", job, "--cluster", "dgx_a100_80", "--check")
    assert "the job has product kernels in fp8" in words
    assert main(["run", job, "--check"]) == 0


def test_unknown_samples_are_a_warning(job, capsys):
    write_job(msgspec.structs.replace(small_job(8), samples_per_rank=None), Path("job/job.json"))
    done = dlrmsim.run(job, out="out", report=False, levers=False)
    assert done.headline.per_iteration == 8
    assert "samples of a step are unknown: throughput counts one for each rank and step" in done.warnings


def test_a_job_that_does_not_fit_names_its_peak_and_clusters_with_more_memory(job, capsys):
    small = "cluster.node.gpu.memory_bytes=8 GB"
    words = refused(capsys, "run", job, "--set", small, code=3)
    assert "tensors of the fullest rank peak at 8.00 GB at task" in words
    assert "in top.1" in words
    assert "activations 4.00 GB" in words
    remedy = words[words.index("--set cluster=") :].split()[1]
    assert main(["run", job, "--set", small, "--set", remedy, "--check"]) == 0
    assert not Path("runs").exists()


def test_popular_rows_are_found_in_the_cache(job):
    """A law with popular rows takes less time for lookups than one without."""
    found = {}
    for law in ("uniform", "zipf(1.2)", "{distribution: zipf, exponent: 1.2}"):
        settings = [f"workload.indices={law}"]
        summary = dlrmsim.run(job, settings=settings, out="laws", report=False, levers=False).summary
        found[law] = next(row["forward_s"] for row in summary["blocks"] if row["block"] == "tables")
    assert found["zipf(1.2)"] == found["{distribution: zipf, exponent: 1.2}"] < found["uniform"]


def test_other_commands_take_the_folder(job, capsys):
    assert main(["sweep", job, "--over", "cluster=dgx_h100,dgx_a100_80", "--workers", "1", "--out", "sizes"]) == 0
    assert main(["what-if", job, "--change", "workload.fuse=elementwise"]) == 0
    assert main(["advise", job]) == 0
    capsys.readouterr()
    assert "captured workloads have no plan" in refused(capsys, "plan", job)
    assert "captured" in refused(capsys, "solve", job, "--key", "nodes", "--between", "1,4", "--throughput", "1e9")


def test_a_run_is_exported_as_chakra_traces(job):
    dlrmsim.run(job, out="out", report=False, levers=False)
    done = dlrmsim.export("out", form="chakra", out="traces")
    assert len(done.files) == 8
    assert len(dlrmsim.import_traces(done.files, out="again").imported.files) == 8


def test_a_model_of_this_kind_is_named_where_another_kind_is_asked_for(job, capsys):
    Path("other.yaml").write_text(
        "name: other\ncluster: zionex\nnodes: 1\nworkload: {model: job/job.json}\n", encoding="utf-8"
    )
    assert "is a model of workload.kind captured" in refused(capsys, "run", "other.yaml", "--check")


def test_a_transformed_step_has_no_blocks(job):
    """Transformations change the kernels of modules."""
    settings = ["transform=[{move: {tasks: 'top.allreduce_', to: sums}}]"]
    done = dlrmsim.run(job, settings=settings, out="out", report=True, levers=False)
    assert "blocks" not in done.summary
    assert "captured" in done.summary

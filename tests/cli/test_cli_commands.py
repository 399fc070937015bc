"""The subcommands, in this process: what they print and write."""

import gzip
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import dlrmsim
from dlrmsim.cli import main
from inputs.yaml_lines import load_yaml
from scenarios.family import FAMILIES
from tests.captured_jobs import small_job
from workloads.captured.job_file import write_job
from workloads.dlrm.model.model import DlrmModel

ROOT = Path(__file__).parents[2]
FAST = ["--set", "run.iterations=3"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_small(*arguments):
    return main(["run", "mlperf_dlrm_v1", *FAST, *([] if "--check" in arguments else ["--no-report"]), *arguments])


def test_the_version_is_the_projects(capsys):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"dlrmsim {project['version']}\n" == f"dlrmsim {dlrmsim.__version__}\n"


def test_check_runs_and_writes_nothing(here, capsys):
    assert run_small("--check") == 0
    out = capsys.readouterr().out
    assert "rank-tasks" in out
    assert "memory, hbm" in out
    assert list(here.iterdir()) == []


def test_check_as_json_has_memory_and_size(here, capsys):
    assert run_small("--check", "--json") == 0
    estimate = json.loads(capsys.readouterr().out)
    assert estimate["size"]["rank_tasks"] > 0
    assert estimate["memory"]["hbm"]["max_bytes"] < estimate["memory"]["hbm"]["capacity_bytes"]


def test_the_default_folder_has_name_and_hash(here, capsys):
    assert run_small("--json") == 0
    summary = json.loads(capsys.readouterr().out)
    (folder,) = (here / "runs").iterdir()
    assert folder.name == f"mlperf_dlrm_v1-{summary['scenario_hash'][:8]}"
    assert not (folder / "report.html").exists()


def test_the_same_scenario_gives_the_same_bytes_but_for_the_record(here, capsys):
    assert run_small("--out", "one") == run_small("--out", "two") == 0
    for name in ("summary.json", "trace.json.gz", "timeline.parquet", "scenario.resolved.yaml"):
        assert (here / "one" / name).read_bytes() == (here / "two" / name).read_bytes(), name


def test_no_result_knows_where_it_was_made(here, capsys):
    assert run_small("--out", "one") == 0
    for name in ("summary.json", "scenario.resolved.yaml"):
        assert str(here) not in (here / "one" / name).read_text()


def test_the_resolved_scenario_runs_again_into_the_same_summary(here, capsys):
    assert run_small("--out", "one") == 0
    assert main(["run", "one/scenario.resolved.yaml", "--no-report", "--out", "two"]) == 0
    assert (here / "one" / "summary.json").read_bytes() == (here / "two" / "summary.json").read_bytes()


def test_ranks_choose_what_is_traced(here, capsys):
    assert run_small("--out", "x", "--ranks", "5, 2") == 0
    events = json.loads(gzip.decompress((here / "x" / "trace.json.gz").read_bytes()))["traceEvents"]
    assert {event["pid"] for event in events} == {2, 5}


@pytest.mark.parametrize("text", ["", "1,", "a", "-1", "1.5", "²"])
def test_ranks_that_are_no_list_are_refused(here, capsys, text):
    assert run_small("--ranks", text) == 2
    assert "0,5,9" in capsys.readouterr().err


def test_recorded_ranks_are_those_of_the_timeline(here, capsys):
    import pyarrow.parquet as pq

    assert run_small("--out", "x", "--set", "output.record.ranks=[1, 6]") == 0
    assert set(pq.read_table(here / "x" / "timeline.parquet")["rank"].to_pylist()) == {1, 6}


def test_a_foreign_output_folder_is_refused_before_anything_runs(here, capsys):
    (here / "thesis").mkdir()
    (here / "thesis" / "chapter.tex").write_text("mine")
    assert run_small("--out", "thesis") == 2
    assert "chapter.tex" in capsys.readouterr().err
    assert [path.name for path in (here / "thesis").iterdir()] == ["chapter.tex"]


def test_a_run_is_replaced_by_the_next_into_the_same_folder(here, capsys):
    assert run_small("--out", "x") == 0
    assert run_small("--out", "x", "--set", "name=other") == 0
    assert json.loads((here / "x" / "summary.json").read_text())["name"] == "other"
    assert [path.name for path in here.iterdir()] == ["x"]


def test_an_error_in_a_file_has_its_line(here, capsys):
    Path("mine.yaml").write_text("name: a\ncluster: zionex\nnodes: two\nworkload: {model: zionex_a}\n")
    assert main(["run", "mine.yaml"]) == 2
    assert "mine.yaml:3: nodes:" in capsys.readouterr().err


def test_a_fault_of_ours_is_said_to_be_one(here, capsys, monkeypatch):
    def fault(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("dlrmsim.verbs.run.simulate", fault)
    assert run_small() == 1
    err = capsys.readouterr().err
    assert "ZeroDivisionError" in err
    assert "fault of dlrmsim" in err
    assert list(here.iterdir()) == []


def test_list_prints_what_ships_and_what_is_registered(capsys):
    assert main(["list", "--json"]) == 0
    names = json.loads(capsys.readouterr().out)
    assert "zionex_a_128" in names["scenarios"]
    assert "dgx_h100" in names["clusters"]
    assert "greedy" in names["planners"]
    assert "all_reduce/ring" in names["collectives"]
    assert all(about for entries in names.values() for about in entries.values())


@pytest.mark.parametrize("kind", ["clusters", "cluster", "libraries", "library"])
def test_list_takes_a_kind_in_the_singular_too(capsys, kind):
    assert main(["list", kind, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 1


def test_show_prints_the_bytes_of_the_file(capfdbinary):
    assert main(["show", "zionex_a_128"]) == 0
    assert capfdbinary.readouterr().out == (ROOT / "scenarios/library/zionex_a_128.yaml").read_bytes()


def test_show_says_what_else_a_name_stands_for(capfd):
    assert main(["show", "zionex"]) == 0
    shown = capfd.readouterr()
    assert shown.out.startswith("name: zionex\n")
    assert "nodes/zionex" in shown.err
    assert main(["show", "nodes/zionex"]) == 0
    assert capfd.readouterr().out == (ROOT / "hardware_specs/nodes/zionex.yaml").read_text()


@pytest.mark.parametrize("kind", ["scenario", "cluster", "model", "framework", "plan", "suite", "jobs"])
def test_schema_prints_a_json_schema(capsys, kind):
    assert main(["schema", kind]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["$schema"].startswith("https://json-schema.org/")
    assert found["type"] == "object"


def test_every_key_of_the_scenario_schema_is_described(capsys):
    assert main(["schema", "scenario"]) == 0
    found = json.loads(capsys.readouterr().out)
    parts = [found, *found["$defs"].values()]
    undescribed = [
        key for part in parts for key, value in part.get("properties", {}).items() if "description" not in value
    ]
    assert undescribed == []


def test_init_writes_a_scenario_that_checks_and_does_not_overwrite(here, capsys):
    assert main(["init", "mine.yaml"]) == 0
    assert main(["run", "mine.yaml", "--check"]) == 0
    assert main(["init", "mine.yaml"]) == 2
    assert "exists" in capsys.readouterr().err


def test_init_model_writes_a_model_of_ones_own_that_runs(here, capsys):
    """Scenario, model and tables, whole or not at all; the headline names the framework, which is PyTorch."""
    assert main(["init", "job.yaml", "--model"]) == 0
    assert sorted(path.name for path in Path().iterdir()) == ["job.yaml", "model.yaml", "tables.csv"]
    capsys.readouterr()
    assert main(["run", "job.yaml", "--check"]) == 0
    assert "my_run: my_model on 128 GPUs, 16 nodes of zionex, framework pytorch" in capsys.readouterr().out
    assert main(["init", "other.yaml", "--model"]) == 2
    assert "model.yaml: exists; nothing was written" in capsys.readouterr().err
    assert not Path("other.yaml").exists()
    assert main(["init", "--model"]) == 2


def test_the_template_of_a_model_shows_every_key(here):
    assert main(["init", "job.yaml", "--model"]) == 0
    text = Path("model.yaml").read_text()
    full = yaml.safe_load("\n".join(re.sub(r"^# (?=\w+:)", "", line) for line in text.splitlines()[1:]))
    assert set(DlrmModel.model_fields) - set(full) == {"tables", "population", "uniform_mlp"}


REFUSED = {
    "gradient_accumulation": "2", "gradient_buckets": "{bytes: 1 MiB}", "backend": "mpi", "communication_cores": "2",
    "optimizer": "{dense: adagrad}", "all_reduce": "fp16",
}  # fmt: skip
"""Values of keys that a template may leave out, as its kind refuses them."""


@pytest.mark.parametrize("kind", FAMILIES.names())
def test_the_template_of_each_kind_shows_every_key_and_the_defaults(here, kind):
    """Uncommented, the template is the same scenario: what its comments show are the defaults."""
    Scenario = FAMILIES.get(kind).scenario  # noqa: N806 - a class
    assert main(["init", "mine.yaml", "--kind", kind]) == 0
    write_job(small_job(8), Path("job.json"))  # the model that the template of recorded jobs names
    assert main(["run", "mine.yaml", "--check"]) == 0
    text = Path("mine.yaml").read_text()
    kept = [line for line in text.splitlines()[2:] if not line.lstrip().startswith(("# world_size", "# alternatives"))]
    full = yaml.safe_load("\n".join(re.sub(r"^( *)# (?= *\w+:)", r"\1", line) for line in kept))
    assert Scenario.model_validate(full) == Scenario.model_validate(load_yaml(Path("mine.yaml")).data)
    assert set(Scenario.model_json_schema()["properties"]) - set(full) == {"world_size"}
    for part in ("workload", "precision", "network", "variation", "run"):
        fields = type(getattr(Scenario.model_validate(full), part)).model_fields
        for key in set(fields) - set(full[part]) - {"alternatives"}:
            assert main(["run", "mine.yaml", "--check", "--set", f"{part}.{key}={REFUSED[key]}"]) == 2, key


def test_a_kind_without_a_template_is_refused(here, capsys):
    assert main(["init", "mine.yaml", "--kind", "convnett"]) == 2
    assert "did you mean 'convnet'?" in capsys.readouterr().err
    assert main(["init", "mine.yaml", "--kind", "convnet", "--model"]) == 2
    assert not Path("mine.yaml").exists()


def test_python_can_do_what_the_command_does(here):
    scenario = dlrmsim.load_scenario("mlperf_dlrm_v1", ["run.iterations=3"])
    finished = dlrmsim.run(scenario, out=Path("x"), report=False)
    assert json.loads(Path("x/summary.json").read_text()) == finished.summary


def test_starting_loads_nothing_heavy():
    heavy = ["numpy", "pandas", "plotly", "pyarrow", "simpy", "pydantic"]
    code = f"import sys, dlrmsim.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "zionex_a_128", "--foo"], "No such option: --foo"),
        (["runn"], "Did you mean 'run'?"),
        (["run"], "Missing argument 'scenario'"),
        (["sweep", "zionex_a_128", "--over", "nodes=1", "--scaling", "fast"], "'fast' is not one of 'weak', 'strong'"),
    ],
)
def test_a_wrong_command_line_gets_one_line(arguments, message, capsys):
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_without_arguments_the_help_is_shown(capsys):
    assert main([]) == 2
    shown = capsys.readouterr()
    assert "validate" in shown.out
    assert shown.err == ""


def test_a_folder_without_a_scenario_is_none(here, capsys):
    assert main(["run", str(here)]) == 2
    expected = "expected a folder with scenario.yaml, or a YAML file"
    assert capsys.readouterr().err == f"dlrmsim: {here}: this folder has no scenario.yaml; {expected}\n"

"""`import`, `replay` and `compare` on the command line: what they print and write."""

from __future__ import annotations

import json
import re

import pytest

from dlrmsim.cli import main
from tests.trace_files import chakra_bytes, chakra_iteration, two_ranks, write_ranks


@pytest.fixture
def kineto(tmp_path):
    return [str(file) for file in write_ranks(tmp_path, two_ranks(world_size=3))]


def test_import_prints_what_it_found_and_what_it_could_not_tell(kineto, tmp_path, capsys):
    assert main(["import", *kineto, "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert "Kineto: 2 of 3 ranks" in out
    assert "8 device events, 2 collectives, 2 copies, 1 steps" in out
    assert "gap    1 ranks without a trace" in out
    assert "(rank 2)" in out
    assert "15.0 %" in out  # compute of rank 0: 30 of 200 us
    names = {file.name for file in (tmp_path / "out").iterdir()}
    assert names == {"summary.json", "timeline.parquet", "report.html", "run.json"}
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["complete"] is False
    assert summary["iteration_time_s"] == pytest.approx(200e-6)


def test_import_writes_the_same_bytes_twice(kineto, tmp_path):
    for name in ("one", "two"):
        assert main(["import", *kineto, "--out", str(tmp_path / name)]) == 0
    for file in ("summary.json", "timeline.parquet", "report.html"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_import_as_json_writes_nothing(kineto, tmp_path, capsys):
    before = sorted(tmp_path.iterdir())
    assert main(["import", *kineto, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["found"]["collectives"] == 2
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_stands_for_its_traces(kineto, tmp_path, capsys):
    for command in ("import", "replay"):
        assert main([command, *kineto, "--json"]) == 0
        by_file = capsys.readouterr().out
        assert main([command, str(tmp_path), "--json"]) == 0
        assert capsys.readouterr().out == by_file


def test_a_folder_that_we_wrote_stands_for_its_timeline(kineto, tmp_path, capsys):
    assert main(["import", *kineto, "--out", str(tmp_path / "out")]) == 0
    assert main(["replay", str(tmp_path / "out"), "--json"]) == 0
    found = capsys.readouterr().out
    assert json.loads(found[found.index("{") :])["largest_error_s"] == 0.0


def test_a_whole_trace_is_for_kineto(tmp_path, capsys):
    file = tmp_path / "job.0.et"
    file.write_bytes(chakra_bytes(chakra_iteration()))
    assert main(["import", str(file), "--whole"]) == 2
    assert "--whole: applies to Kineto traces only" in capsys.readouterr().err


def test_import_refuses_a_folder_that_is_not_ours(kineto, tmp_path, capsys):
    assert main(["import", *kineto, "--out", str(tmp_path)]) == 2
    assert "holds files that dlrmsim did not write" in capsys.readouterr().err


def test_replay_as_measured_has_no_error(kineto, capsys):
    assert main(["replay", *kineto, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["largest_error_s"] == 0.0
    assert found["makespan_s"] == found["measured_makespan_s"] == pytest.approx(200e-6, rel=0.5)


def test_replay_of_a_trace_without_times_needs_a_cluster(tmp_path, capsys):
    files = []
    for rank in range(8):
        files.append(tmp_path / f"job.{rank}.et")
        files[-1].write_bytes(chakra_bytes(chakra_iteration()))
    names = [str(file) for file in files]
    assert main(["replay", *names]) == 2
    said = capsys.readouterr().err
    assert "has no times to replay" in said
    assert "expected --cluster NAME" in said
    assert main(["replay", *names, "--cluster", "dgx_a100_80"]) == 0
    assert "8 of 8 ranks: replayed on the network of dgx_a100_80" in capsys.readouterr().out


def test_ranks_without_a_trace_run_the_first_program_on_a_cluster(tmp_path, capsys):
    """Eight ranks of which two are traced take as long as eight that are alike."""
    times = []
    for traced in (range(8), (0, 7)):
        files = []
        for rank in traced:
            files.append(tmp_path / f"job.{rank}.et")
            files[-1].write_bytes(chakra_bytes(chakra_iteration()))
        assert main(["replay", *map(str, files), "--cluster", "dgx_a100_80", "--json"]) == 0
        times.append(json.loads(capsys.readouterr().out)["makespan_s"])
    assert times[0] == times[1]


def test_replay_with_a_late_rank_prints_the_step_before_and_after(kineto, capsys):
    assert main(["replay", *kineto, "--delay", "1=20us"]) == 0
    out = capsys.readouterr().out
    assert "2 of 3 ranks: replayed with rank 1: 0.02 ms late in each step" in out
    assert "changed  collectives: transfers as measured" in out
    assert re.search(r"step +200 µs", out)
    assert main(["replay", *kineto, "--delay", "1=20us", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    waiting = found["step"]["exposed_waiting_s"] - found["measured_step"]["exposed_waiting_s"]
    assert waiting == pytest.approx(10e-6)  # rank 0 waits 20 us longer, the mean is over two ranks


def test_replay_on_a_gpu_says_how_kernels_came_there(kineto, capsys):
    assert main(["replay", *kineto, "--gpu", "h100_sxm5_80", "--from-gpu", "v100_sxm2_32"]) == 0
    out = capsys.readouterr().out
    assert "GEMM without shape" in out
    assert "copy over PCIe, kept" in out
    assert main(["replay", *kineto, "--gpu", "h100_sxm5_80", "--from-gpu", "v100_sxm2_32", "--json"]) == 0
    kernels = json.loads(capsys.readouterr().out)["kernels"]
    assert sum(row["tasks"] for row in kernels) == 6  # two kernels and a copy on each rank


def test_a_replay_answers_before_it_explains(kineto, capsys):
    """Both machines, both times and the bound come first; gaps take one line."""
    options = ["--gpu", "h100_sxm5_80", "--from-gpu", "v100_sxm2_32", "--cluster", "dgx_h100"]
    assert main(["replay", *kineto, *options]) == 0
    first, second, third, *_ = capsys.readouterr().out.splitlines()
    assert first.endswith("replayed on dgx_h100, NVIDIA H100 SXM5; measured on NVIDIA V100 SXM2")
    assert re.fullmatch(r"  \d+ µs per step; measured 200 µs \([+-]\d+\.\d %\)", second)
    assert re.match(r"  (The host|Kernels|Copies|Communication) bounds? the replay: 10 % faster, ", third)
    assert main(["replay", *kineto, *options[:4]]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last == "  gaps     1 kind in the traces: --json lists them"


def test_summary_and_page_of_a_replay_say_what_was_replayed_on_what(kineto, tmp_path):
    out = tmp_path / "out"
    options = ["--gpu", "h100_sxm5_80", "--from-gpu", "v100_sxm2_32", "--cluster", "dgx_h100", "--host-speed", "2"]
    assert main(["replay", *kineto, *options, "--out", str(out)]) == 0
    found = json.loads((out / "summary.json").read_text())
    machines = {"measured_on": "NVIDIA V100 SXM2", "replayed_on": "dgx_h100, NVIDIA H100 SXM5"}
    assert {key: found[key] for key in machines} == machines
    assert found["device"] == "NVIDIA H100 SXM5"
    assert any("host work: 2 times as fast" in line for line in found["changed"])
    assert found["measured_step"]["step_s"] == pytest.approx(200e-6)
    assert found["step"]["step_s"] == found["iteration_time_s"] != found["measured_step"]["step_s"]
    (collective,) = found["collectives_compared"]
    assert collective["transfer"]["measured_s"] == pytest.approx(5e-6)
    page = (out / "report.html").read_text()
    text = re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    footer = re.sub(r"\s+", " ", page.partition("<footer>")[2].partition("</footer>")[0])
    assert footer.startswith("Predicted by dlrmsim")
    for where in (page.partition("<title>")[2].partition("</title>")[0], footer, text):
        assert "replayed on dgx_h100, NVIDIA H100 SXM5; measured on NVIDIA V100 SXM2" in where
    assert "per step, measured" not in text
    assert "Measured; imported" not in page


def test_an_unchanged_replay_says_so(kineto, capsys):
    assert main(["replay", *kineto]) == 0
    assert "replayed unchanged; measured on" in capsys.readouterr().out


def test_a_gpu_that_makes_kernels_slower_is_said(tmp_path, capsys):
    own = two_ranks(1)[0]
    next(e for e in own.events if e["name"] == "gemm")["dur"] = 20.0
    file = str(own.write(tmp_path / "rank0.json"))
    assert main(["replay", file, "--gpu", "v100_sxm2_32", "--from-gpu", "h100_sxm5_80"]) == 0
    out = capsys.readouterr().out
    assert "slower on NVIDIA V100 SXM2: GEMM without shape" in out
    assert main(["replay", file, "--gpu", "h100_sxm5_80", "--from-gpu", "v100_sxm2_32"]) == 0
    assert "slower on" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "said"), [(["--host-speed", "0"], "--host-speed: is no factor"), (["--launches", "-1"], "--launches")]
)
def test_levers_of_the_host_that_make_no_sense(kineto, capsys, option, said):
    assert main(["replay", *kineto, *option]) == 2
    assert said in capsys.readouterr().err


def test_replay_writes_what_import_writes_and_compare_reads_it(kineto, tmp_path, capsys):
    assert main(["import", *kineto, "--out", str(tmp_path / "before")]) == 0
    assert main(["replay", *kineto, "--delay", "1=20us", "--out", str(tmp_path / "after")]) == 0
    names = {file.name for file in (tmp_path / "after").iterdir()}
    assert names == {"summary.json", "timeline.parquet", "report.html", "run.json"}
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "before"), str(tmp_path / "after"), "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["iteration"]["change_s"] == pytest.approx(20e-6, rel=0.5)


@pytest.mark.parametrize(
    ("form", "names"),
    [
        ("chrome", ["rank0.json.gz", "rank1.json.gz"]),
        ("chakra", ["trace.0.et", "trace.1.et"]),
        ("parquet", ["timeline.parquet"]),
    ],
)
def test_export_writes_a_folder_that_is_imported_again(kineto, tmp_path, capsys, form, names):
    out = tmp_path / "out"
    for _ in range(2):  # the second replaces the first
        assert main(["export", *kineto, "--format", form, "--out", str(out)]) == 0
    assert sorted(file.name for file in (out / form).iterdir()) == names
    assert sorted(file.name for file in out.iterdir()) == sorted([form, "run.json"])
    capsys.readouterr()
    assert main(["import", *(str(out / form / name) for name in names), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["ranks_with_trace"] == 2
    if form != "chakra":
        assert again["iteration_time_s"] == pytest.approx(200e-6)


def test_export_of_a_folder_takes_its_timeline(kineto, tmp_path, capsys):
    main(["import", *kineto, "--out", str(tmp_path / "measured")])
    assert main(["export", str(tmp_path / "measured"), "--format", "chrome", "--out", str(tmp_path / "out")]) == 0
    assert "rank0.json.gz and 1 more" in capsys.readouterr().out


def test_compare_shows_what_changed_most_first(kineto, tmp_path, capsys):
    slower = two_ranks(world_size=3)
    for own in slower:
        next(e for e in own.events if e["name"] == "adam")["dur"] = 60.0
    (tmp_path / "slow").mkdir()
    main(["import", *kineto, "--out", str(tmp_path / "before")])
    main(["import", *map(str, write_ranks(tmp_path / "slow", slower)), "--out", str(tmp_path / "after")])
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "before"), str(tmp_path / "after"), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows[:6]] == ["iteration", "compute", "exposed_comm", "exposed_copy", "idle", "adam"]
    assert [rows[5]["change_s"], rows[1]["change_s"]] == pytest.approx([40e-6, 40e-6])
    assert rows[0]["change_s"] == 0.0
    assert main(["compare", str(tmp_path / "before"), kineto[0]]) == 0
    assert "adam" in capsys.readouterr().out


def test_compare_says_what_is_no_run(tmp_path, capsys):
    assert main(["compare", str(tmp_path), str(tmp_path)]) == 2
    assert "summary.json: cannot be read" in capsys.readouterr().err


def with_many_kernels(count, longest_us):
    """Two ranks with ``count`` further kernels after the step's own, each shorter than the one before."""
    ranks = two_ranks(world_size=3)
    for own in ranks:
        kernel = next(e for e in own.events if e["name"] == "adam")
        for number in range(count):
            extra = {**kernel, "name": f"short_{number:02}", "ts": kernel["ts"] + kernel["dur"] + number}
            extra["dur"] = 0.9 * (longest_us if number == count - 1 else 1 - number / count / 2)
            own.events.append({**extra, "args": {**kernel["args"], "correlation": 9_000 + number}})
    return ranks


def test_a_kernel_that_falls_off_the_list_of_the_longest_is_compared_with_its_time(tmp_path, capsys):
    """Summaries list 40 operators: of 60 the one that becomes the shortest did not go away."""
    for name, longest_us in (("before", 60.0), ("after", 0.4)):
        (tmp_path / f"{name}_traces").mkdir()
        files = write_ranks(tmp_path / f"{name}_traces", with_many_kernels(60, longest_us))
        assert main(["import", *map(str, files), "--out", str(tmp_path / name)]) == 0
    capsys.readouterr()
    summaries = [json.loads((tmp_path / name / "summary.json").read_text()) for name in ("before", "after")]
    listed = [{row["name"] for row in summary["operators"]} for summary in summaries]
    assert [("short_59" in names) for names in listed] == [True, False], "it falls off the second list"
    assert main(["compare", str(tmp_path / "before"), str(tmp_path / "after"), "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["short_59"]["second_s"] > 0.0
    assert len(rows) > 60
    for name in ("before", "after"):  # without its timeline a folder has the cut list alone
        (tmp_path / name / "timeline.parquet").unlink()
    assert main(["compare", str(tmp_path / "before"), str(tmp_path / "after"), "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["short_59"]["second_s"], rows["short_59"]["change_s"]) == (None, None)
    assert main(["compare", str(tmp_path / "before"), str(tmp_path / "after"), "--rows", "99"]) == 0
    assert "-100 %" not in capsys.readouterr().out

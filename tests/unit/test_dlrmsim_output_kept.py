"""Finished results of interrupted work are taken over, whole lines only, and give the same results."""

import json
import shutil
from pathlib import Path

import pytest

import dlrmsim
from dlrmsim.output.kept import Kept, kept_results

CASES = """
schema: 1
title: three sizes
cases:
{cases}
"""
CASE = """
  - {{id: c{batch}, scenario: mlperf_dlrm_v1, metric: iteration_time_s,
     set: {{world_size: 1, nodes: null, workload.global_batch_size: {batch}}}, measured: 0.01,
     unit: s, source: a test, grade: memory}}
"""


class InterruptAt:
    """Progress that interrupts at the stage of a number, as Ctrl-C would."""

    def __init__(self, number):
        self.left, self.seen = number, []

    def stage(self, description, done=None, total=None):
        self.seen.append(description)
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def validated(folder, **options):
    text = "".join(CASE.format(batch=batch) for batch in (8192, 16384))
    (folder / "sizes.yaml").write_text(CASES.format(cases=text))
    found = dlrmsim.validate(folder / "sizes.yaml", workers=1, out=folder / "page.html", **options)
    return found, json.dumps(found.to_dict()) + (folder / "page.html").read_text()


def swept(folder, **options):
    found = dlrmsim.sweep("mlperf_dlrm_v1", over="world_size=1,2", workers=1, out=folder / "out", **options)
    return found, [(folder / "out" / name).read_bytes() for name in ("sweep.parquet", "scaling.html")]


def planned(folder, **options):
    few = ["workload.sharding.steps=1", "world_size=2"]
    found = dlrmsim.plan("mlperf_dlrm_v1", compare=True, settings=few, out=folder / "out", **options)
    return found, [(folder / "out" / name).read_bytes() for name in ("plan.json", "statistics.json", "plan.html")]


def fitted(folder, **options):
    text = "".join(CASE.format(batch=batch) for batch in (8192, 16384))
    rule = "calibration: ['world_size <= 128']\n"
    (folder / "sizes.yaml").write_text(CASES.format(cases=text) + rule)
    found = dlrmsim.calibrate_frameworks(
        "pytorch", suites=folder / "sizes.yaml", constants=["iteration_s"], out=folder / "f.yaml", **options
    )
    return found, (folder / "f.yaml").read_text()


WORK = {"validate": (validated, 3), "sweep": (swept, 3), "plan": (planned, 4), "calibrate framework": (fitted, 4)}
"""What is interrupted, and the stage at which it has at least one result."""


@pytest.mark.parametrize("kind", WORK)
def test_interrupted_work_goes_on_with_its_results_and_ends_the_same(kind, tmp_path):
    work, stage = WORK[kind]
    folders = {name: tmp_path / name for name in ("whole", "cut")}
    for folder in folders.values():
        folder.mkdir()
    found, result = work(folders["whole"])
    assert found.taken_over == 0
    cut = folders["cut"]
    before = sorted(path.name for path in folders["whole"].iterdir())
    with pytest.raises(KeyboardInterrupt) as interrupt:
        work(cut, progress=InterruptAt(stage))
    (file,) = [path for path in cut.iterdir() if path.name.endswith(".kept.jsonl")]
    lines = file.read_bytes().count(b"\n")
    assert lines >= 1
    assert interrupt.value.__notes__[0].startswith(f"{lines} finished result")
    copy = shutil.copy(file, tmp_path / "copy")
    shown = InterruptAt(0)
    again, same = work(cut, progress=shown)
    assert again.taken_over == lines
    assert any(f"{lines} taken over" in stage for stage in shown.seen)
    assert str(same).replace(str(cut), str(folders["whole"])) == str(result)
    assert sorted(path.name for path in cut.iterdir()) == before, "the kept results go with the work's end"
    if kind == "sweep":
        shutil.move(copy, file)
        assert work(cut, fresh=True)[0].taken_over == 0


def test_other_settings_take_nothing_over(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        swept(tmp_path, progress=InterruptAt(3))
    assert swept(tmp_path, settings=["workload.global_batch_size=4096"])[0].taken_over == 0


def test_a_sweep_over_several_keys_goes_on_with_other_combinations(tmp_path):
    """Combinations of other keys are other questions; those of the same keys are taken over."""
    less = {"workers": 1, "out": tmp_path / "out", "settings": ["world_size=2"]}
    with pytest.raises(KeyboardInterrupt):
        dlrmsim.sweep("mlperf_dlrm_v1", over="precision.dense=fp16,fp32", progress=InterruptAt(3), **less)
    more = ["precision.dense=fp16,fp32", "workload.sharding.planner=greedy,row_wise"]
    assert dlrmsim.sweep("mlperf_dlrm_v1", over=more, **less).taken_over == 0
    with pytest.raises(KeyboardInterrupt):
        dlrmsim.sweep("mlperf_dlrm_v1", over=more, progress=InterruptAt(3), **less)
    again = dlrmsim.sweep("mlperf_dlrm_v1", over=more, **less)
    assert again.taken_over == 2, "results that were there when the third stage was interrupted"
    assert again.table["status"].tolist() == ["ok"] * 4


def test_another_version_takes_nothing_over(tmp_path, monkeypatch):
    Kept(tmp_path / "k")("q", lambda: 1)
    assert Kept(tmp_path / "k").knows("q")
    monkeypatch.setattr("dlrmsim.output.kept._version", lambda: "another")
    assert not Kept(tmp_path / "k").knows("q")


def test_a_torn_line_costs_itself_alone_wherever_it_was_cut(tmp_path):
    file = tmp_path / "k"
    results = [{"a": 0.1 + 0.2}, [1, None, "x\ny"], {"b": "ü"}]
    for number, result in enumerate(results):
        Kept(file)(str(number), lambda result=result: result)
    whole = file.read_bytes()
    last = whole.rstrip(b"\n").rindex(b"\n") + 1
    for end in range(last, len(whole)):
        file.write_bytes(whole[:end])
        kept = Kept(file)
        assert [kept(str(number), lambda: "again") for number in range(2)] == results[:2]
        third = kept("2", lambda: results[2])
        kept.close()
        assert third == results[2]
        assert Kept(file)("2", lambda: "again") == results[2]


def test_results_are_read_back_the_same_in_the_run_that_finds_them(tmp_path):
    with kept_results(tmp_path / "x") as kept:
        assert kept("q", lambda: {"numbers": (1, 2.5), 3: None}) == {"numbers": [1, 2.5], "3": None}
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_kept_the_work_goes_on(tmp_path):
    (tmp_path / "file").write_text("mine")
    with kept_results(tmp_path / "file" / "x") as kept:
        assert kept("q", lambda: 1) == 1
        assert kept.count == 0
    assert (tmp_path / "file").read_text() == "mine"


def test_folders_made_for_kept_results_go_too(tmp_path):
    with kept_results(tmp_path / "runs" / "deep" / "x") as kept:
        kept("q", lambda: 1)
        assert Path(tmp_path / "runs" / "deep" / ".x.kept.jsonl").is_file()
    assert list(tmp_path.iterdir()) == []

"""Output folders appear whole or not at all, and never cost a user's file."""

import json
import sys
from pathlib import Path

import pytest

from dlrmsim.cli import main
from dlrmsim.output.folders import folder_written_whole, replaceable
from dlrmsim.output.record import write_record
from inputs.errors import InputError
from tests.trace_files import chakra_bytes, chakra_iteration, two_ranks, write_ranks


def write_run(target: Path, text: str = "one") -> None:
    with folder_written_whole(target) as folder:
        (folder / "summary.json").write_text(text)
        (folder / "run.json").write_text(json.dumps({"tool": "dlrmsim", "files": ["run.json", "summary.json"]}))


def write_half_a_run(target: Path, failure: type[BaseException]) -> None:
    with folder_written_whole(target) as folder:
        (folder / "summary.json").write_text("half")
        raise failure


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_folder_holds_what_was_written_and_nothing_stays_beside_it(tmp_path):
    write_run(tmp_path / "runs" / "a")
    assert names(tmp_path / "runs") == ["a"]
    assert names(tmp_path / "runs" / "a") == ["run.json", "summary.json"]


def test_a_folder_of_an_earlier_run_is_replaced_whole(tmp_path):
    write_run(tmp_path / "a", "one")
    write_run(tmp_path / "a", "two")
    assert (tmp_path / "a" / "summary.json").read_text() == "two"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
def test_a_failure_leaves_nothing_and_keeps_the_earlier_run(tmp_path, failure):
    write_run(tmp_path / "a", "one")
    with pytest.raises(failure):
        write_half_a_run(tmp_path / "a", failure)
    assert (tmp_path / "a" / "summary.json").read_text() == "one"
    assert names(tmp_path) == ["a"]


def test_a_failure_removes_the_parents_it_created(tmp_path):
    with pytest.raises(RuntimeError), folder_written_whole(tmp_path / "runs" / "x" / "a"):
        raise RuntimeError
    assert names(tmp_path) == []


def test_a_foreign_folder_is_refused_and_kept(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"thesis\.tex") as error:
        write_run(tmp_path)
    assert error.value.exit_code == 2
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_users_note_in_a_run_folder_is_not_deleted(tmp_path):
    write_run(tmp_path / "a")
    (tmp_path / "a" / "notes.md").write_text("mine")
    with pytest.raises(InputError, match=r"notes\.md"):
        write_run(tmp_path / "a")
    assert (tmp_path / "a" / "notes.md").read_text() == "mine"


def test_a_run_record_of_another_tool_does_not_make_a_folder_ours(tmp_path):
    (tmp_path / "run.json").write_text('{"tool": "other", "files": ["run.json"]}')
    with pytest.raises(InputError, match=r"run\.json"):
        replaceable(tmp_path)


def test_an_empty_folder_may_be_used(tmp_path):
    (tmp_path / "a").mkdir()
    write_run(tmp_path / "a")
    assert names(tmp_path / "a") == ["run.json", "summary.json"]


def test_a_file_is_refused(tmp_path):
    (tmp_path / "a").write_text("a file")
    with pytest.raises(InputError, match="not a folder"):
        write_run(tmp_path / "a")


def test_a_file_in_the_way_of_a_parent_is_refused(tmp_path):
    (tmp_path / "a").write_text("a file")
    with pytest.raises(InputError, match="not a folder"):
        replaceable(tmp_path / "a" / "b")


@pytest.mark.skipif(sys.platform == "win32", reason="limits on files are POSIX")
def test_a_disk_without_room_is_told_and_leaves_nothing(tmp_path):
    """A limit on the size of files stands for a full disk: writing fails in the same way."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(InputError, match="cannot be written: File too large; nothing was written"):
            write_run(tmp_path / "runs" / "a", "x" * 20_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is not a folder"):
        write_run(tmp_path / "file" / "a")


def test_files_of_an_earlier_run_that_a_lesser_one_does_not_write_are_kept_and_the_run_refused(tmp_path):
    with folder_written_whole(tmp_path / "a") as folder:
        (folder / "report.html").write_text("an hour of work")
        write_record(folder, {})
    with pytest.raises(InputError, match=r"holds report\.html of an earlier run.*nothing was written.*--out"):
        write_run(tmp_path / "a")
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a" / "report.html").read_text() == "an hour of work"


def test_a_lesser_run_takes_the_place_of_a_run_whose_page_was_deleted(tmp_path):
    with folder_written_whole(tmp_path / "a") as folder:
        (folder / "report.html").write_text("one")
        write_record(folder, {})
    (tmp_path / "a" / "report.html").unlink()
    write_run(tmp_path / "a", "two")
    assert names(tmp_path / "a") == ["run.json", "summary.json"]


LESSER = {
    "run": (["run", "mlperf_dlrm_v1"], ["run", "mlperf_dlrm_v1", "--no-report"]),
    "import": (["import", "TRACES"], ["import", "TRACES", "--no-report"]),
    "import without times": (["import", "TRACES"], ["import", "ET"]),
    "export": (["export", "TRACES", "--format", "chrome"], ["export", "TRACES", "--format", "chakra"]),
}
"""Commands whose second form writes fewer files, or others, than the first."""


@pytest.mark.parametrize("kind", LESSER)
def test_no_command_deletes_results_that_it_does_not_write_again(kind, tmp_path, capsys):
    traces = [str(file) for file in write_ranks(tmp_path, two_ranks())]
    (tmp_path / "job.0.et").write_bytes(chakra_bytes(chakra_iteration()))
    known = {"TRACES": traces, "ET": [str(tmp_path / "job.0.et")]}
    first, lesser = ([word for part in line for word in known.get(part, [part])] for line in LESSER[kind])
    assert main([*first, "--out", str(tmp_path / "out")]) == 0
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    assert main([*lesser, "--out", str(tmp_path / "out")]) == 2
    assert f"{tmp_path / 'out'}: holds " in capsys.readouterr().err
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before
    assert main([*first, "--out", str(tmp_path / "out")]) == 0, "the same files again may take their place"

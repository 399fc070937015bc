"""Output folders appear whole or not at all, and never cost a user's file."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dlrmsim.cli import main
from dlrmsim.output.folders import folder_written_whole, replaceable
from dlrmsim.output.record import write_record
from inputs.errors import InputError
from tests.trace_files import chakra_bytes, chakra_iteration, two_ranks, write_ranks


def write_run(target: Path, text: str = "one", beside: Path | None = None) -> None:
    """Write a run; a user writes the file ``beside`` at the same time."""
    with folder_written_whole(target) as folder:
        if beside is not None:
            beside.write_text("mine")
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


WRITERS = {
    "run": ["run", "mlperf_dlrm_v1", "--no-report", "--no-levers"],
    "sweep": ["sweep", "mlperf_dlrm_v1", "--over", "world_size=1", "--workers", "1"],
    "plan": ["plan", "mlperf_dlrm_v1"],
    "import": ["import", "TRACES", "--no-report"],
    "export": ["export", "TRACES", "--format", "chakra"],
}
"""Commands that write a folder."""


@pytest.mark.parametrize("kind", WRITERS)
def test_a_users_file_anywhere_below_an_output_is_never_deleted(kind, tmp_path, capsys):
    traces = [str(file) for file in write_ranks(tmp_path, two_ranks())]
    command = [word for part in WRITERS[kind] for word in (traces if part == "TRACES" else [part])]
    out = tmp_path / "out"
    assert main([*command, "--out", str(out)]) == 0
    assert main([*command, "--out", str(out)]) == 0, "its own files, those in subfolders too, may be replaced"
    folders = [out, *(path for path in out.rglob("*") if path.is_dir()), out / "of mine"]
    for folder in folders:
        folder.mkdir(exist_ok=True)
        mine = folder / "notes.md"
        mine.write_text("mine")
        assert main([*command, "--out", str(out)]) == 2
        assert f"{mine.relative_to(out).as_posix()}" in capsys.readouterr().err
        assert mine.read_text() == "mine"
        mine.unlink()


@pytest.mark.parametrize("kind", ["folder", "link to a folder", "link to nothing"])
def test_empty_folders_and_links_below_an_output_are_a_users_too(tmp_path, kind):
    write_run(tmp_path / "a")
    (tmp_path / "elsewhere").mkdir()
    mine = tmp_path / "a" / "mine"
    if kind == "folder":
        mine.mkdir()
    else:
        mine.symlink_to(tmp_path / ("elsewhere" if kind == "link to a folder" else "nowhere"))
    with pytest.raises(InputError, match="mine"):
        write_run(tmp_path / "a")
    assert os.path.lexists(mine)


def test_a_file_that_comes_while_a_run_computes_is_not_deleted(tmp_path):
    write_run(tmp_path / "a", "one")
    with pytest.raises(InputError, match=r"notes\.md"):
        write_run(tmp_path / "a", "two", beside=tmp_path / "a" / "notes.md")
    assert names(tmp_path / "a") == ["notes.md", "run.json", "summary.json"]
    assert (tmp_path / "a" / "summary.json").read_text() == "one"


KILLED = """
import os, signal, sys
from pathlib import Path
from dlrmsim.output.folders import file_written_whole, folder_written_whole
from dlrmsim.output.record import write_record

target, at = Path(sys.argv[1]), int(sys.argv[2])
for name in ("rename", "replace"):
    def cut(self, other, renamed=getattr(Path, name)):
        global at
        if not at:
            os.kill(os.getpid(), signal.SIGKILL)
        at -= 1
        return renamed(self, other)
    setattr(Path, name, cut)
if target.suffix == ".yaml":
    file_written_whole(target, "two")
with folder_written_whole(target) as folder:
    (folder / "summary.json").write_text("two")
    write_record(folder, {})
os.kill(os.getpid(), signal.SIGKILL)
"""
"""Writes an output and is killed before its rename of a number, or at the end."""

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="knows by /proc which processes live")


def kill(target: Path, at: int) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(target), str(at)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL


@on_linux
@pytest.mark.parametrize(("at", "text"), [(0, "one"), (1, "one"), (2, "two")])
def test_a_killed_replacement_is_ended_by_the_next_run(tmp_path, at, text):
    """Before both renames, between them, and after both, when only the older output remains to be removed."""
    write_run(tmp_path / "a", "one")
    kill(tmp_path / "a", at)
    assert len(names(tmp_path)) > 1 or at == 2
    write_run(tmp_path / "b")
    assert names(tmp_path) == ["a", "b"]
    assert (tmp_path / "a" / "summary.json").read_text() == text


@on_linux
@pytest.mark.parametrize("name", ["new", "x" * 200, "f.yaml", "ü [b]"])
def test_what_a_killed_run_left_goes_and_nothing_that_looks_like_it(tmp_path, name):
    kill(tmp_path / name, 0)
    (left,) = tmp_path.iterdir()
    like = left.name.replace(".partial-", ".partial-0")
    (tmp_path / like).write_text("mine")
    write_run(tmp_path / "a")
    assert names(tmp_path) == sorted([like, "a"])


@on_linux
def test_an_output_that_stood_aside_stays_if_something_else_has_its_name_by_now(tmp_path):
    write_run(tmp_path / "a", "one")
    kill(tmp_path / "a", 1)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "notes.md").write_text("mine")
    write_run(tmp_path / "b")
    (aside,) = [path for path in tmp_path.iterdir() if ".replaced-" in path.name]
    assert (aside / "a" / "summary.json").read_text() == "one"
    (tmp_path / "a" / "notes.md").unlink()
    (tmp_path / "a").rmdir()
    write_run(tmp_path / "b")
    assert (tmp_path / "a" / "summary.json").read_text() == "one"
    assert names(tmp_path) == ["a", "b"]


@on_linux
def test_what_a_living_run_is_writing_stays(tmp_path):
    with folder_written_whole(tmp_path / "a") as folder:
        write_run(tmp_path / "b")
        assert folder.is_dir()
        write_record(folder, {})
    assert names(tmp_path) == ["a", "b"]

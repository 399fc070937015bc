"""Files of captured jobs: a written job reads back, and an error names the key of a contradiction."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from inputs.errors import InputError
from tests.captured_jobs import small_job
from workloads.captured.job_file import packed, read_job, unpacked, write_job
from workloads.captured.records import Collective, RecordedJob

JOB = small_job()


def test_a_job_reads_back_from_its_file_its_folder_and_its_packed_text(tmp_path: Path) -> None:
    write_job(JOB, tmp_path / "job.json")
    assert read_job(tmp_path / "job.json") == read_job(tmp_path) == unpacked(packed(JOB)) == JOB
    first = (tmp_path / "job.json").read_bytes()
    write_job(read_job(tmp_path), tmp_path / "job.json")
    assert (tmp_path / "job.json").read_bytes() == first
    assert packed(read_job(tmp_path)) == packed(JOB)


def test_packed_text_is_one_line_and_shorter_than_the_file(tmp_path: Path) -> None:
    write_job(JOB, tmp_path / "job.json")
    assert "\n" not in packed(JOB)
    assert len(packed(JOB)) < (tmp_path / "job.json").stat().st_size


def changed(**parts: object) -> dict:
    return json.loads(msgspec.json.encode(JOB)) | parts


def with_task(number: int, place: int, value: object) -> dict:
    """The job with a part of a task changed, by its place in `RecordedTask`."""
    data = changed()
    task = data["programs"][0]["tasks"][number]
    task[place:] = [*task[place:], *[[], [], 1][len(task) - 5 :]]
    task[place] = value
    return data


def with_program(**parts: object) -> dict:
    data = changed()
    data["programs"][0].update(parts)
    return data


def with_memory(**parts: object) -> dict:
    data = changed()
    data["programs"][0]["memory"].update(parts)
    return data


def with_call(of: str, /, **parts: object) -> dict:
    """The job with the first collective of an operation changed."""
    data = changed()
    next(work for work in data["works"] if work.get("op") == of).update(parts)
    return data


WORKS, TASKS = len(JOB.works), len(JOB.programs[0].tasks)
SUM = next(number for number, work in enumerate(JOB.works) if isinstance(work, Collective) and work.op == "all_reduce")
SUMMED = f"programs[0].tasks[{[task.work for task in JOB.programs[0].tasks].index(SUM)}].work"
TWO = [{**changed()["programs"][0], "ranks": ranks, "captured": []} for ranks in ([0, 1], [1, 2, 3])]
WRONG: dict[str, tuple[dict, str, str]] = {
    "operator": (with_task(0, 0, 99), "programs[0].tasks[0].operator", f"0 to {len(JOB.operators) - 1}"),
    "work": (with_task(1, 1, WORKS), "programs[0].tasks[1].work", f"0 to {WORKS - 1}"),
    "module": (with_task(2, 2, 99), "programs[0].tasks[2].module", f"0 to {len(JOB.modules) - 1}"),
    "section": (with_task(3, 3, 99), "programs[0].tasks[3].section", f"0 to {len(JOB.sections) - 1}"),
    "stream": (with_task(3, 4, 2), "programs[0].tasks[3].stream", "0 to 1"),
    "after itself": (with_task(3, 5, [3]), "programs[0].tasks[3].after", "a number below 3"),
    "after, first": (with_task(0, 5, [0]), "programs[0].tasks[0].after", "it is the first task"),
    "after a stream": (with_task(3, 6, [5]), "programs[0].tasks[3].after_streams", "0 to 1"),
    "rank left out": (with_program(ranks=[0, 1, 2]), "programs", "each rank in one"),
    "rank twice": (changed(programs=TWO), "programs[1].ranks", "each rank in one"),
    "no such rank": (with_program(ranks=[0, 1, 2, 4]), "programs[0].ranks", "0 to 3"),
    "order of ranks": (with_program(ranks=[1, 0, 2, 3]), "programs[0].ranks", "more than 1"),
    "no ranks": (with_program(ranks=[]), "programs[0].ranks", "ranks, ascending"),
    "captured": (with_program(captured=[7]), "programs[0].captured", "some of ranks"),
    "streams": (with_program(streams=["a", "a"]), "programs[0].streams", "a name of its own"),
    "member": (changed(communicators={"world": [[0, 1, 2, 3, 4]]}), "communicators.world[0]", "0 to 3"),
    "member twice": (changed(communicators={"world": [[0, 1], [1, 2, 3]]}), "communicators.world[1]", "at most once"),
    "no members": (changed(communicators={"world": [[]]}), "communicators.world[0]", "ranks"),
    "stranger": (changed(communicators={"world": [[0, 1, 2]]}), "programs[0].tasks[2].work", "members of world"),
    "communicator": (with_call("all_reduce", communicator="word"), SUMMED, "one of world"),
    "parts": (with_call("all_to_all", sent=[0.5, 0.5]), "programs[0].tasks[2].work", "4 fractions"),
    "sum of parts": (with_call("all_to_all", sent=[0.5] * 4), "programs[0].tasks[2].work", "add up to 1"),
    "parts of a sum": (with_call("all_reduce", sent=[0.25] * 4), SUMMED, "only with all_to_all"),
    "root": (with_call("all_reduce", root=4), SUMMED, "0 to 3"),
    "send": (with_call("all_reduce", op="send"), SUMMED, "receiver less sender"),
    "peak": (with_memory(task=TASKS), "programs[0].memory.task", f"0 to {TASKS - 1}"),
    "samples": (with_memory(bytes={"gradients": [1.0]}), "programs[0].memory.bytes.gradients", "3, one for each"),
    "order of samples": (with_memory(tasks=[3, 2, 4]), "programs[0].memory.tasks", "3 or more"),
    "type": (changed(world_size="4"), "world_size", "a whole number"),
    "type of a task": (with_task(4, 1, -1), "programs[0].tasks[4][1]", ">= 0"),
    "name of a type": (with_call("all_reduce", dtype="fp31"), f"works[{SUM}].dtype", "one of"),
    "format": (changed(format="something else"), "format", "dlrmsim captured job"),
    "unknown key": (changed(extra=1), "", ""),
}


@pytest.mark.parametrize("name", WRONG)
def test_whatever_is_wrong_is_named_with_file_and_key(tmp_path: Path, name: str) -> None:
    data, key, expected = WRONG[name]
    file = tmp_path / "job.json"
    file.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(InputError) as found:
        read_job(file)
    error = found.value
    assert str(error.file) == str(file)
    assert (error.key or "") == key
    assert expected in (error.expected or "")


def test_a_communicator_that_is_misspelt_has_a_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(json.dumps(WRONG["communicator"][0]), encoding="utf-8")
    with pytest.raises(InputError, match="did you mean 'world'"):
        read_job(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b"null"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "job.json").write_bytes(content)
    with pytest.raises(InputError):
        read_job(tmp_path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such job"):
        read_job(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    "text", ["", "nothing", "aGVsbG8=", packed(JOB)[:-40], packed(JOB)[: len(packed(JOB)) // 8 * 4]]
)
def test_text_that_is_no_packed_job_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        unpacked(text)


def test_nothing_wrong_is_written(tmp_path: Path) -> None:
    wrong = msgspec.convert(WRONG["work"][0], RecordedJob)
    with pytest.raises(InputError):
        write_job(wrong, tmp_path / "job.json")
    assert not (tmp_path / "job.json").exists()

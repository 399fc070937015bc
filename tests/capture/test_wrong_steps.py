"""Wrong input of ``capture``: one message with the line of the user's file, exit code 2, and nothing written."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dlrmsim
from dlrmsim.cli import main
from inputs.errors import InputError
from tests.captured_steps import captured, rank_of
from tests.waiting import soon

WRONG = Path(__file__).parent / "wrong_steps.py"
LINES = WRONG.read_text(encoding="utf-8").splitlines()

VALUES = "the step depends on values of a tensor"
MESSAGES = {
    "returns_none": "returns no step",
    "returns_number": "returns no step",
    "other_parameters": "the function has other parameters",
    "step_needs_batch": "the step has other parameters",
    "starts_nothing": "starts nothing",
    "loads": "reads data",
    "iterates": "reads data",
    "item": VALUES,
    "branch": VALUES,
    "nonzero": VALUES,
    "mask": VALUES,
    "unique": VALUES,
    "numpy": "reads values",
    "formatted": "reads values",
    "custom": "an operator without an implementation",
    "objects": "does not run this function",
    "begins_group": "does not run this function",
    "wraps_fsdp1": "does not know this wrapper",
    "wraps_sparse": "cannot sum sparse gradients",
    "raises": "failed with ValueError",
    "exits": "ends Python",
    "wrong_shapes": "failed with RuntimeError",
    "uneven": "ranks 0 and 1 call different collectives",
    "other_call": "ranks 0 and 1 call different collectives",
    "other_size": "ranks 0 and 1 call different collectives",
    "unsent": "are not sent",
    "odd_samples": "samples of a step",
}


def line_and_given(function: str) -> tuple[int | None, str]:
    """Line of the comment ``given: ...`` in a function, and its words; None where it has none."""
    first = next(n for n, line in enumerate(LINES) if line.startswith((f"def {function}(", f"{function} = ")))
    for number in range(first, len(LINES)):
        if number > first and LINES[number].startswith(("def ", "@")):
            break
        if "# given: " in LINES[number]:
            return number + 1, LINES[number].rpartition("# given: ")[2]
        if " = " in LINES[first]:
            break
    return None, ""


@pytest.mark.parametrize("function", [*MESSAGES])
def test_a_wrong_function_is_refused_at_its_line(function: str) -> None:
    with pytest.raises(InputError) as caught:
        captured(function, 4, file=WRONG, ranks=(0, 1, 2, 3) if function in ("uneven", "unsent") else None)
    error = caught.value
    line, given = line_and_given(function)
    assert MESSAGES[function] in error.message
    assert str(error.file) == str(WRONG)
    assert error.expected or function in ("raises", "wrong_shapes")
    if line is not None and function != "unique":  # which is PyTorch's own function
        assert error.line == line
        assert given in f"{error.given} {error.message} {LINES[line - 1].partition('#')[0]}"


def test_the_same_file_has_a_right_function() -> None:
    assert rank_of(captured("good", 4, file=WRONG)).tasks


def test_an_unknown_function_has_the_nearest_one() -> None:
    with pytest.raises(InputError) as caught:
        captured("returns_nune", 4, file=WRONG)
    assert caught.value.nearest == "returns_none"
    assert "starts_nothing" in (caught.value.expected or "")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("def f(:\n", 1, "no Python"),
        ("import torch\nimport no_such_package\n", 2, "no such package: No module named 'no_such_package'"),
        ("x = 1\n1 / 0\n", 2, "ZeroDivisionError"),
        ("x = 1\n", None, "no such function"),
    ],
)
def test_a_file_that_cannot_be_imported_is_refused(tmp_path: Path, text: str, line: int | None, words: str) -> None:
    file = tmp_path / "step.py"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        captured("training_step", 2, file=file)
    assert words in caught.value.message
    assert caught.value.line == line


OPTIONS = {
    "--cluster dgx_h10": ("unknown cluster", "dgx_h100"),
    "--indices zipf(99)": ("no such exponent", ""),
    "--fuse elemntwise": ("unknown value", "elementwise"),
    "--ranks 1": ("rank 0 is missing", ""),
    "--ranks 0,9": ("no such rank", "0 to 3"),
    "--ranks some": ("not a list of ranks", ""),
    "--samples 0": ("--samples", ""),
}


@pytest.mark.parametrize("option", [*OPTIONS])
def test_a_wrong_option_is_refused_before_anything_is_captured(option: str, tmp_path: Path, capsys) -> None:
    words, near = OPTIONS[option]
    out = tmp_path / "job"
    assert main(["capture", f"{WRONG}:good", "--world-size", "4", "--out", str(out), *option.split(" ")]) == 2
    printed = capsys.readouterr().err
    assert words in printed
    assert near in printed
    assert not out.exists()


def test_no_rank_is_refused(capsys) -> None:
    assert main(["capture", f"{WRONG}:good", "--world-size", "0"]) == 2
    assert "--world-size" in capsys.readouterr().err


def test_a_missing_file_has_the_nearest_one(capsys) -> None:
    assert main(["capture", str(WRONG.parent / "wrong_stps.py"), "--world-size", "2"]) == 2
    printed = capsys.readouterr().err
    assert "no such file" in printed
    assert "wrong_steps.py" in printed


def test_a_folder_of_other_files_is_kept(tmp_path: Path, capsys) -> None:
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    assert main(["capture", f"{WRONG}:good", "--world-size", "2", "--out", str(tmp_path)]) == 2
    assert "holds files that dlrmsim did not write" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_the_command_prints_a_message_and_writes_nothing(tmp_path: Path, capsys) -> None:
    out = tmp_path / "job"
    assert main(["capture", f"{WRONG}:item", "--world-size", "2", "--out", str(out)]) == 2
    printed = capsys.readouterr().err
    line, _ = line_and_given("item")
    assert f"{WRONG}:{line}: " in printed
    assert ".item()" in printed
    assert "torch.where" in printed
    assert not out.exists()


def test_an_example_is_captured_by_name_and_runs(tmp_path: Path) -> None:
    done = dlrmsim.capture("dcnv2_ddp", world_size=16, ranks=(0,), cluster="dgx_a100_80", out=tmp_path / "job")
    assert done.job.source == "dcnv2_ddp.py:training_step"
    result = dlrmsim.run(done.folder, report=False, out=tmp_path / "run")
    assert result.iteration_time_s > 0.0


SLOW = """
import time
def training_step(rank, world_size):
    open(f"started{rank}", "w").close()
    time.sleep(600)
"""


def alive(folder: Path) -> list[str]:
    """Processes that run in a folder."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                if (process / "cwd").readlink() == folder:
                    found.append(process.name)
            except OSError:  # it has ended, or is someone else's
                continue
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_capture_leaves_no_process(tmp_path: Path, sent: int) -> None:
    (tmp_path / "slow.py").write_text(SLOW, encoding="utf-8")
    command = [sys.executable, "-m", "dlrmsim", "capture", "slow.py", "--world-size", "4", "--out", "job"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        assert soon((tmp_path / "started0").exists, 120.0)
        process.send_signal(sent)
        assert process.wait() in (130, -signal.SIGKILL)
    assert soon(lambda: alive(tmp_path) == [], 30.0)
    assert not (tmp_path / "job").exists()

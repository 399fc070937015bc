"""Verdicts: accepted, refused well, or a failure with its place."""

from __future__ import annotations

import json
import math
import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.robustness.forks import PACKAGES, Ended

ACCEPTED, REFUSED = "accepted", "refused well"
INPUT, INFEASIBLE, ABOVE = 2, 3, 4
"""Exit codes of wrong input, of a job that does not fit, and of `validate --fail-above`."""
TIMES = frozenset({"iteration_time_s", "predicted", "time", "time_us", "time_s", "throughput_samples_per_s"})
"""Keys of JSON output that hold times or rates, which are positive."""
OURS = re.compile(rf'File "[^"]*/((?:{"|".join(PACKAGES)})/[^"]+)", line \d+, in (\S+)')
"""A frame of ours in a traceback: file and function."""
EXPECTATION = re.compile(
    r"expected |did you mean|lists the options|is missing|has no |is no |not valid YAML|cut off|broken|ends inside"
    r"|is empty|two \w+ have|of another|disagree|twice|exists|fits? ",
    re.IGNORECASE,
)
"""Words by which a message says what is expected, or what is missing or in conflict."""
VALUES = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\([^)]*\)|\[[^\]]*\]|\S*[/.:]\S+|\d[\w.+-]*")
"""Parts of a message that differ from case to case."""
MOST_MESSAGE = 1200
"""Characters of a line of a message."""
TEMPORARY = (".partial-", ".replaced-")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Judgement of a command on a mutated file.

    Attributes:
        failure: kind of the failure, or ``accepted`` or ``refused well``.
        place: function that raised, or the message without its values; failures with the same place are one group.
        detail: last line of the output.
    """

    failure: str
    place: str = ""
    detail: str = ""

    @property
    def failed(self) -> bool:
        """Whether it is a failure."""
        return self.failure not in (ACCEPTED, REFUSED)


def judge(ended: Ended, names: Sequence[str]) -> Verdict:
    """Verdict on a command.

    Args:
        names: names that a message may have: the file that the command read, or its arguments.
    """
    lines = ended.err.strip().splitlines()
    last = lines[-1] if lines else ""
    if ended.code in (-signal.SIGXCPU, -signal.SIGKILL, -signal.SIGALRM, -signal.SIGXFSZ) or "MemoryError" in ended.err:
        return Verdict("over the limits", f"{_place(ended.err) or 'ended'} {_limit(ended)}", last)
    if ended.code not in (0, INPUT, INFEASIBLE, ABOVE):
        return Verdict(f"exit {ended.code}", _place(ended.err) or last, _raised(lines))
    left = sorted(name for name in ended.new if ended.code in (INPUT, INFEASIBLE) or any(t in name for t in TEMPORARY))
    if left:
        return Verdict("file left behind", left[0], last)
    if ended.lost:
        return Verdict("file lost", min(ended.lost), last)
    if ended.code in (INPUT, INFEASIBLE):
        return _judge_message(ended, lines, names)
    return _judge_times(ended)


def _limit(ended: Ended) -> str:
    names = {-signal.SIGXCPU: "CPU time", -signal.SIGKILL: "CPU time", -signal.SIGALRM: "wall time"}
    return "memory" if "MemoryError" in ended.err else names.get(signal.Signals(-ended.code) * -1, "file size")


def _place(text: str) -> str:
    """The innermost function of ours in a traceback."""
    found = OURS.findall(text)
    return f"{found[-1][0]}:{found[-1][1]}" if found else ""


def _raised(lines: list[str]) -> str:
    """The line of a traceback that names the exception."""
    return next((line for line in reversed(lines) if re.match(r"^[\w.]+(Error|Exception|Warning)\b", line)), "")


def _judge_message(ended: Ended, lines: list[str], names: Sequence[str]) -> Verdict:
    """A message names a file, an option or an argument, and what is expected; it has no control characters."""
    shown = "\n".join(lines)
    first = lines[0] if lines else ""
    place = _without_values(first)
    if not first.startswith("dlrmsim: "):
        return Verdict("no message", place, first)
    if any(not (c.isprintable() or c == "\n") for c in shown) or len(first) > MOST_MESSAGE:
        return Verdict("message is raw or long", place, first)
    if ended.code == INFEASIBLE:
        return Verdict(REFUSED)
    if not any(name in shown for name in names) and not re.search(r"--\w|\.(yaml|csv|json|gz)\b|/", first):
        return Verdict("message without file", place, first)
    if not EXPECTATION.search(shown):
        return Verdict("message without expected", place, first)
    return Verdict(REFUSED)


def _without_values(message: str) -> str:
    """A message without names, numbers and quoted values."""
    return VALUES.sub("_", message.removeprefix("dlrmsim: "))[:90]


def _judge_times(ended: Ended) -> Verdict:
    """Numbers of JSON output are finite, times positive."""
    if "{" not in ended.out:
        return Verdict(ACCEPTED)
    try:
        found = json.loads(ended.out[ended.out.index("{") :])
    except ValueError:
        return Verdict(ACCEPTED)
    for place, value in _numbers(found):
        key = place.rpartition(".")[2]
        positive = key in TIMES and not (key == "predicted" and value == 0.0)  # a class whose costs are all 0
        if not math.isfinite(value) or (positive and value <= 0.0):
            return Verdict("time not finite and positive", re.sub(r"\d+", "N", place), f"{place} = {value}")
    return Verdict(ACCEPTED)


def _numbers(part: Any, place: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(part, dict):
        for key, inner in part.items():
            yield from _numbers(inner, f"{place}.{key}")
    elif isinstance(part, list):
        for number, inner in enumerate(part):
            yield from _numbers(inner, f"{place}.{number}")
    elif isinstance(part, int | float) and not isinstance(part, bool):
        yield place, part

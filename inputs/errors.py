"""The exception tree.

    DlrmsimError                any error this tool raises on purpose; `exit_code` is what the command returns
      InputError          (2)   what the user wrote is wrong: file, line, key, given, expected, nearest name
        ProgramError      (2)   a task graph contradicts itself (members of a collective disagree...)
        MissingExtraError (2)   an optional dependency is not installed
      DeadlockError       (2)   nothing can go on, tasks are waiting
      InfeasibleError     (3)   it does not fit: out of memory on a rank, or too large for this machine
        WorkerDiedError   (3)   the system ended a worker process; finished results are kept
      ModelRangeError     (1)   a model was asked outside what its arithmetic can represent
      RankFailedError     (1)   a process of the reference trainer died; all others were ended

The command line prints the message of any of them, never a traceback.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

from inputs.given import cut, printable, shown

MAX_NAME = 100
"""Characters of a wrong name that are compared with known ones."""
MAX_KEY = 200
"""Characters of a key that a message shows."""
MAX_MESSAGE = 800
"""Characters of the words of a message, which may repeat some of the input."""
MAX_FILE = 500
"""Characters of a path that a message shows."""
MAX_PROBLEMS = 20
"""Maximum number of problems of one input in a message."""


class DlrmsimError(Exception):
    """Base of all errors raised on purpose."""

    exit_code = 1


class InputError(DlrmsimError):
    """The user's input is wrong; the message has the place, the given value and the expected ones."""

    exit_code = 2

    def __init__(
        self,
        message: str,
        *,
        file: str | Path | None = None,
        line: int | None = None,
        key: str | None = None,
        given: object = None,
        expected: str | None = None,
        nearest: str | None = None,
        others: Sequence[InputError] = (),
    ) -> None:
        """Store the parts of the message. ``others``: further problems of the same input."""
        super().__init__(message)
        self.message, self.file, self.line, self.key = message, file, line, key
        self.given, self.expected, self.nearest, self.others = given, expected, nearest, tuple(others)

    def __str__(self) -> str:
        """A line for each problem: ``file:line: key: message; given ..., expected ...; did you mean ...?``."""
        left_out = len(self.others) + 1 - MAX_PROBLEMS
        more = [f"and {left_out} more problem{'s' if left_out > 1 else ''}"] if left_out > 0 else []
        return "\n".join([self._line(), *map(str, self.others[: MAX_PROBLEMS - 1]), *more])

    def _line(self) -> str:
        """The line of this problem."""
        where = cut(str(self.file), MAX_FILE) if self.file is not None else ""
        if self.line is not None:
            where += f":{self.line}"
        said = cut(self.message, MAX_MESSAGE)
        head = ": ".join(part for part in (where, cut(self.key or "", MAX_KEY), said) if part)
        tail = [
            f"given {shown(self.given)!r}" if self.given is not None else "",
            f"expected {self.expected}" if self.expected else "",
            f"did you mean {self.nearest!r}?" if self.nearest else "",
        ]
        return printable("; ".join([head, *(part for part in tail if part)]))


class ProgramError(InputError):
    """A task graph contradicts itself."""


class MissingExtraError(InputError):
    """An optional dependency is not installed; the message has the pip command."""


class DeadlockError(DlrmsimError):
    """Nothing can go on and tasks are waiting; the message names each waiting instance."""

    exit_code = 2


class InfeasibleError(DlrmsimError):
    """The job does not fit: the message has the numbers."""

    exit_code = 3

    def __init__(self, message: str, *, remedies: Iterable[Sequence[str]] = ()) -> None:
        """Store the message. ``remedies``: ``KEY=VALUE`` settings, tried, with which the job fits."""
        super().__init__(message)
        self.remedies = tuple(tuple(settings) for settings in remedies)


class WorkerDiedError(InfeasibleError):
    """The system ended a worker process, most often because the memory was full."""


class ModelRangeError(DlrmsimError):
    """A model was asked outside the range its arithmetic represents."""


class RankFailedError(DlrmsimError):
    """A rank of the reference trainer died; the message has its number and its error."""


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """The known name closest to ``name``, or None when nothing is close; case, ``-`` and blanks count little."""
    known = {_folded(candidate): candidate for candidate in names}
    matches = get_close_matches(_folded(name)[:MAX_NAME], known, n=1, cutoff=0.5)
    return known[matches[0]] if matches else None


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: ``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def _folded(name: str) -> str:
    return name.strip().casefold().replace("-", "_").replace(" ", "_")

"""Finished results of a long piece of work, kept until all of it is written: a killed one goes on where it was.

They are lines of JSON in ``.NAME.kept.jsonl`` beside the output NAME, which goes when the work is done. A line is
written when its result is there, and is on the disk before the next one; a torn last line counts for nothing. A line
is taken over by work with the same question (scenario hash and settings) and the same version: of this tool's files, of
Python and of the libraries.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import dlrmsim
from dlrmsim.output.environment import environment
from inputs.errors import InfeasibleError, InputError, WorkerDiedError
from scenarios.mapping import Item, Map, Result
from scenarios.progress import Progress, Silent

ROOMS = (
    "dlrmsim", "hardware_specs", "inputs", "reports", "scenarios", "simulator", "traces", "trainer", "validation",
    "workloads",
)  # fmt: skip
"""Folders of this tool's own files, side by side."""


@dataclass(slots=True)
class Kept:
    """Results by question; a `scenarios.mapping.Keep`.

    Attributes:
        path: their file; it exists from the first result on.
        taken_over: number of results of an interrupted run that were asked for.
    """

    path: Path
    taken_over: int = 0
    _known: dict[str, Any] = field(default_factory=dict)
    _asked: set[str] = field(default_factory=set)
    _descriptor: int | None = None
    _created: list[Path] = field(default_factory=list)
    _writable: bool = True

    def __post_init__(self) -> None:
        with suppress(OSError):
            for line in self.path.read_bytes().split(b"\n"):
                with suppress(ValueError, KeyError, TypeError, RecursionError):  # torn, or foreign
                    entry = json.loads(line)
                    self._known[entry["question"]] = entry["result"]

    def __call__(self, question: str, work: Callable[[], Any], /) -> Any:
        """The kept result of a question, or that of ``work``, which is kept."""
        return self.found(question) if self.knows(question) else self.add(question, work())

    def knows(self, question: str) -> bool:
        """Whether a question has a result."""
        return _digest(question) in self._known

    def found(self, question: str) -> Any:
        """The kept result of a question, which counts as taken over if it is from an interrupted run."""
        key = _digest(question)
        if key not in self._asked:
            self._asked.add(key)
            self.taken_over += 1
        return self._known[key]

    def add(self, question: str, result: Any) -> Any:
        """Keep a result; returns it as it will be read back, so that both runs go on with the same."""
        key = _digest(question)
        line = json.dumps({"question": key, "result": result}, ensure_ascii=True, separators=(",", ":"))
        self._append(line.encode("ascii"))
        self._asked.add(key)  # before the disk has it: an interrupt finds the number of lines in the file
        self._known[key] = json.loads(line)["result"]
        self._wait_for_disk()
        return self._known[key]

    @property
    def count(self) -> int:
        """Number of results of this piece of work that its file has."""
        return len(self._asked) if self._writable else 0

    def mapped(self, run_all: Map, to_json: Callable[[Any], Any], from_json: Callable[[Any], Any]) -> Map:
        """A `Map` that has kept results first, and runs and keeps the others.

        Args:
            run_all: runs the others. Items have their question as ``question``.
            to_json: turns a result into JSON.
            from_json: turns it back.
        """
        return _KeptMap(self, run_all, to_json, from_json)

    def shown(self, progress: Progress | None) -> Progress:
        """Progress that says how many results were taken over."""
        return _Remark(progress or Silent(), self)

    def remove(self) -> None:
        """Remove the file: all of the work is written."""
        self.close()
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
            for folder in self._created:
                folder.rmdir()

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _append(self, line: bytes) -> None:
        """Write a line; where that fails nothing more is kept, and the work goes on."""
        if not self._writable:
            return
        try:
            if self._descriptor is None:
                self._open()
            written = os.write(self._descriptor or 0, line + b"\n")
            self._writable = written == len(line) + 1
        except OSError:
            self._writable = False

    def _wait_for_disk(self) -> None:
        """Wait until the disk has all lines; where it fails nothing more is kept."""
        if self._writable and self._descriptor is not None:
            try:
                os.fsync(self._descriptor)
            except OSError:
                self._writable = False

    def _open(self) -> None:
        """Open the file for lines to come; a torn last line is ended."""
        folder = self.path.parent
        self._created = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        if self.path.stat().st_size:
            os.write(self._descriptor, b"\n")


@contextmanager
def kept_results(output: Path, *, fresh: bool = False) -> Iterator[Kept]:
    """Yield the kept results of a piece of work; they go when the block has written its output.

    Whatever ends the block early leaves them for the same work to go on with; an interrupt says so in a note. Only a
    refusal of the input leaves nothing that was not there before: the same command would be refused again.

    Args:
        output: folder or file that the block writes; an absolute path's or a relative one's name counts.
        fresh: whether to forget results of an interrupted run.
    """
    kept = Kept(output.with_name(f".{output.name}.kept.jsonl"))
    if fresh:
        kept.remove()
        kept = Kept(kept.path)
    is_new = not kept.path.exists()
    try:
        yield kept
    except (InputError, InfeasibleError) as error:
        if is_new and not isinstance(error, WorkerDiedError):
            kept.remove()
        raise
    except KeyboardInterrupt as interrupt:
        if kept.count:
            plural = "s are" if kept.count > 1 else " is"
            interrupt.add_note(f"{kept.count} finished result{plural} kept: the same command goes on from there")
        raise
    else:
        kept.remove()
    finally:
        kept.close()


@dataclass(frozen=True, slots=True)
class _KeptMap:
    """A `Map` with memory; see `Kept.mapped`."""

    kept: Kept
    run_all: Map
    to_json: Callable[[Any], Any]
    from_json: Callable[[Any], Any]

    def __call__(self, function: Callable[[Item], Result], items: Sequence[Item], /) -> Iterator[tuple[int, Result]]:
        questions = [_question(item) for item in items]
        left = [number for number, question in enumerate(questions) if not self.kept.knows(question)]
        for number in sorted(set(range(len(items))) - set(left)):
            yield number, self.from_json(self.kept.found(questions[number]))
        if left:
            for position, result in self.run_all(function, [items[number] for number in left]):
                number = left[position]
                yield number, self.from_json(self.kept.add(questions[number], self.to_json(result)))


def _question(item: Any) -> str:
    return str(item.question)


@dataclass(frozen=True, slots=True)
class _Remark:
    """Progress with a remark on what was taken over."""

    progress: Progress
    kept: Kept

    def stage(self, description: str, done: int | None = None, total: int | None = None) -> None:
        """Show the stage."""
        over = self.kept.taken_over
        self.progress.stage(f"{description}, {over} taken over" if over else description, done, total)


def _digest(question: str) -> str:
    return hashlib.sha256(f"{_version()}\n{question}".encode()).hexdigest()


@cache
def _version() -> str:
    """Text that changes with this tool's files, Python or a library."""
    root = Path(dlrmsim.__file__).parents[1]
    files = [
        f"{path.relative_to(root)} {(status := path.stat()).st_size} {status.st_mtime_ns}"
        for room in ROOMS
        for path in sorted((root / room).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    ]
    return "\n".join([str(environment()["libraries"]), platform.python_version(), *files])

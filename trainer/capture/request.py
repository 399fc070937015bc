"""A request to capture a step: read by the process that does it. Needs no PyTorch."""

from __future__ import annotations

from pathlib import Path

import msgspec

from inputs.errors import InputError

DEFAULT_FUNCTION = "training_step"
"""Function of the user's file, where none is named."""


class CaptureRequest(msgspec.Struct, frozen=True):
    """A capture to be made.

    Attributes:
        path: place of the user's Python file.
        function: called as ``function(rank, world_size)``; returns a step without arguments.
        ranks: ranks that are captured; None: as many as differ.
        samples_per_rank: samples of a step on each rank; None: the attribute ``samples`` of the step, if it has one.
        name: name that the job will have.
    """

    path: str
    function: str
    world_size: int
    ranks: tuple[int, ...] | None
    samples_per_rank: int | None
    name: str

    @property
    def file(self) -> Path:
        """The user's Python file."""
        return Path(self.path)


class Refusal(msgspec.Struct, frozen=True):
    """Parts of an `inputs.errors.InputError` that crosses a process boundary."""

    message: str
    file: str | None = None
    line: int | None = None
    key: str | None = None
    given: str | None = None
    expected: str | None = None
    nearest: str | None = None

    @classmethod
    def of(cls, error: InputError) -> Refusal:
        """The parts of an error."""
        return cls(
            error.message,
            None if error.file is None else str(error.file),
            error.line,
            error.key,
            None if error.given is None else str(error.given),
            error.expected,
            error.nearest,
        )

    def error(self) -> InputError:
        """The error of these parts."""
        parts = {name: getattr(self, name) for name in ("file", "line", "key", "given", "expected", "nearest")}
        return InputError(self.message, **parts)


JOB, REFUSAL = "job.json", "refusal.json"
"""Files that the capturing process writes: one of the two."""

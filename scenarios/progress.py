"""Progress of long work, for any display."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives the stages of a piece of work."""

    def stage(self, description: str, done: int | None = None, total: int | None = None) -> None:
        """The work is at ``description`` now, ``done`` of ``total`` when that is known."""
        ...


class Silent:
    """Shows nothing."""

    def stage(self, description: str, done: int | None = None, total: int | None = None) -> None:
        """Ignore the stage."""

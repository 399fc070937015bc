"""A progress line on stderr for work that takes over a second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Timer

from scenarios.progress import Progress, Silent

SHOWN_AFTER_S = 1.0


@contextmanager
def progress_display() -> Iterator[Progress]:
    """Yield the receiver of stages; drawn from the first second on, when stderr is a terminal, and then wiped."""
    import sys

    if not sys.stderr.isatty():
        yield Silent()
        return
    display = _RichDisplay()
    timer = Timer(SHOWN_AFTER_S, display.start)
    timer.daemon = True
    timer.start()
    try:
        yield display
    finally:
        timer.cancel()
        timer.join()
        with suppress(OSError):  # the terminal may have gone
            display.stop()


class _RichDisplay:
    """Draws stages with rich; loaded only when a terminal is there to draw on."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        from dlrmsim.cli.plain_console import PlainConsole

        columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), TimeElapsedColumn())
        self._progress = RichProgress(*columns, console=PlainConsole(stderr=True), transient=True)
        self._task = self._progress.add_task("loading", total=None)

    def stage(self, description: str, done: int | None = None, total: int | None = None) -> None:
        """Show the stage, and its progress when that is known."""
        self._progress.update(self._task, description=description, completed=done or 0, total=total)

    def start(self) -> None:
        self._progress.start()

    def stop(self) -> None:
        self._progress.stop()

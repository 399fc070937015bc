"""A rich console in which text is text, whatever characters it holds."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console

from inputs.given import printable

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderableType
    from rich.segment import Segment


class PlainConsole(Console):
    """Console whose text has no markup, and whose controls and colours are its own."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        """Write to stdout or to ``stderr``; ``width``: columns, those of the terminal by default."""
        super().__init__(highlight=False, markup=False, emoji=False, stderr=stderr, width=width)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of what is printed; controls that its text holds become escapes."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text, keep="\n"))

    def on_broken_pipe(self) -> None:
        """Leave a reader that has gone to `dlrmsim.cli.main`, as without rich.

        Raises:
            BrokenPipeError: always; it is the one being handled.
        """
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

"""Any terminal, pipe or file as the output: nothing that a name holds is obeyed, and no character is refused."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from collections.abc import Mapping

import typer

from inputs.errors import MAX_FILE
from inputs.given import cut, printable

REFUSED = 2
"""Exit code when the system refuses a file or the output: a full disk, a name that is too long."""
READER_GONE = 1
"""Exit code when the reader of a pipe has ended, as ``head`` does."""
_PLAIN: Mapping[str, str] = {
    "\N{MICRO SIGN}": "u", "\N{GREEK SMALL LETTER MU}": "u", "\N{FULL BLOCK}": "#", "\N{MULTIPLICATION SIGN}": "x",
    "\N{HORIZONTAL ELLIPSIS}": "...", "\N{EN DASH}": "-", "\N{EM DASH}": "-", "\N{BOX DRAWINGS LIGHT HORIZONTAL}": "-",
}  # fmt: skip
"""Characters of our output -> text for terminals that do not have them; others become their escapes."""
_HANDLER = "dlrmsim.plain"
_LOST = frozenset({errno.ENOSPC, errno.EPIPE, errno.EIO, errno.EDQUOT, errno.EFBIG})
"""Errors of writing to an open file, which have no name of it."""


def _plainly(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(_PLAIN.get(c) or c.encode("unicode_escape").decode("ascii") for c in lost), error.end


def prepare_output() -> None:
    """Let stdout and stderr write what they can for characters that they do not have."""
    codecs.register_error(_HANDLER, _plainly)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def print_line(text: str) -> None:
    """Print a line on stdout."""
    typer.echo(printable(text))


def say(text: str) -> None:
    """Print lines on stderr; where that cannot be written nobody reads."""
    try:
        typer.echo(printable(text, keep="\n"), err=True)
    except OSError:
        return


def flush_output() -> None:
    """Write the rest of stdout.

    Raises:
        OSError: it cannot be written.
    """
    if sys.stdout is not None and not sys.stdout.closed:
        sys.stdout.flush()


def output_lost(error: OSError) -> int:
    """Report that stdout cannot be written and return the exit code; silent where its reader has gone."""
    _forget_stdout()
    if isinstance(error, BrokenPipeError):
        return READER_GONE
    say(f"dlrmsim: the output cannot be written: {error.strerror or error}; expected a place with room")
    return REFUSED


def file_refused(error: OSError) -> int:
    """Report a file that the system refuses and return the exit code."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    name = cut(os.fsdecode(error.filename), MAX_FILE)
    say(f"dlrmsim: {name}: cannot be read or written: {reason}; expected another name or place")
    return REFUSED


def is_about_a_file(error: OSError) -> bool:
    """Whether the system refuses a file that the user names: no such one, no room, a name that is too long."""
    return isinstance(error.filename, str | bytes) and error.errno is not None


def is_about_output(error: OSError) -> bool:
    """Whether stdout cannot be written."""
    return isinstance(error, BrokenPipeError) or (error.filename is None and error.errno in _LOST)


def _forget_stdout() -> None:
    """Let Python's flush at exit write nowhere."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return

"""``dlrmsim show``: the file behind a name, byte for byte."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from dlrmsim.cli.terminal import say


def show(
    name: Annotated[str, typer.Argument(help="A name that `list` prints, or KIND/NAME where a name stands twice.")],
) -> None:
    """Print the file that a name stands for, as it is."""
    from dlrmsim import catalogs

    found = catalogs.shipped_file(name)
    if found.others:
        say(f"dlrmsim: this is {found.key}; {name!r} is also {', '.join(found.others)}")
    sys.stdout.buffer.write(found.path.read_bytes())
    sys.stdout.buffer.flush()

"""A group of commands: its help is plain text, and an interrupt keeps its notes."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

MISUSED = 2
"""Exit code of a wrong command line."""


class CommandGroup(TyperGroup):
    """Commands by name. Help comes without rich, which takes longer to import than all commands together."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; without any, print the help and leave with the exit code of wrong usage."""
        if not args:
            typer.echo(ctx.get_help())
            raise typer.Exit(MISUSED)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> object:
        """Run the command; an interrupt of it is the cause of `typer.Abort`, which would drop its notes."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise typer.Abort from interrupt

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each command with the whole first paragraph of its help."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        about = [(name, _first_paragraph(command.help or "")) for name, command in found if command is not None]
        if about:
            with formatter.section("Commands"):
                formatter.write_dl(about)


def _first_paragraph(text: str) -> str:
    return " ".join(text.strip().split("\n\n", 1)[0].split())

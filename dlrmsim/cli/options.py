"""Arguments and options of several commands, and the refusal of options that have no effect in a mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

import typer

from dlrmsim.cli.terminal import say
from inputs.errors import InputError

Scenario: TypeAlias = Annotated[
    str,
    typer.Argument(help="A shipped scenario (see `list scenarios`), a YAML file, or a folder with scenario.yaml."),
]
Settings: TypeAlias = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key. Repeatable.")
]
KeptRanks: TypeAlias = Annotated[str | None, typer.Option("--ranks", metavar="0,5,9", help="Keep these ranks only.")]
Whole: TypeAlias = Annotated[
    bool, typer.Option("--whole", help="Take each trace as one step: for Kineto traces without ProfilerStep.")
]
Report: TypeAlias = Annotated[
    bool | None, typer.Option("--report/--no-report", help="Write report.html.", show_default="report")
]
Workers: TypeAlias = Annotated[int | None, typer.Option("--workers", min=1, help="Processes (default: one per core).")]
Fresh: TypeAlias = Annotated[
    bool, typer.Option("--fresh", help="Start over instead of going on with the results of an interrupted run.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]


def say_taken_over(results: int) -> None:
    """Print on stderr how many results of an interrupted run count, if any."""
    if results:
        what = f"{results} result{'s' if results > 1 else ''} of an interrupted run"
        say(f"dlrmsim: {what} taken over (--fresh starts over)")


def refuse(mode: str, options: Mapping[str, object]) -> None:
    """Refuse options that have no effect in a mode of a command.

    Args:
        mode: text of the mode in the message, such as ``with --check``.
        options: values by option; None: not given.

    Raises:
        InputError: one is given.
    """
    for name, value in options.items():
        if value is not None:
            given = None if isinstance(value, bool) else ",".join(value) if isinstance(value, list) else value
            raise InputError(f"has no effect {mode}", file=name, given=given, expected="one of the two")

"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

Scenario: TypeAlias = Annotated[str, typer.Argument(help="A shipped scenario (see `list scenarios`) or a YAML file.")]
Settings: TypeAlias = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key. Repeatable.")
]
KeptRanks: TypeAlias = Annotated[str | None, typer.Option("--ranks", metavar="0,5,9", help="Keep these ranks only.")]
Report: TypeAlias = Annotated[bool, typer.Option("--report/--no-report", help="Write report.html.")]
Workers: TypeAlias = Annotated[int | None, typer.Option("--workers", min=1, help="Processes (default: one per core).")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]

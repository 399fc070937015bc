"""``dlrmsim validate``: predicted against measured, with all errors."""

from __future__ import annotations

from typing import Annotated

import typer

ABOVE = 4
"""Exit code when --fail-above is given and an error is larger."""


def validate(
    suites: Annotated[list[str], typer.Argument(help="Shipped suites (see `list suites`) or YAML files.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")] = False,
    fail_above: Annotated[
        float | None, typer.Option("--fail-above", metavar="PCT", min=0, help="Exit 4 when an error is larger.")
    ] = None,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Processes (default: one per core).")] = None,
) -> None:
    """Predict what others measured and print the errors."""
    from dlrmsim import validating
    from dlrmsim.cli.printing import print_json, text_console
    from dlrmsim.cli.progress import progress_display
    from reports.tables import validation_report

    with progress_display() as progress:
        result = validating.validate(suites, workers=workers, progress=progress)
    if as_json:
        print_json(result)
    else:
        console = text_console()
        for suite in result["suites"]:
            for part in validation_report(suite):
                console.print(part)
    above = validating.worst_above(result, fail_above) if fail_above is not None else []
    if above:
        typer.echo(f"dlrmsim: above {fail_above:g} %: {', '.join(above)}", err=True)
        raise typer.Exit(ABOVE)

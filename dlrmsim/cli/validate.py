"""``dlrmsim validate``: predicted against measured, with all errors."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from dlrmsim.cli.options import AsJson, Fresh, Workers, refuse, say_taken_over
from dlrmsim.cli.terminal import print_line, say
from inputs.errors import InputError

ABOVE = 4
"""Exit code when --fail-above is given and an error is larger."""


def validate(
    suites: Annotated[
        list[str] | None, typer.Argument(help="Shipped suites (see `list suites`) or YAML files.")
    ] = None,
    *,
    measured: Annotated[
        list[Path] | None,
        typer.Option("--measured", metavar="DIR", help="A folder of `measure`, instead of suites. Repeatable."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="SPEC", help="Machine of --measured (see `calibrate host`)."),
    ] = None,
    framework: Annotated[
        str | None,
        typer.Option("--framework", metavar="PROFILE", help="Profile of --measured (see `calibrate host`)."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write a page: predicted against measured.")
    ] = None,
    as_json: AsJson = False,
    fail_above: Annotated[
        float | None, typer.Option("--fail-above", metavar="PCT", min=0, help="Exit 4 when an error is larger.")
    ] = None,
    workers: Workers = None,
    fresh: Fresh = False,
) -> None:
    """Predict published measurements, or those of `measure`, and print the errors."""
    if measured:
        refuse("with --measured", {"SUITES": suites or None, "--workers": workers, "--fresh": fresh or None})
        _measured(measured, cluster, framework, report, as_json=as_json, fail_above=fail_above)
        return
    import dlrmsim
    from dlrmsim.cli.printing import print_json
    from dlrmsim.cli.progress import progress_display
    from reports.tables import validation_report

    if not suites:
        raise InputError("nothing to validate", file="SUITES", expected="suites, or --measured DIR")
    refuse("without --measured", {"--cluster": cluster, "--framework": framework})
    with progress_display() as progress:
        found = dlrmsim.validate(suites, workers=workers, out=report, fresh=fresh, progress=progress)
    say_taken_over(found.taken_over)
    if as_json:
        print_json(found.to_dict())
    else:
        _print([part for suite in found.to_dict()["suites"] for part in validation_report(suite)], report)
    _fail(found.above(fail_above) if fail_above is not None else [], fail_above)


def _print(parts: Iterable[Any], report: Path | None) -> None:
    """Print tables and sentences, and the file of the page."""
    from dlrmsim.cli.printing import text_console

    console = text_console()
    for part in parts:
        console.print(part)
    if report is not None:
        print_line(f"  report  {report}")


def _measured(
    folders: list[Path],
    cluster: str | None,
    framework: str | None,
    report: Path | None,
    *,
    as_json: bool,
    fail_above: float | None,
) -> None:
    import dlrmsim
    from dlrmsim.cli.printing import print_json
    from dlrmsim.cli.progress import progress_display
    from reports.tables import measured_errors, measured_statistics

    with progress_display() as progress:
        found = dlrmsim.validate_measured(folders, cluster=cluster, framework=framework, out=report, progress=progress)
    document = found.to_dict()
    if as_json:
        print_json(document)
    else:
        runs, statistics = document["measured"], document["statistics"]
        _print([*map(measured_errors, runs), *([measured_statistics(statistics)] if len(runs) > 1 else [])], report)
    _fail(found.above(fail_above) if fail_above is not None else [], fail_above)


def _fail(above: list[str], limit_pct: float | None) -> None:
    """End with its own exit code where errors are too large."""
    if above:
        say(f"dlrmsim: above {limit_pct:g} %: {', '.join(above)}")
        raise typer.Exit(ABOVE)

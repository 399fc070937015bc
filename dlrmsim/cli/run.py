"""``dlrmsim run``: simulate a scenario, print the headline numbers, write the results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dlrmsim.cli.options import Report, Scenario, Settings, refuse


def run(
    scenario: Scenario,
    *,
    cluster: Annotated[str | None, typer.Option(help="Short for --set cluster=NAME.", metavar="NAME")] = None,
    nodes: Annotated[int | None, typer.Option(help="Short for --set nodes=N.", metavar="N")] = None,
    settings: Settings = None,
    check: Annotated[bool, typer.Option("--check", help="Validate and estimate; run nothing.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Output folder (default runs/NAME-HASH8).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print summary.json and nothing else.")] = False,
    ranks: Annotated[
        str | None, typer.Option("--ranks", metavar="0,5,9", help="Ranks whose timelines are traced and drawn.")
    ] = None,
    report: Report = None,
    levers: Annotated[
        bool | None,
        typer.Option("--levers/--no-levers", help="Try settings that might be faster.", show_default="levers"),
    ] = None,
) -> None:
    """Simulate a training job and say how long an iteration takes, where the time goes and what bounds it."""
    import dlrmsim
    from dlrmsim.cli.headline import print_check, print_headline
    from dlrmsim.cli.parsing import parse_ranks
    from dlrmsim.cli.printing import print_json
    from dlrmsim.cli.progress import progress_display

    short = {"cluster": cluster, "nodes": nodes}
    given = [f"{key}={value}" for key, value in short.items() if value is not None]
    resolved = dlrmsim.load_scenario(scenario, [*given, *(settings or [])])
    if check:
        others = {"--out": out, "--ranks": ranks, "--report/--no-report": report, "--levers/--no-levers": levers}
        refuse("with --check", others)
        (print_json if as_json else print_check)(dlrmsim.check(resolved).to_dict())
        return
    chosen = parse_ranks(ranks)
    with progress_display() as progress:
        written, tried = report is not False, levers is not False
        done = dlrmsim.run(resolved, ranks=chosen, report=written, levers=tried, out=out, progress=progress)
    if as_json:
        print_json(done.summary)
    else:
        print_headline(done.summary, done.folder)

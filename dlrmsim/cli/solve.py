"""``dlrmsim solve``: which value of a key gives a measured throughput."""

from __future__ import annotations

from typing import Annotated

import typer

from dlrmsim.cli.options import AsJson, Scenario, Settings


def solve(
    scenario: Scenario,
    *,
    key: Annotated[str, typer.Option("--key", metavar="KEY", help="Key of a number, as in --set.")],
    between: Annotated[str, typer.Option("--between", metavar="LOW,HIGH", help="Range of its values.")],
    throughput: Annotated[float, typer.Option("--throughput", min=1e-9, help="Samples per second to reach.")],
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Find the value of a key, such as a cache hit rate, with which a scenario has a known throughput."""
    import dlrmsim
    from dlrmsim.cli.printing import print_json
    from dlrmsim.cli.progress import progress_display
    from scenarios.solve import parse_range

    ends = parse_range(between)
    with progress_display() as progress:
        found = dlrmsim.solve(
            scenario, key=key, between=ends, throughput=throughput, settings=settings or (), progress=progress
        )
    if as_json:
        print_json(found.to_dict())
        return
    typer.echo(f"{found.scenario}: {found.wanted:,.0f} samples/s")
    for name, point in (("at least", found.low), ("at most", found.high)):
        typer.echo(f"  {name:9}{key} = {point[0]:<10.6g}{point[1]:>14,.0f} samples/s")
    if found.found is None:
        typer.echo("  no value between them gives it")
    else:
        typer.echo(f"  found    {key} = {found.found[0]:<10.6g}{found.found[1]:>14,.0f} samples/s")

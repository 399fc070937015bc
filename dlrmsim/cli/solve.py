"""``dlrmsim solve``: which value of a key gives a measured throughput."""

from __future__ import annotations

from typing import Annotated

import typer

from dlrmsim.cli.options import AsJson, Scenario, Settings
from dlrmsim.cli.terminal import print_line


def solve(
    scenario: Scenario,
    *,
    key: Annotated[str, typer.Option("--key", metavar="KEY", help="Key of a number, as in --set.")],
    between: Annotated[
        str, typer.Option("--between", metavar="LOW,HIGH", help="Its values, such as 0,1 or 50 GB/s,400 GB/s.")
    ],
    throughput: Annotated[float, typer.Option("--throughput", min=1e-9, help="Samples per second to reach.")],
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Find the value of a key, such as a cache hit rate, with which a scenario has a known throughput.

    Exit code 3: no value of the range gives it.
    """
    import dlrmsim
    from dlrmsim.cli.printing import print_json
    from dlrmsim.cli.progress import progress_display
    from inputs.errors import InfeasibleError

    with progress_display() as progress:
        found = dlrmsim.solve(
            scenario, key=key, between=between, throughput=throughput, settings=settings or (), progress=progress
        )
    if as_json:
        print_json(found.to_dict())
    else:
        print_line(f"{found.scenario}: {found.wanted:,.0f} {found.unit}/s")
        for name, point in (("at least", found.low), ("at most", found.high), ("found", found.found)):
            if point is not None:
                value = found.values.in_words(point[0])
                print_line(f"  {name:9}{key} = {value:<10}{point[1]:>14,.0f} {found.unit}/s")
    if found.found is None:
        raise InfeasibleError(found.nothing_found())

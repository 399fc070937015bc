"""``dlrmsim schema``: the JSON Schema of a file format, for editors."""

from __future__ import annotations

from typing import Annotated

import typer


def schema(
    kind: Annotated[str, typer.Argument(help="scenario, cluster, model, framework, plan, suite or jobs")],
) -> None:
    """Print the JSON Schema of a file format."""
    import dlrmsim
    from dlrmsim.cli.printing import print_json

    print_json(dlrmsim.json_schema(kind))

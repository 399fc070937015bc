"""``python -m benchmarks {engine,cli,oracle,planning} [--json]``; exit code 1 when a bound is missed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from benchmarks import cli, engine, oracle, planning
from benchmarks.rows import Row, show


def main() -> int:
    """Run one benchmark and print its rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=["engine", "cli", "oracle", "planning"])
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument("--programs", type=int, default=10_000, help="oracle: how many programs")
    parser.add_argument("--seed", type=int, default=0, help="oracle, planning: seed of what is drawn")
    parser.add_argument("--sets", type=int, default=20, help="planning: how many sets of tables")
    arguments = parser.parse_args()
    rows: Iterable[Row]
    if arguments.name == "engine":
        rows = engine.rows()
    elif arguments.name == "cli":
        rows = cli.rows()
    elif arguments.name == "planning":
        rows = planning.rows(arguments.sets, arguments.seed)
    else:
        rows = oracle.rows(arguments.programs, arguments.seed)
    return 0 if show(rows, as_json=arguments.json) else 1


if __name__ == "__main__":
    sys.exit(main())

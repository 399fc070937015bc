"""``python -m benchmarks NAME [--json]``; exit code 1 when a bound is missed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks import (
    attention,
    captures,
    choosers,
    cli,
    convnets,
    convolutions,
    costs,
    embedding,
    engine,
    estimates,
    figures,
    gemms,
    host_laws,
    intervals,
    killed,
    oracle,
    planning,
    planning_torchrec,
    predictions,
    replays,
    sequences,
    skew,
    step_times,
    studies,
    traces,
)
from benchmarks.robustness import rows as robustness
from benchmarks.rows import Row, show

BENCHMARKS: dict[str, Callable[[argparse.Namespace], Iterable[Row]]] = {
    "engine": lambda _: engine.rows(),
    "attention": lambda _: attention.rows(),
    "captures": lambda _: captures.rows(),
    "cli": lambda _: cli.rows(),
    "convnets": lambda _: convnets.rows(),
    "convolutions": lambda _: convolutions.rows(),
    "costs": lambda given: costs.rows(given.target),
    "estimates": lambda given: estimates.rows(given.target),
    "gemms": lambda given: gemms.rows(given.svg),
    "oracle": lambda given: oracle.rows(given.programs, given.seed),
    "choosers": lambda given: choosers.rows(refit=given.refit),
    "planning": lambda given: (
        planning_torchrec.rows(given.sets, given.seed, table=not given.json)
        if given.against == "torchrec"
        else planning.rows(given.sets, given.seed)
    ),
    "traces": lambda _: traces.rows(),
    "sequences": lambda _: sequences.rows(),
    "skew": lambda _: skew.rows(),
    "steps": lambda _: step_times.rows(),
    "embedding": lambda _: embedding.rows(),
    "replays": lambda _: replays.rows(),
    "host_laws": lambda given: host_laws.rows(given.target or "zen5_2_cores"),
    "killed": lambda given: killed.rows(given.sets, given.seed),
    "intervals": lambda given: intervals.rows(write=given.write),
    "studies": lambda _: studies.rows(),
    "predictions": lambda given: predictions.rows(given.against),
    "robustness": lambda given: robustness.rows(given.n, given.seed, given.kinds),
    "figures": lambda given: figures.rows(check=given.check),
}


def main() -> int:
    """Run one benchmark and print its rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=list(BENCHMARKS))
    parser.add_argument("target", nargs="?", help="host_laws: a host or a record file; costs, estimates: a row's name")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument("--programs", type=int, default=10_000, help="oracle: number of programs")
    parser.add_argument(
        "--seed", type=int, default=0, help="oracle, planning, killed, robustness: seed of the random draws"
    )
    parser.add_argument("--n", type=int, default=20_000, help="robustness: number of mutated files")
    parser.add_argument("--kinds", nargs="*", default=(), help="robustness: kinds of files, e.g. cluster")
    parser.add_argument("--refit", action="store_true", help="choosers: fit the constants of each separately")
    parser.add_argument("--svg", type=Path, help="gemms: file for a picture of predicted and measured times")
    parser.add_argument("--sets", type=int, default=20, help="planning: sets of tables; killed: sweeps")
    parser.add_argument("--check", action="store_true", help="figures: compare with the pages and write nothing")
    parser.add_argument("--write", action="store_true", help="intervals: write the quantiles that are shipped")
    parser.add_argument("--against", default="HEAD", help="predictions: the commit to compare with; planning: torchrec")
    arguments = parser.parse_args()
    return 0 if show(BENCHMARKS[arguments.name](arguments), as_json=arguments.json) else 1


if __name__ == "__main__":
    sys.exit(main())

"""``python -m benchmarks NAME [--json]``; exit code 1 when a bound is missed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

from benchmarks.rows import Row, show

FURTHER = dict.fromkeys(("ijson", "playwright"), "pip install --editable '.[dev]'") | {"torch": "make trainer"}
"""Packages that some benchmarks import and ``make demo`` does not install, and the command that does."""


def _rows(module: str, *given: object, **options: object) -> Iterable[Row]:
    """Rows of a benchmark's module, which is imported only when the benchmark runs: some need PyTorch."""
    made: Iterable[Row] = import_module(f"benchmarks.{module}").rows(*given, **options)
    return made


BENCHMARKS: dict[str, Callable[[argparse.Namespace], Iterable[Row]]] = {
    "engine": lambda _: _rows("engine"),
    "attention": lambda _: _rows("attention"),
    "captures": lambda _: _rows("captures"),
    "cli": lambda _: _rows("cli"),
    "convnets": lambda _: _rows("convnets"),
    "convolutions": lambda _: _rows("convolutions"),
    "costs": lambda given: _rows("costs", given.target),
    "estimates": lambda given: _rows("estimates", given.target),
    "gemms": lambda given: _rows("gemms", given.svg),
    "oracle": lambda given: _rows("oracle", given.programs, given.seed),
    "choosers": lambda given: _rows("choosers", refit=given.refit),
    "planning": lambda given: (
        _rows("planning_torchrec", given.sets, given.seed, table=not given.json)
        if given.against == "torchrec"
        else _rows("planning", given.sets, given.seed)
    ),
    "traces": lambda _: _rows("traces"),
    "sequences": lambda _: _rows("sequences"),
    "skew": lambda _: _rows("skew"),
    "steps": lambda _: _rows("step_times"),
    "embedding": lambda _: _rows("embedding"),
    "replays": lambda _: _rows("replays"),
    "host_laws": lambda given: _rows("host_laws", given.target or "zen5_2_cores"),
    "killed": lambda given: _rows("killed", given.sets, given.seed),
    "intervals": lambda given: _rows("intervals", write=given.write),
    "studies": lambda _: _rows("studies"),
    "predictions": lambda given: _rows("predictions", given.against),
    "robustness": lambda given: _rows("robustness.rows", given.n, given.seed, given.kinds),
    "figures": lambda given: _rows("figures", check=given.check),
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
    try:
        return 0 if show(BENCHMARKS[arguments.name](arguments), as_json=arguments.json) else 1
    except ModuleNotFoundError as missing:
        if missing.name not in FURTHER:
            raise
        parser.error(f"{arguments.name} needs {missing.name}: {FURTHER[missing.name]}")


if __name__ == "__main__":
    sys.exit(main())

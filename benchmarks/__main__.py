"""``python -m benchmarks NAME [--json]``; exit code 1 when a bound is missed."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from benchmarks import (
    accuracy,
    choices,
    choosers,
    cli,
    embedding,
    engine,
    gemms,
    host_fit,
    oracle,
    paces,
    planning,
    replays,
    sections,
    skew,
    traces,
    yardstick,
)
from benchmarks.rows import MEASURED, Row, show


def _accuracy(given: argparse.Namespace) -> Iterator[Row]:
    file = given.out or MEASURED / f"accuracy_{given.seed}.csv"
    study = accuracy.Study(
        given.configs,
        given.seed,
        given.cluster,
        given.launches,
        file,
        given.resume,
        given.minutes,
        given.device,
        given.keep,
        given.framework,
    )
    return accuracy.again(given.again, study, given.out) if given.again else accuracy.rows(study)


def _choices(given: argparse.Namespace) -> Iterator[Row]:
    if given.again:
        return choices.again(given.again, given.cluster, given.out)
    file = given.out or MEASURED / f"choices_{given.seed}.csv"
    return choices.rows(
        choices.Choices(
            given.sets, given.seed, given.cluster, given.launches, file, given.resume, given.minutes, given.keep
        )
    )


BENCHMARKS: dict[str, Callable[[argparse.Namespace], Iterable[Row]]] = {
    "accuracy": _accuracy,
    "choices": _choices,
    "engine": lambda _: engine.rows(),
    "cli": lambda _: cli.rows(),
    "host_fit": lambda given: host_fit.rows(given.record),
    "gemms": lambda given: gemms.rows(given.svg),
    "oracle": lambda given: oracle.rows(given.programs, given.seed),
    "choosers": lambda given: choosers.rows(refit=given.refit),
    "paces": lambda _: paces.rows(),
    "planning": lambda given: planning.rows(given.sets, given.seed),
    "traces": lambda _: traces.rows(),
    "skew": lambda _: skew.rows(),
    "embedding": lambda _: embedding.rows(),
    "replays": lambda _: replays.rows(),
    "sections": lambda given: sections.rows(given.again, given.cluster),
    "yardstick": lambda given: yardstick.rows(
        given.cluster, given.seed, given.minutes if math.isfinite(given.minutes) else 3.0
    ),
}


def main() -> int:
    """Run one benchmark and print its rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=list(BENCHMARKS))
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument("--programs", type=int, default=10_000, help="oracle: how many programs")
    parser.add_argument("--seed", type=int, default=0, help="oracle, planning, studies: seed of what is drawn")
    parser.add_argument("--refit", action="store_true", help="choosers: fit the constants anew for each")
    parser.add_argument("--svg", type=Path, help="gemms: file for a picture of predicted and measured times")
    parser.add_argument("--sets", type=int, default=20, help="planning, choices: how many sets of tables")
    parser.add_argument("--configs", type=int, default=40, help="accuracy: how many configurations")
    parser.add_argument("--cluster", default="host.yaml", help="studies: this machine, as calibrate host wrote it")
    parser.add_argument("--launches", type=int, default=5, help="studies (accuracy, choices): times each is measured")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="accuracy: where ranks train")
    parser.add_argument("--framework", help="accuracy: profile that predicts, as calibrate host writes it on GPUs")
    parser.add_argument("--resume", action="store_true", help="studies: keep the rows that are there")
    parser.add_argument(
        "--minutes",
        type=float,
        default=float("inf"),
        help="studies: begin nothing after this time; yardstick: its time, else 3",
    )
    parser.add_argument("--record", default="xeon_2_cores", help="host_fit: a calibration's record, as calibrate host")
    parser.add_argument("--out", type=Path, help="studies: file of rows (default traces/measured/NAME_SEED.csv)")
    parser.add_argument("--keep", type=Path, help="studies: folder to keep what is recorded in")
    parser.add_argument(
        "--again", type=Path, help="studies, sections: predict anew what --keep kept in this folder, measure nothing"
    )
    arguments = parser.parse_args()
    if arguments.name == "sections" and arguments.again is None:
        parser.error("sections needs --again DIR, which accuracy --keep DIR wrote")
    return 0 if show(BENCHMARKS[arguments.name](arguments), as_json=arguments.json) else 1


if __name__ == "__main__":
    sys.exit(main())

"""``python -m benchmarks robustness --n N --seed S``: rows and groups of failures."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.robustness.forks import import_everything
from benchmarks.robustness.samples import Sample, make_samples
from benchmarks.robustness.study import Failure, commit, draw_cases, examine, refused_samples
from benchmarks.robustness.verdicts import ACCEPTED, REFUSED
from benchmarks.rows import Row


def rows(count: int, seed: int, kinds: Sequence[str] = ()) -> Iterator[Row]:
    """Numbers of cases by verdict, and a row for each group of failures with its smallest case.

    Args:
        kinds: kinds of files to mutate; none: all.
    """
    with tempfile.TemporaryDirectory() as folder:
        import_everything()
        samples = [sample for sample in make_samples(Path(folder), measured=True) if _wanted(sample, kinds)]
        if refused := refused_samples(samples):
            raise RuntimeError("samples are refused as they are:\n" + "\n".join(refused))
        begin = time.perf_counter()
        study = examine(draw_cases(samples, count, seed))
        wall_s = time.perf_counter() - begin
    print(f"seed {seed}, commit {commit()}", file=sys.stderr)
    yield Row("tried", sum(study.counts.values()), "cases")
    yield Row("kinds", len(study.by_kind), "kinds of file")
    yield Row("cases_per_minute", count / wall_s * 60.0, "/min")
    yield Row("cpu", study.cpu_s, "s")
    yield Row("accepted", study.counts.get(ACCEPTED, 0), "cases")
    yield Row("refused_well", study.counts.get(REFUSED, 0), "cases")
    for failure in study.failures:
        print(describe(failure, seed), file=sys.stderr)
    for kind in sorted(set(study.counts) - {ACCEPTED, REFUSED}):
        yield Row(kind.replace(" ", "_"), study.counts[kind], "cases")
    yield Row("failures", sum(failure.count for failure in study.failures), "cases", "<= 0")
    yield Row("failure_groups", len(study.failures), "places")


def _wanted(sample: Sample, kinds: Sequence[str]) -> bool:
    return not kinds or sample.kind in kinds


def describe(failure: Failure, seed: int) -> str:
    """A group of failures: place, count, smallest case, message."""
    verdict, case = failure.verdict, failure.case
    lines = [
        f"{failure.count} x {verdict.failure}: {verdict.place}",
        f"    case {case.number} of seed {seed}: {case}"[:400],
        f"    {verdict.detail[:300]}",
    ]
    return "\n".join(lines)

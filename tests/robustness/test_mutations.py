"""Wrong files of every kind end in one message and an exit code, never in a traceback.

Cases run in children of a fresh process: this one has threads, which a fork would lose.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SEED, MUTATIONS = 44, 500
"""Seed and number of random mutations; `python -m benchmarks robustness` tries more."""


SAMPLES = """\
import tempfile
from pathlib import Path
from benchmarks.robustness.forks import import_everything
from benchmarks.robustness.samples import make_samples
import_everything()
folder = tempfile.TemporaryDirectory()
samples = make_samples(Path(folder.name))
"""


def _in_fresh_process(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SAMPLES + code], cwd=HERE.parents[1], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_cases_of_the_table_end_as_it_says():
    found = _in_fresh_process(
        f"""
from benchmarks.robustness.study import refused_samples
from benchmarks.robustness.table import differing, read_table
rows = read_table(Path({str(HERE / "cases.csv")!r}))
assert len(rows) >= 300, len(rows)
for line in refused_samples(samples, 2):
    print(line)
for line in differing(rows, samples, 2):
    print(line)
"""
    )
    assert not found, found


@pytest.mark.slow
def test_random_mutations_are_accepted_with_finite_times_or_refused_well():
    found = _in_fresh_process(
        f"""
from benchmarks.robustness.rows import describe
from benchmarks.robustness.study import commit, draw_cases, examine
study = examine(draw_cases(samples, {MUTATIONS}, {SEED}), 2)
assert sum(study.counts.values()) == {MUTATIONS}
if study.failures:
    print("seed {SEED}, commit", commit())
for failure in study.failures:
    print(describe(failure, {SEED}))
"""
    )
    assert not found, found

"""Wrong files of every kind end in one message and an exit code, never in a traceback.

Cases run in children of a fresh process: this one has threads, which a fork would lose.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SEED, MUTATIONS = 44, 200
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
def test_mutated_files_end_as_the_table_says_and_random_ones_with_finite_times_or_refused_well():
    """Files that no row of the table mutates are read by other tests (`tests.laws.test_everything_shipped`)."""
    found = _in_fresh_process(
        f"""
from benchmarks.robustness.rows import describe
from benchmarks.robustness.study import commit, draw_cases, examine, refused_samples
from benchmarks.robustness.table import differing, read_table
rows = read_table(Path({str(HERE / "cases.csv")!r}))
assert len(rows) >= 300, len(rows)
named = {{row.sample for row in rows}}
for line in refused_samples([sample for sample in samples if sample.name in named], 2):
    print(line)
for line in differing(rows, samples, 2):
    print(line)
study = examine(draw_cases(samples, {MUTATIONS}, {SEED}), 2)
assert sum(study.counts.values()) == {MUTATIONS}
if study.failures:
    print("seed {SEED}, commit", commit())
for failure in study.failures:
    print(describe(failure, {SEED}))
"""
    )
    assert not found, found

"""Holistic Trace Analysis, unchanged, on traces we export: its breakdown is ours on its window.

Its window is from the first kernel's start to the last one's end, ours an iteration's.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest

from dlrmsim import run
from simulator.analysis import Window, break_down
from simulator.categories import Category
from tests.trace_files import public, two_ranks, write_ranks
from traces.export import write_chrome
from traces.formats import import_traces
from traces.kineto.importer import import_kineto

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("hta") is None, reason="HTA is not installed: pip install 'dlrmsim[hta]'"
)
RUN = """
import json, logging, sys
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
found = TraceAnalysis(trace_dir=sys.argv[1], include_last_profiler_step=True)
print(json.dumps([json.loads(frame.to_json(orient="records")) for frame in (
    found.get_temporal_breakdown(visualize=False), found.get_comm_comp_overlap(visualize=False))]))
"""
DEVICE = (Category.COMPUTE, Category.COMM, Category.COPY)


def hta_of(folder):
    """Temporal breakdown and overlap by rank, in a process of its own: HTA logs and warns."""
    done = subprocess.run([sys.executable, "-c", RUN, str(folder)], capture_output=True, text=True, check=True)
    tables = json.loads(done.stdout.strip().splitlines()[-1])
    return [{int(row["rank"]): row for row in table} for table in tables]


def ours(imported):
    """By rank: compute, exposed communication and copies, idle in us from its first device work to its last."""
    found = {}
    for program, times in zip(imported.graph.programs, imported.measured.result.records[0].groups, strict=True):
        device = [task for task, category in enumerate(program.categories) if category in DEVICE]
        for column, rank in enumerate(program.ranks.tolist()):
            begin, end = times.start_ps[device, column].min(), times.end_ps[device, column].max()
            parts = break_down(
                imported.graph.programs, imported.measured.result, window=Window(0, int(begin), int(end))
            )
            row = int(np.flatnonzero(parts.ranks == rank)[0])
            exposed = parts.exposed_comm_ps[row] + parts.exposed_copy_ps[row]
            found[rank] = [float(ps) / 1e6 for ps in (end - begin, parts.compute_ps[row], exposed, parts.idle_ps[row])]
    return found


@pytest.mark.parametrize(
    "parts",
    [
        ("dlrm_8xV100_torchrec", "dlrm_kineto", "*.gz"),
        ("a100_8ranks_rec_rank3", "*.gz"),
        ("a100_2ranks_ddp", "*.gz"),
    ],
    ids=["V100", "A100", "DDP"],
)
def test_hta_gives_our_breakdown_of_public_traces(tmp_path, parts):
    agree(import_kineto(public(*parts)), tmp_path)


def test_hta_gives_our_breakdown_of_a_small_trace(tmp_path):
    agree(import_kineto(write_ranks(tmp_path, two_ranks())), tmp_path / "chrome")


def test_hta_gives_our_breakdown_of_a_simulated_run(tmp_path):
    run("zionex_a_128", out=tmp_path / "run", report=False, levers=False)
    agree(import_traces([tmp_path / "run" / "timeline.parquet"], [0, 77]), tmp_path / "chrome")


def agree(imported, folder):
    """Within one percentage point; it is exact but for the microseconds HTA cuts times to."""
    folder.mkdir(exist_ok=True)
    write_chrome(imported, folder)
    breakdown, overlap = hta_of(folder)
    expected = ours(imported)
    assert breakdown.keys() == overlap.keys() == expected.keys()
    for rank, (whole, compute, exposed, idle) in expected.items():
        row = breakdown[rank]
        assert row["kernel_time(us)"] == pytest.approx(whole, rel=0.01)
        columns = ("compute_time(us)", "non_compute_time(us)", "idle_time(us)")
        for column, own in zip(columns, (compute, exposed, idle), strict=True):
            assert abs(row[column] / row["kernel_time(us)"] - own / whole) < 0.01, (rank, column)

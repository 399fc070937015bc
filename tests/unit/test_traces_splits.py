"""Splits of all_to_alls: bytes to each peer decide a replay on a network, and splits that are cut are a gap."""

from __future__ import annotations

import numpy as np
import pytest

from hardware_specs.loader import load_cluster
from simulator.collective_calls import CollectiveCall
from simulator.lowering import build_machine
from tests.trace_files import KinetoRank, write_ranks
from traces.collective_args import UNKNOWN_SPLITS
from traces.export import write_timeline
from traces.formats import import_traces
from traces.kineto.importer import import_kineto
from traces.replay import job_of, replayed
from traces.replay.ranks import with_clones

MB = 1e6


def exchange(splits, *, world_size=None, total_mb=200):
    """One all_to_allv of every rank; ``splits[i]`` is the text or list of rank i."""
    ranks = []
    for rank, own_splits in enumerate(splits):
        own = KinetoRank(rank, world_size or len(splits))
        own.step(1, 0.0, 1000.0)
        told = {
            "Collective name": "all_to_allv", "In msg nelems": int(total_mb * MB / 4), "dtype": "Float",
            "Out msg nelems": int(total_mb * MB / 4),
        }  # fmt: skip
        if own_splits is not None:
            told["In split size"] = own_splits if isinstance(own_splits, str) else str(list(own_splits))
        own.kernel("ncclDevKernel_SendRecv", (5.0, 5.0), (20.0, 900.0), **told)
        ranks.append(own)
    return ranks


def shares_of(imported):
    rows = {}
    for program in imported.graph.programs:
        (call,) = (w for w in program.work if isinstance(w, CollectiveCall))
        for column, rank in enumerate(program.ranks.tolist()):
            rows[rank] = None if call.peer_shares is None else call.peer_shares[column].tolist()
    return rows


def transfer_us(imported, cluster="dgx_a100_80"):
    """Longest transfer of the exchange on a cluster, us."""
    job = with_clones(job_of(imported))
    found = replayed(job, build_machine(load_cluster(cluster), job.world_size, launch_s=0.0))
    lengths = []
    for program, times in zip(found.graph.programs, found.measured.result.records[0].groups, strict=True):
        (task,) = (t for t, w in enumerate(program.work) if isinstance(w, CollectiveCall))
        lengths.append(float((times.end_ps[task] - times.start_ps[task] - times.waiting_rows_ps[0]).max()) / 1e6)
    return max(lengths)


def mostly_own(rank, size=8, away=0.06):
    row = np.full(size, away / (size - 1))
    row[rank] = 1 - away
    return np.rint(row * 1000).astype(int).tolist()


def to_one(size=8, part=0.76):
    row = np.full(size, (1 - part) / (size - 1))
    row[0] = part
    return np.rint(row * 1000).astype(int).tolist()


def test_the_busiest_link_decides(tmp_path):
    """200 MB a rank: 12 MB leave it, 175 MB evenly, or 152 MB of each go to one, which then receives 1,064 MB."""
    found = {}
    cases = {
        "own": ([mostly_own(rank) for rank in range(8)], 12 * MB),
        "even": ([[125] * 8 for _ in range(8)], 175 * MB),
        "one": ([to_one() for _ in range(8)], 7 * 152 * MB),
    }
    for name, (splits, busiest_bytes) in cases.items():
        folder = tmp_path / name
        folder.mkdir()
        imported = import_kineto(write_ranks(folder, exchange(splits)))
        assert not any(gap.what == UNKNOWN_SPLITS for gap in imported.gaps)
        found[name] = transfer_us(imported)
        assert found[name] >= busiest_bytes / 300e9 * 1e6  # NVLink of an A100: 300 GB/s each way at most
        assert found[name] <= busiest_bytes / 150e9 * 1e6 + 100
    assert found["own"] < found["even"] < found["one"]


def test_even_splits_are_an_even_exchange(tmp_path):
    for name, splits in (("listed", [[125] * 8] * 8), ("absent", [None] * 8)):
        (tmp_path / name).mkdir()
        write_ranks(tmp_path / name, exchange(splits))
    listed, absent = (transfer_us(import_traces([tmp_path / name])) for name in ("listed", "absent"))
    assert listed == pytest.approx(absent, rel=1e-9)


@pytest.mark.parametrize(
    "splits", [None, "[]", "[25, 25, ..., 25]", "[25, 25, 25]", "[25, 25, 25, 25, 25, 25, 25, 25, 25]", "[-1, 9, 0, 0]"]
)
def test_splits_that_are_cut_or_absent_are_a_gap(tmp_path, splits):
    imported = import_kineto(write_ranks(tmp_path, exchange([splits] * 4)))
    (gap,) = (gap for gap in imported.gaps if gap.what == UNKNOWN_SPLITS)
    assert (gap.count, gap.ranks) == (4, (0, 1, 2, 3))
    assert set(shares_of(imported).values()) == {None}


def test_splits_are_fractions_of_rows(tmp_path):
    """Splits count rows: the elements of a row do not matter."""
    imported = import_kineto(write_ranks(tmp_path, exchange([[1, 2, 3, 4], [4, 3, 2, 1], [0, 0, 0, 9], [5, 5, 0, 0]])))
    assert shares_of(imported) == {
        0: [0.1, 0.2, 0.3, 0.4], 1: [0.4, 0.3, 0.2, 0.1], 2: [0.0, 0.0, 0.0, 1.0], 3: [0.5, 0.5, 0.0, 0.0]
    }  # fmt: skip


def test_an_exchange_of_nothing_has_no_gap(tmp_path):
    imported = import_kineto(write_ranks(tmp_path, exchange([[0, 0], [0, 0]], total_mb=0)))
    assert not any(gap.what == UNKNOWN_SPLITS for gap in imported.gaps)


def test_clones_send_as_the_rank_that_they_are_of(tmp_path):
    (own,) = exchange([to_one()], world_size=8)
    imported = import_kineto([own.write(tmp_path / "rank0.json")])
    assert transfer_us(imported) >= 7 * 152 * MB / 300e9 * 1e6


def test_splits_survive_our_own_timeline(tmp_path):
    splits = [mostly_own(rank) for rank in range(8)]
    imported = import_kineto(write_ranks(tmp_path, exchange(splits)))
    write_timeline(imported, tmp_path / "timeline.parquet")
    again = import_traces([tmp_path / "timeline.parquet"])
    assert shares_of(again) == shares_of(imported)
    assert transfer_us(again) == transfer_us(imported)

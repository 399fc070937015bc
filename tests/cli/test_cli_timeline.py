"""Ranks that share rows of ``timeline.parquet``, and reading them as rows of every rank."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

import dlrmsim
from inputs.errors import InputError
from simulator.analysis import Timeline


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "out"
    return dlrmsim.run("tf_alexnet", report=False, levers=False, out=out)


def every_rank(finished):
    outcome = finished.outcome
    return Timeline.from_run(outcome.graph.programs, outcome.result).to_pandas().drop(columns="ranks")


def test_read_timeline_gives_every_rank_its_rows(finished):
    names = ["rank", "iteration", "task"]
    read = dlrmsim.read_timeline(finished.folder / "timeline.parquet")
    expected = every_rank(finished)
    assert (
        read.astype(str).sort_values(names).values.tolist() == expected.astype(str).sort_values(names).values.tolist()
    )


def test_rows_stand_for_all_ranks(finished):
    table = pq.read_table(finished.folder / "timeline.parquet")
    first = table.filter(table["iteration"].to_numpy() == table["iteration"][0].as_py())
    of_task = first.filter(first["task"].to_numpy(zero_copy_only=False) == first["task"][0].as_py())
    assert sum(of_task["ranks"].to_pylist()) == finished.outcome.resolved.world_size
    assert len(of_task) < finished.outcome.resolved.world_size, "ranks of this job are alike"


def test_some_ranks_are_read(finished):
    some = dlrmsim.read_timeline(finished.folder / "timeline.parquet", ranks=[1, 3])
    assert set(some["rank"]) == {1, 3}
    whole = every_rank(finished)
    assert np.array_equal(some[some["rank"] == 3]["end_ps"].to_numpy(), whole[whole["rank"] == 3]["end_ps"].to_numpy())


def test_an_import_has_every_rank(finished):
    imported = dlrmsim.import_traces([finished.folder / "timeline.parquet"]).imported
    assert [rank for program in imported.graph.programs for rank in program.ranks.tolist()] == list(
        range(finished.outcome.resolved.world_size)
    )


@pytest.mark.parametrize("ranks", [[100], []])
def test_ranks_that_are_not_there_have_no_rows(finished, ranks, capsys):
    file = finished.folder / "timeline.parquet"
    assert len(dlrmsim.read_timeline(file, ranks=ranks)) == 0
    with pytest.raises(InputError, match="has no rows of these ranks"):
        dlrmsim.import_traces([file], ranks=ranks)


def test_rows_that_stand_for_others_may_not_be_missing(finished, tmp_path):
    table = pq.read_table(finished.folder / "timeline.parquet")
    first = table["rank"].to_numpy().min()
    pq.write_table(table.filter(table["rank"].to_numpy() != first), tmp_path / "less.parquet")
    pq.write_table(table.slice(0, 0), tmp_path / "none.parquet")
    if len(set(table["rank"].to_pylist())) > 1:
        with pytest.raises(InputError, match="has rows missing"):
            dlrmsim.read_timeline(tmp_path / "less.parquet")
    assert len(dlrmsim.read_timeline(tmp_path / "none.parquet")) == 0


def test_another_file_is_refused(tmp_path):
    (tmp_path / "timeline.parquet").write_text("no")
    with pytest.raises(InputError, match="no Parquet file"):
        dlrmsim.read_timeline(tmp_path / "timeline.parquet")

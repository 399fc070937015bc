"""Figures in README and docs are those that the suites give: the quick suites here, all by ``benchmarks figures``."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks import figures, pictures
from inputs.errors import InputError
from reports.sections.timeline import timeline_section
from tests.reports_sample import sample_findings

QUICK = ("nccl_h100", "nccl_a100", "v100_nccl", "fdr_allreduce", "aries_alltoall", "omnipath_allreduce")
"""Suites of collectives: ten seconds in all; suites of training jobs take minutes."""
TABLE = {
    "cases": [{"id": "a", "error_pct": -8.58}],
    "mape_pct": 6.05,
    "bias_pct": 0.04,
    "groups": [
        {"role": "calibration", "sizes": "1 MiB and more", "median_pct": 1.0},
        {"role": "validation", "sizes": "1 MiB and more", "median_pct": 2.74},
    ],
}


def test_figures_of_quick_suites_are_as_computed():
    rows = list(figures.rows(check=True, suites=QUICK))
    assert len(rows) > 10
    assert rows[-1].name == "figures that differ"
    assert rows[-1].holds


def test_figures_of_runs_and_the_picture_are_as_computed():
    """The sentence beside the picture, and the words that the picture shows."""
    assert "run/zionex_a_128/bound.joint.gain" in figures.names(figures.ROOT / "README.md")
    rows = list(figures.rows(check=True, suites=("run",)))
    assert rows[-1].holds, "python -m benchmarks figures takes the picture again"


def test_a_picture_keeps_the_words_of_its_page_and_no_others():
    picture = next(iter(pictures.PICTURES))
    page = "<header><h1>Other &amp; words</h1></header><p>below</p>"
    assert pictures.head_of(page) == "Other & words"
    assert "zionex_a on 128 GPUs" in pictures.text_in(picture)
    assert not pictures.is_current(picture, page)


def test_the_tutorial_names_the_ranks_that_the_timeline_shows():
    found = sample_findings(32)
    chosen = found.chosen
    lengths = Counter[int]()
    for segment in found.critical_path.segments:
        lengths[segment.rank] += segment.end_ps - segment.start_ps
    longest = max(sorted(lengths), key=lambda rank: lengths[rank])
    assert timeline_section(found).payload["timeline"]["shown"] == list(
        dict.fromkeys((chosen.slowest, chosen.fastest, longest))
    )
    words = " ".join((figures.ROOT / "docs" / "tutorial" / "first-run.md").read_text().split())
    assert "shows the slowest rank, the fastest one and the one with most of the critical path, a lane" in words


def test_the_first_screen_has_figures():
    assert len(figures.names(figures.ROOT / "README.md")) >= 6


@pytest.mark.parametrize(
    ("name", "text"),
    [("s/a", "-8.6 %"), ("s/mape", "6.0 %"), ("s/bias", "+0.0 %"), ("s/large/median", "2.7 %")],
)
def test_text_of_a_figure(name, text):
    assert figures.figure(name, TABLE)[1] == text


@pytest.mark.parametrize("name", ["s/b", "s/small/median"])
def test_an_unknown_figure_is_refused(name):
    with pytest.raises(InputError, match="no such figure"):
        figures.figure(name, TABLE)


def test_a_difference_is_found_and_mended(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("| x | <!-- figure: v100_nccl/small/median -->9.9 %<!-- /figure --> |\n")
    monkeypatch.setattr(figures, "pages", lambda: [page])
    assert not list(figures.rows(check=True, suites=("v100_nccl",)))[-1].holds
    assert "9.9 %" in page.read_text()
    list(figures.rows(check=False, suites=("v100_nccl",)))
    assert "9.9 %" not in page.read_text()
    assert list(figures.rows(check=True, suites=("v100_nccl",)))[-1].holds

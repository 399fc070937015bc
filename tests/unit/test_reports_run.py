"""The page of a run: complete, self-contained, escaped, and small enough at 4,096 ranks."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from reports.markup import PageSection
from reports.run_report import render_run, run_sections
from reports.sections.timeline import embedded_ranks
from tests.reports_sample import sample_findings
from tests.unit.test_reports_columns import decode

ANCHORS = (
    "timeline",
    "breakdown",
    "bound",
    "levers",
    "critical-path",
    "collectives",
    "memory",
    "warnings",
    "provenance",
    "scenario",
)
MOST_BYTES = 12_000_000
PS_PER_NS = 1000


@pytest.fixture(scope="module")
def findings():
    return sample_findings(16)


@pytest.fixture(scope="module")
def page(findings):
    return render_run(findings)


def payload_of(page: str) -> dict:
    return json.loads(re.search(r'id="payload">(.*?)</script>', page, re.DOTALL)[1])


def section(findings, anchor: str) -> PageSection:
    return next(s for s in run_sections(findings) if s.anchor == anchor)


def test_every_section_stands_once_and_is_linked(page):
    for anchor in ANCHORS:
        assert page.count(f'<section id="{anchor}">') == 1
        assert page.count(f'href="#{anchor}"') == 1


def test_nothing_is_loaded_from_anywhere(page):
    own = page[: page.index("<script>")]  # everything before plotly.js, which names addresses it does not load
    assert not re.search(r"(src|href)\s*=\s*[\"'](?!#)", own)
    assert "@import" not in own
    assert "url(" not in own
    assert "default-src 'none'" in own, "the browser itself must refuse any request"


def test_plotly_is_inlined_once(page):
    assert page.count("plotly.js v") == 1


def test_the_headline_has_the_time_the_throughput_and_the_bound(page, findings):
    head = page[: page.index("<nav")]
    assert f"{1e3 * findings.iteration.seconds:.1f} ms" in head
    assert "on 16 GPUs" in head
    assert f"Bound by {findings.bound.bounding.resource_class}" in head
    assert "--set workload.sharding.planner=table_row_wise</code> saves 15.8 %" in head


def test_hostile_names_are_escaped(findings):
    job = replace(findings.job, name="<script>evil()</script>", model="<i>A</i>", scenario_yaml="</pre><script>evil()")
    page = render_run(replace(findings, job=job, warnings=("<script>evil()</script>",)))
    assert "<script>evil" not in page
    assert "<i>A</i>" not in page


def test_the_same_findings_give_the_same_page(page, findings):
    assert render_run(findings) == page


def test_timeline_columns_hold_the_run_to_the_nanosecond(page, findings):
    timeline = payload_of(page)["timeline"]
    times = findings.result.records[1].groups[0]
    tasks, iterations = findings.programs[0].task_count, len(findings.result.records)
    start, duration, waiting = (decode(timeline["columns"][name]) for name in ("start", "duration", "waiting"))
    first = timeline["ranks"].index(5) * iterations * tasks + tasks  # the second recorded iteration of rank 5
    window_ps = findings.breakdown.window.start_ps
    expected = (times.start_ps[:, 5] - window_ps) // PS_PER_NS
    assert start[first : first + tasks] == expected.tolist()
    long = times.end_ps[:, 5] - times.start_ps[:, 5]
    assert np.abs(np.array(duration[first : first + tasks]) - long / PS_PER_NS).max() <= 1
    assert all(w <= d for w, d in zip(waiting, duration, strict=True))


def test_bars_add_up_to_the_iteration(findings):
    window_ns = findings.breakdown.window.length_ps / PS_PER_NS
    for bar in section(findings, "breakdown").payload["breakdown"]:
        assert sum(v for k, v in bar.items() if k != "label") == pytest.approx(window_ns)


def test_critical_segments_name_tasks_of_the_program(findings):
    critical = section(findings, "timeline").payload["timeline"]["critical"]
    assert {task for _, _, task in critical} <= set(findings.programs[0].names)
    assert len(critical) == len(findings.critical_path.segments), "all ranks are embedded, so every segment is marked"


def test_a_sample_keeps_the_chosen_and_asked_ranks():
    findings = replace(sample_findings(64), asked_ranks=(33, 9999))
    rows_of_five_ranks = 5 * findings.programs[0].task_count * len(findings.result.records)
    embedded = embedded_ranks(findings, max_rows=rows_of_five_ranks).tolist()
    assert set(findings.chosen.distinct()) | {33} <= set(embedded)
    assert 5 <= len(embedded) <= 10
    assert {0, 63} <= set(embedded), "the sample reaches from the first rank to the last"
    assert 9999 not in embedded


def test_a_page_of_4096_ranks_is_small_and_says_what_it_holds():
    page = render_run(sample_findings(4096))
    timeline = payload_of(page)["timeline"]
    assert len(page.encode()) <= MOST_BYTES
    assert len(timeline["ranks"]) < 4096
    assert f"on {len(timeline['ranks']):,} of 4,096 ranks" in page
    assert len(decode(payload_of(page)["ranks"]["compute"])) == 4096, "the breakdown is there for every rank"

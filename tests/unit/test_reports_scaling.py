"""The page of a scaling study: gaps keep their place and their numbers."""

import json
import re
from dataclasses import replace

import pytest

from reports.scaling_report import render_scaling, warnings_of
from reports.scaling_study import ScalingPoint, ScalingStudy
from reports.scaling_words import findings, headline

NEEDS = "rank 3 needs 98.2 GB of HBM, 37.2 GB are usable"


def point(world_size: int, efficiency: float, bound: str) -> ScalingPoint:
    return ScalingPoint(
        world_size, world_size // 8, 512 * world_size, "ok", 0.05 / efficiency, 512 * world_size * efficiency / 0.05,
        efficiency, {"compute": 0.5, "exposed_comm": 0.5}, bound, {"NIC": 0.06, "HBM": 0.01},
    )  # fmt: skip


@pytest.fixture
def study() -> ScalingStudy:
    gap = ScalingPoint(8, 1, 4096, "infeasible", message=NEEDS)
    return ScalingStudy(
        "s", "A", "ZionEX", "weak", [point(64, 0.7, "NIC"), gap, point(16, 1.0, "HBM"), point(32, 0.9, "NIC")]
    )


def payload(page: str) -> list[dict]:
    return json.loads(re.search(r'id="payload">(.*?)</script>', page, re.DOTALL)[1])["scaling"]["lines"][0]["points"]


def test_points_stand_in_order_and_an_infeasible_one_has_no_numbers(study):
    points = payload(render_scaling(study))
    assert [p["world_size"] for p in points] == [8, 16, 32, 64]
    assert points[0]["throughput"] is None, "null is what the charts draw as a gap"
    assert points[0]["words"] == "does not fit"


def test_the_numbers_of_an_infeasible_point_are_listed(study):
    assert NEEDS in render_scaling(study)


def words(study: ScalingStudy) -> str:
    return re.sub("<.*?>", "", headline(study).html)


def test_the_headline_names_the_last_size(study):
    assert words(study) == "A, weak scaling from 16 to 64 GPUs: 459 k samples/s at 64 (70.0 % efficiency)."


def test_the_headline_names_the_best_size_beside_the_last_where_more_gpus_do_less(study):
    turned = ScalingStudy("s", "A", "ZionEX", "strong", [*study.points, point(128, 0.1, "host")])
    assert words(turned) == (
        "A, strong scaling from 16 to 128 GPUs: 459 k samples/s at 64 (70.0 % efficiency), the most, "
        "and 131 k samples/s at 128 (10.0 % efficiency)."
    )


@pytest.mark.parametrize(("share", "doubtful"), [(5.0, False), (51.0, True)])
def test_a_warning_that_concerns_much_of_the_time_stands_beside_the_verdict(study, share, doubtful):
    """Its share at each size is in a sentence on top, and its points are hollow; every warning is in the list below."""
    text = f"network: messages, which nobody measured (9 tasks, {share} % of the task time)"
    far = replace(point(128, 0.6, "host"), warnings=(text,))
    warned = ScalingStudy("s", "A", "ZionEX", "weak", [*study.points, far])
    sentence = f"network: messages, which nobody measured: {share} % of the task time at 128 GPUs"
    page = render_scaling(warned)
    assert any(sentence in found.html for found in findings(warned)) is doubtful
    assert sentence in page.split('id="warnings"')[1]
    assert [p["doubtful"] for p in payload(page)] == [False] * 4 + [doubtful]


def test_the_bound_is_told_by_runs_of_sizes(study):
    assert findings(study)[0].html == "The iteration is bound by HBM at 16 GPUs; NIC from 32 to 64 GPUs."


def test_a_study_without_any_result_still_is_a_page(study):
    empty = ScalingStudy("s", "A", "ZionEX", "strong", [p for p in study.points if p.status != "ok"])
    page = render_scaling(empty)
    assert "none of 1 size ran" in page
    assert NEEDS in page


@pytest.fixture
def lines(study) -> ScalingStudy:
    """Two lines: the second is twice as fast at 16 ranks, a quarter as fast at 64, and has a refused point."""
    speeds = {16: 2.0, 32: 1.0, 64: 0.25}
    second = [
        replace(p, line="b", throughput_per_s=speeds[p.world_size] * p.throughput_per_s, speedup=1.0)
        for p in study.results
    ]
    first = [replace(p, line="a", speedup=1.0) for p in study.points]
    refused = ScalingPoint(8, 1, None, "refused", message="more servers than nodes", line="b")
    return replace(study, points=[*second, *first, refused], lines=("a", "b"), beside=("strategy",))


def test_the_headline_of_lines_names_the_fastest_at_the_last_size(lines):
    assert words(lines) == (
        "A, weak scaling: a is the fastest at 64 GPUs: 459 k samples/s (70.0 % efficiency), 4 times b."
    )


def test_findings_of_lines_name_the_fastest_along_the_axis_and_the_gaps_of_each(lines):
    told = [re.sub("<.*?>", "", finding.html) for finding in findings(lines)]
    assert told[0] == ("Fastest: b at 16 GPUs; a and b, equal within the interval at 32 GPUs; a at 64 GPUs.")
    assert "b: No result at 8 GPUs: see the table for the reasons." in told


def test_a_page_of_lines_has_each_with_its_points_along_the_axis(lines):
    page = render_scaling(lines)
    made = json.loads(re.search(r'id="payload">(.*?)</script>', page, re.DOTALL)[1])["scaling"]["lines"]
    assert [(line["name"], [p["place"] for p in line["points"]]) for line in made] == [
        ("a", [8, 16, 32, 64]),
        ("b", [8, 16, 32, 64]),
    ]
    assert "refused: more servers than nodes" in page


def test_words_on_the_axis_are_listed_and_never_a_range(study):
    named = [replace(p, label=f"f{p.world_size}", place=float(place)) for place, p in enumerate(study.results)]
    over = replace(study, points=named, over="framework", numeric=False, scaling=None)
    assert findings(over)[0].html == "The iteration is bound by HBM at framework f16; NIC at framework f32, f64."
    assert words(over).startswith("A, over framework: fastest at framework f64: 459 k samples/s, ")


def test_a_warning_of_some_lines_has_their_names(lines):
    text = "host: assumed"
    some = [replace(p, warnings=(text,)) if p.line == "b" and p.status == "ok" else p for p in lines.points]
    assert warnings_of(replace(lines, points=some)) == ["b: host: assumed (at 16, 32, 64 GPUs)"]
    every = [replace(p, warnings=(text,)) for p in lines.results]
    assert warnings_of(replace(lines, points=every)) == ["host: assumed (at 16, 32, 64 GPUs)"]


def test_lines_whose_difference_is_below_the_interval_are_equal_within_it(lines):
    """The fastest may be as slow as the other, or slower: it is not named alone."""
    near = [replace(p, throughput_p10_per_s=0.2 * p.throughput_per_s) if p.status == "ok" else p for p in lines.points]
    unsure = replace(lines, points=near)
    assert "a and b, equal within the interval" in words(unsure)
    told = re.sub("<.*?>", "", findings(unsure)[0].html)
    assert told == (
        "Fastest: b and a, equal within the interval at 16 GPUs; a and b, equal within the interval from 32 to 64 GPUs."
    )
    sure = [replace(p, throughput_p10_per_s=0.9 * p.throughput_per_s) if p.status == "ok" else p for p in lines.points]
    assert "equal" not in words(replace(lines, points=sure))


def test_constants_that_both_lines_share_leave_their_ratio_sure(lines):
    """All of the uncertainty is of one constant: what it does to both does not make them equal."""
    common = {"cluster.fabric": 0.5}
    near = [
        replace(p, throughput_p10_per_s=0.2 * p.throughput_per_s, effects=common) if p.status == "ok" else p
        for p in lines.points
    ]
    assert "equal" not in words(replace(lines, points=near))
    apart = [
        replace(p, effects={p.line: 0.5}) if p.status == "ok" else p for p in near
    ]  # each has a constant of its own
    assert "a and b, equal within the interval" in words(replace(lines, points=apart))


def test_lines_within_a_percent_are_equal_however_sure(lines):
    same = [
        replace(
            p,
            throughput_per_s=(1.0 if p.line == "a" else 0.995) * 1e5,
            throughput_p10_per_s=0.9e5 if p.line == "a" else 0.89e5,
            effects={"cluster.fabric": 0.1},
        )
        if p.status == "ok"
        else p
        for p in lines.points
    ]
    assert "a and b, equal within the interval" in words(replace(lines, points=same))

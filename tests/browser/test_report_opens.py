"""The page of a run in a real Chromium: it opens offline without a complaint and its timeline answers."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import dlrmsim
from reports.run_report import render_run
from reports.scaling_report import render_scaling
from reports.scaling_study import ScalingPoint, ScalingStudy
from scenarios.uncertainty.conformal import Quantiles
from scenarios.uncertainty.constant import Constant
from scenarios.uncertainty.interval import interval, sources_of
from scenarios.uncertainty.machine import Weighted
from tests.page_visits import CANVAS, Visit
from tests.reports_sample import sample_findings
from tests.trace_files import two_ranks, write_ranks
from workloads.dlrm.sharding import PHASES

pytestmark = pytest.mark.browser

WORLD_SIZE = 32
SECTIONS = (
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
CHARTS = (
    "parts-chart",
    "ranks-chart",
    "joint-chart",
    "gains-chart",
    "levers-chart",
    "path-categories",
    "path-operators",
    "path-sections",
    "memory-0",
)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "run.html").write_text(render_run(sample_findings(WORLD_SIZE)), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def opened(context, files) -> Iterator[Visit]:
    page = context.new_page()
    visit = Visit(page)
    visit.open(files / "run.html")
    yield visit
    page.close()


@pytest.fixture
def visit(opened) -> Visit:
    """The page as the test before left it, with one iteration in its timeline."""
    opened.page.mouse.move(5, 5)
    opened.page.click("#timeline-fit")
    opened.page.wait_for_timeout(100)
    return opened


def wait_for_ranks(visit: Visit, expected: list[str]) -> None:
    visit.page.wait_for_selector(f"{CANVAS}[data-ranks='{','.join(expected)}']", timeout=5_000)


def test_it_opens_offline_without_a_complaint(visit):
    assert visit.complaints == []
    assert visit.requests == []


def test_the_table_of_uncertain_constants_is_not_cut_off(context, tmp_path):
    """Its columns fit, also with long keys and sentences."""
    key, words = "cluster.node.cpu.rates.memory_bytes_per_s_of_sockets", "a sentence with many words " * 5
    behind = {"NIC": [Weighted(1.0, Constant(key, "assumed", 0.3, words, words))]}
    found = interval(1.0, sources_of({"NIC": 0.6}, behind, []), "one node", Quantiles(-1.28, 1.28, 100))
    file = tmp_path / "run.html"
    file.write_text(render_run(replace(sample_findings(WORLD_SIZE), interval=found)), encoding="utf-8")
    page = context.new_page()
    Visit(page).open(file)
    table = "document.querySelector('#uncertainty .scroll')"
    assert page.evaluate(f"{table}.scrollWidth") <= page.evaluate(f"{table}.clientWidth")
    page.close()


def test_every_section_and_chart_is_drawn(visit):
    for anchor in SECTIONS:
        assert visit.page.is_visible(f"section#{anchor} h2")
    for anchor in CHARTS:
        assert visit.page.is_visible(f"#{anchor} .main-svg >> nth=0"), f"chart {anchor} has no drawing"


def test_a_rank_chosen_in_the_selector_is_drawn(visit):
    before, picture, redraws = visit.shown(), visit.pixels(), visit.number("redraws")
    other = next(str(rank) for rank in range(WORLD_SIZE) if str(rank) not in before)
    visit.page.select_option("#timeline-select", other)
    wait_for_ranks(visit, [*before, other])
    assert visit.number("redraws") > redraws
    assert visit.pixels() != picture, "the canvas itself must have changed"


def test_a_rank_typed_as_a_number_is_drawn_and_can_be_hidden(visit):
    before = visit.shown()
    other = next(str(rank) for rank in reversed(range(WORLD_SIZE)) if str(rank) not in before)
    visit.page.fill("#timeline-number", other)
    visit.page.press("#timeline-number", "Enter")
    wait_for_ranks(visit, [*before, other])
    visit.page.click(f"button[aria-label='Hide rank {other}']")
    wait_for_ranks(visit, before)


def test_a_rank_that_does_not_exist_is_refused_in_words(visit):
    before = visit.shown()
    visit.page.fill("#timeline-number", str(WORLD_SIZE))
    visit.page.press("#timeline-number", "Enter")
    assert f"0 to {WORLD_SIZE - 1}" in visit.page.inner_text("#timeline-message")
    assert visit.shown() == before


def test_zooming_narrows_the_time_shown_and_one_iteration_restores_it(visit):
    begin, end = visit.number("from"), visit.number("to")
    visit.page.click("#timeline-in")
    visit.page.wait_for_selector(f"{CANVAS}:not([data-to='{end:.0f}'])", timeout=5_000)
    assert begin < visit.number("from") < visit.number("to") < end
    visit.page.click("#timeline-fit")
    visit.page.wait_for_selector(f"{CANVAS}[data-to='{end:.0f}']", timeout=5_000)


def test_the_pointer_tells_name_and_times_of_a_task(visit):
    visit.page.locator(CANVAS).scroll_into_view_if_needed()
    box = visit.page.locator(CANVAS).bounding_box()
    visit.page.mouse.move(
        box["x"] + 0.35 * box["width"], box["y"] + 30 + 28 + 3 * 25 + 12
    )  # comm lane of the first rank
    visit.page.wait_for_selector("#timeline-tip:not([hidden])", timeout=5_000)
    tip = visit.page.inner_text("#timeline-tip")
    assert "output_dist" in tip
    assert "duration" in tip


def test_tasks_of_a_stream_that_overlap_are_drawn_in_lanes_of_their_own(visit):
    """Of three tasks of a stream the second lies within the first; the third follows the second."""
    lanes = visit.page.evaluate(
        """() => {
          const group = {streams: ["host", "comm"], stream_of: [1, 1, 1, 0], names: ["a", "b", "c", "d"], kinds: []};
          const data = {groups: [group], group_of: [0], ranks: [0], iterations: [{index: 0}], critical: []};
          const columns = {start: [0, 10, 20, 0], duration: [50, 10, 30, 5], waiting: [0, 0, 0, 0]};
          return dlrmsim.timelineModel.create(data, columns).lanes(0);
        }"""
    )
    assert lanes == [
        {"stream": "host", "rows": [3]},
        {"stream": "comm", "rows": [0]},
        {"stream": "comm", "rows": [1, 2]},
    ]


def test_a_segment_of_the_critical_path_jumps_to_the_timeline(visit):
    end = visit.number("to")
    visit.page.click("#critical-path tbody tr >> nth=0")
    visit.page.wait_for_selector(f"{CANVAS}:not([data-to='{end:.0f}'])", timeout=5_000)
    assert visit.number("to") - visit.number("from") < 0.9 * end


def test_dark_and_light_both_draw_without_a_complaint(visit):
    picture = visit.pixels()
    visit.page.click("#theme")
    visit.page.wait_for_timeout(200)
    assert visit.pixels() != picture
    assert visit.complaints == []


@pytest.mark.parametrize("ranks", [(0, 1), (1,)], ids=["every rank", "one rank of two"])
def test_the_page_of_a_trace_opens_offline(context, tmp_path, ranks):
    """The sections of a run, and those only a trace has; a trace of some ranks only opens as well."""
    files = write_ranks(tmp_path, two_ranks())
    dlrmsim.import_traces([files[rank] for rank in ranks], out=tmp_path / "out")
    visit = Visit(context.new_page())
    visit.open(tmp_path / "out" / "report.html")
    for anchor in ("timeline", "breakdown", "steps", "stragglers", "critical-path", "collectives", "kernels", "gaps"):
        assert visit.page.is_visible(f"section#{anchor} h2")
    for anchor in ("parts-chart", "path-categories", "path-operators", "path-sections"):
        assert visit.page.is_visible(f"#{anchor} .main-svg >> nth=0"), f"chart {anchor} has no drawing"
    ranks_drawn = len(ranks) > 1
    assert (visit.page.locator("#ranks-chart .main-svg").count() > 0) is ranks_drawn, "one rank has nothing to compare"
    assert visit.shown()[0] in map(str, ranks)
    assert visit.complaints == []
    assert visit.requests == []


def test_a_scaling_page_opens_without_a_complaint(context, tmp_path):
    points = [
        ScalingPoint(8, 1, 4096, "infeasible", message="rank 3 needs 98.2 GB of HBM, 37.2 GB are usable"),
        ScalingPoint(16, 2, 8192, "ok", 0.05, 163_840.0, 1.0, {"compute": 1.0}, "NIC", {"NIC": 0.06}),
        ScalingPoint(32, 4, 16384, "ok", 0.06, 273_066.0, 0.83, {"compute": 1.0}, "NIC", {"NIC": 0.06}),
    ]
    file = tmp_path / "scaling.html"
    file.write_text(render_scaling(ScalingStudy("s", "A", "ZionEX", "weak", points)), encoding="utf-8")
    visit = Visit(context.new_page())
    visit.open(file)
    for chart in ("throughput", "efficiency", "breakdown", "bound"):
        assert visit.page.is_visible(f"#{chart}-chart .main-svg >> nth=0")
        assert "does not fit" in visit.page.inner_text(f"#{chart}-chart"), "an infeasible size is a gap that says so"
    assert visit.complaints == []
    assert visit.requests == []


def test_lines_of_a_sweep_name_their_gaps_and_hide_together(context, tmp_path):
    """A click in the legend hides a line with its band and its crosses; a cross says why there is no result."""
    band = {"throughput_p10_per_s": 150_000.0, "throughput_p90_per_s": 290_000.0, "speedup": 1.0}
    ran = [
        ScalingPoint(
            size, 1, 4096, "ok", 0.05, 1e4 * size, 1.0, {"compute": 1.0}, "NIC", {"NIC": 0.06}, line=line, **band
        )
        for line in ("grpc_ps", "nccl")
        for size in (16, 32)
    ]
    gap = ScalingPoint(8, 1, None, "refused", message="more servers than nodes", line="grpc_ps")
    study = ScalingStudy("s", "A", "ZionEX", "weak", [*ran, gap], lines=("grpc_ps", "nccl"), beside=("strategy",))
    file = tmp_path / "scaling.html"
    file.write_text(render_scaling(study), encoding="utf-8")
    visit = Visit(context.new_page())
    visit.open(file)
    page = visit.page
    for chart in ("throughput", "efficiency", "speedup", "breakdown-chart-0", "breakdown-chart-1", "bound-chart-1"):
        anchor = chart if "chart" in chart else f"{chart}-chart"
        assert page.is_visible(f"#{anchor} .main-svg >> nth=0")
    page.locator("#throughput-chart").scroll_into_view_if_needed()
    cross = page.locator("#throughput-chart .xy2 path.point").bounding_box()
    page.mouse.move(cross["x"] + cross["width"] / 2, cross["y"] + cross["height"] / 2)
    page.wait_for_selector("#throughput-chart .hoverlayer .hovertext", timeout=2_000)
    assert "more servers than nodes" in page.text_content("#throughput-chart .hoverlayer")
    page.locator("#throughput-chart .legendtoggle >> nth=0").click()
    page.wait_for_function(
        "() => document.querySelector('#throughput-chart').data.filter(trace => trace.legendgroup === 'grpc_ps')"
        ".every(trace => trace.visible === 'legendonly')",
        timeout=3_000,
    )
    shown = "plot => plot.data.filter(trace => trace.visible !== 'legendonly').map(trace => trace.legendgroup)"
    assert set(page.eval_on_selector("#throughput-chart", shown)) == {"nccl"}
    assert visit.complaints == []
    assert visit.requests == []
    page.close()


def test_the_page_of_a_collective_opens_offline(context, tmp_path):
    """Two numbers of ranks are two lines in each chart, with measured points beside one of them."""
    dlrmsim.collective("dgx_h100", op="all_reduce", ranks=[8, 16], out=tmp_path / "collective.html")
    page = context.new_page()
    visit = Visit(page)
    visit.open(tmp_path / "collective.html")
    for chart in ("busbw-chart", "time-chart"):
        shown = "plot => plot.data.map(trace => trace.name).filter(name => name)"  # intervals have no name
        names = page.eval_on_selector(f"#{chart}", shown)
        assert names == ["8 ranks", "8 ranks, measured", "16 ranks"]
    axes = "plot => [plot._fullLayout.xaxis.type, plot._fullLayout.yaxis.type]"
    assert page.eval_on_selector("#busbw-chart", axes) == ["log", "linear"]
    assert page.eval_on_selector("#time-chart", axes) == ["log", "log"]
    assert visit.complaints == []
    assert visit.requests == []
    page.close()


def test_the_page_of_a_plan_opens_offline(context, tmp_path):
    """Bars over 16 ranks for every phase, planners beside each other."""
    settings = ["nodes=2", "workload.sharding.steps=2"]
    study = dlrmsim.plan("mlperf_dlrm_v1", settings=settings, compare=True, out=tmp_path / "a").study
    page = context.new_page()
    visit = Visit(page)
    visit.open(tmp_path / "a" / "plan.html")
    bars = "plot => plot.data.map(trace => [trace.name, trace.y.length])"
    assert page.eval_on_selector("#work-chart", bars) == [[phase, 16] for phase in PHASES]
    assert page.eval_on_selector("#planners-chart", "plot => plot.data[0].y.length") == len(study.compared) - 1
    for chart in ("memory", "exchange", "shards"):
        assert page.is_visible(f"#{chart}-chart .main-svg >> nth=0")
    page.click("#theme")
    assert visit.complaints == []
    assert visit.requests == []
    page.close()


def test_the_chart_of_all_ranks_answers_anywhere(visit):
    """Every place of the colours names the rank below it, however far from a line, and a click shows that rank."""
    visit.page.locator("#ranks-chart").scroll_into_view_if_needed()
    box = visit.page.locator("#ranks-chart .nsewdrag").bounding_box()
    for across in (0.1, 0.5, 0.9):
        for down in (0.05, 0.5, 0.95):
            visit.page.mouse.move(5, 5)
            visit.page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])
            visit.page.wait_for_selector("#ranks-chart .hoverlayer .hovertext", timeout=2_000)
    visit.page.mouse.click(box["x"] + 0.9 * box["width"], box["y"] + 0.95 * box["height"])
    near = range(round(0.8 * WORLD_SIZE), WORLD_SIZE)
    visit.page.wait_for_function(
        "([canvas, ranks]) => ranks.includes(document.querySelector(canvas).dataset.ranks.split(',').at(-1))",
        arg=[CANVAS, [str(rank) for rank in near]],
        timeout=2_000,
    )

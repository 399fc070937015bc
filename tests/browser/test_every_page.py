"""Every kind of page at the widths of a tablet, a laptop and a desk: nothing is cut, nothing complains.

Pages are measured in DejaVu Sans, the widest of the fonts that systems have by default.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

import dlrmsim
from reports.measured_report import render_measured
from tests.captured_jobs import small_job, written
from tests.page_visits import Visit
from tests.trace_files import two_ranks, write_ranks

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WIDTHS = (800, 1440, 1920)

TROUBLES = """() => {
  const found = [], slack = 1.5;
  const scrolls = (element) => {
    for (let e = element; e && e !== document.body; e = e.parentElement)
      if (["auto", "scroll"].includes(getComputedStyle(e).overflowX)) return true;
    return false;
  };
  const visible = (rect) => rect.width > 0 && rect.height > 0;
  const width = document.documentElement.scrollWidth;
  if (width > innerWidth) found.push(`the page scrolls: ${width} px`);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const own = node.parentElement, said = node.textContent.trim();
    if (!said || ["SCRIPT", "STYLE", "OPTION", "NOSCRIPT", "TITLE"].includes(own.tagName.toUpperCase())) continue;
    if (!own.checkVisibility({ contentVisibilityAuto: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const drawing = own.closest(".plot, svg");
    let box = own;
    const inline = () => getComputedStyle(box).display.startsWith("inline") && box !== document.body;
    while (!drawing && inline()) box = box.parentElement;
    const scrolled = ["auto", "scroll"].includes(getComputedStyle(box).overflowX);
    const outer = (drawing ?? box).getBoundingClientRect();
    for (const rect of range.getClientRects()) {
      if (!visible(rect) || !visible(outer)) continue;
      const out = !scrolled && (rect.left < outer.left - slack || rect.right > outer.right + slack);
      const high = drawing && (rect.top < outer.top - slack || rect.bottom > outer.bottom + slack);
      const off = !scrolls(own) && (rect.left < -slack || rect.right > innerWidth + slack);
      if (out || high || off) { found.push(`<${own.tagName.toLowerCase()}> ${said.slice(0, 60)}`); break; }
    }
  }
  return found;
}"""
"""Texts that leave their box, their drawing or the page, which is where they are cut."""


@dataclass(frozen=True)
class Bar:
    lane: str
    begin_s: float
    end_s: float
    kind: str
    name: str


def run_page(folder: Path) -> Path:
    """24 nodes of a machine that has 16: warnings; a price; a bound in words."""
    settings = ["nodes=24", "workload.global_batch_size=98304", "cost.gpu_hour_usd=2.5"]
    return dlrmsim.run("zionex_a_128", settings=settings, out=folder / "run").folder / "report.html"


def transformer_page(folder: Path) -> Path:
    """A pipeline: several programs, messages, and long names of parts."""
    settings = ["nodes=4", "workload.sequences=16", "workload.parallel.virtual_stages=2"]
    done = dlrmsim.run("llama3_70b_3d_256", settings=settings, levers=False, out=folder / "run")
    return done.folder / "report.html"


def requests_page(folder: Path) -> Path:
    """Latency over load, lookups by tier, a queue over time."""
    settings = ["world_size=2", "workload.requests_per_s=50000", "workload.simulated_time=1s", "workload.max_batch=64"]
    done = dlrmsim.run("hps_mlperf_dlrm_dcnv2", settings=settings, levers=False, out=folder / "run")
    return done.folder / "report.html"


def sequences_page(folder: Path) -> Path:
    """Bars of 32 ranks, a rank that serves several times the mean with its remedies, a time to the target."""
    settings = [
        "nodes=4",
        "workload.sharding.planner=row_wise",
        "workload.global_batch_size=2048",
        "workload.indices={distribution: zipf, exponent: 1.3}",
        "workload.time_to_target={samples: 2e9, evaluation_samples: 2e6, evaluate_every: 1e8}",
    ]
    page = dlrmsim.run("mlperf_dlrm_v4_hstu", settings=settings, out=folder / "run").folder / "report.html"
    assert "Other shardings that were tried are faster" in page.read_text(encoding="utf-8")
    return page


def many_sequences_page(folder: Path) -> Path:
    """Lines over some of 1,024 ranks; an iteration that is a forward pass."""
    settings = ["nodes=128", "workload.global_batch_size=8192", "workload.mode=eval"]
    done = dlrmsim.run("mlperf_dlrm_v4_hstu", settings=settings, levers=False, out=folder / "run")
    return done.folder / "report.html"


def captured_page(folder: Path) -> Path:
    """Memory over a step, with a long path of a module at the peak; blocks without parameters."""
    job = small_job(8)
    path = "model.decoder.layers.31.feed_forward.experts.gate_and_up_projection"
    memory = msgspec.structs.replace(job.programs[0].memory, module=path)
    job = msgspec.structs.replace(job, programs=(msgspec.structs.replace(job.programs[0], memory=memory),))
    return dlrmsim.run(written(job, folder / "job"), levers=False, out=folder / "run").folder / "report.html"


def scaling_page(folder: Path) -> Path:
    """Sizes that do not fit, that are measured, and that are beyond what is measured; advice."""
    over, settings = "world_size=1,2,4,8,16,64,256", ["cluster=zionex", "cost.gpu_hour_usd=2.5"]
    out = folder / "sizes"
    dlrmsim.advise("mlperf_dlrm_v1", over=over, objective="cost", settings=settings, workers=1, out=out)
    return out / "sizes.html"


def lines_page(folder: Path) -> Path:
    """Lines with long names, points that do not fit and points that are refused."""
    over = ["workload.sharding.planner=greedy,row_wise", "precision.dense=fp16,fp32", "world_size=1,2,4"]
    done = dlrmsim.sweep("mlperf_dlrm_v1", over=over, settings=["cluster=zionex"], out=folder / "lines", workers=1)
    return done.folder / "scaling.html"


def words_page(folder: Path) -> Path:
    """Bars of two lines over words."""
    over = ["precision.dense=fp16,fp32", "workload.framework=pytorch,neo"]
    done = dlrmsim.sweep("mlperf_dlrm_v1", over=over, settings=["nodes=1"], out=folder / "words", workers=1)
    return done.folder / "scaling.html"


def collective_page(folder: Path) -> Path:
    dlrmsim.collective("dgx_h100", op="all_to_all", ranks=[8, 1024], out=folder / "collective.html")
    return folder / "collective.html"


def plan_page(folder: Path) -> Path:
    settings = ["nodes=2", "workload.sharding.steps=2"]
    dlrmsim.plan("mlperf_dlrm_v1", settings=settings, compare=True, out=folder / "plan")
    return folder / "plan" / "plan.html"


def strategies_page(folder: Path) -> Path:
    dlrmsim.plan("mlperf_dlrm_v1", settings=["nodes=1"], search="strategies", compare=True, out=folder / "plan")
    return folder / "plan" / "plan.html"


def blocks_page(folder: Path) -> Path:
    settings = ["workload.model=alexnet", "workload.images_per_rank=3584"]
    dlrmsim.plan("karma_resnet50", settings=settings, out=folder / "plan")
    return folder / "plan" / "plan.html"


def divisions_page(folder: Path) -> Path:
    settings = ["nodes=2", "workload.model=gpt2_large", "workload.sequences=32", "cluster.node.gpu.memory_bytes=20 GB"]
    dlrmsim.plan("llama3_8b_fsdp_128", settings=settings, out=folder / "plan")
    return folder / "plan" / "plan.html"


def import_page(folder: Path) -> Path:
    (folder / "imported").mkdir()
    dlrmsim.import_traces(write_ranks(folder / "imported", two_ranks(3)), out=folder / "import")
    return folder / "import" / "report.html"


def one_rank_page(folder: Path) -> Path:
    """One bar, and no distribution over ranks."""
    (folder / "imported").mkdir()
    dlrmsim.import_traces(write_ranks(folder / "imported", two_ranks()[:1]), out=folder / "import")
    page = folder / "import" / "report.html"
    assert "All 1 ranks" not in page.read_text(encoding="utf-8")
    return page


def replay_page(folder: Path) -> Path:
    (folder / "replayed").mkdir()
    traces = write_ranks(folder / "replayed", two_ranks())
    return (dlrmsim.replay(traces, cluster="dgx_h100", out=folder / "replay").folder or folder) / "report.html"


def arrivals_page(folder: Path) -> Path:
    jobs = """cluster: dgx_a100_80
nodes: 4
arrivals_per_hour: 60
simulated_jobs: 1000
jobs:
  - {scenario: mlperf_dlrm_v1, iterations: 100_000, nodes: [1, 2, 4], deadline: {low: 0.1, high: 1}}
"""
    (folder / "jobs.yaml").write_text(jobs, encoding="utf-8")
    done = dlrmsim.advise(folder / "jobs.yaml", arrivals=True, workers=1, out=folder / "arrivals")
    assert done.page is not None
    return done.page


def suites_page(folder: Path) -> Path:
    dlrmsim.validate(["v100_nccl", "nccl_a100"], out=folder / "suites.html")
    return folder / "suites.html"


def measured_page(folder: Path) -> Path:
    """Two ranks, measured and predicted; a class without an error."""
    kinds = ("embedding_forward", "gemm", "collectives", "embedding_update")
    bars = [
        Bar("collectives" if kind == "collectives" else "host", 0.004 * i, 0.004 * i + 0.003, kind, f"{kind}.{i}")
        for i, kind in enumerate(kinds)
    ]
    case = {
        "metric": "iteration",
        "measured": 0.016,
        "predicted": 0.0164,
        "error_pct": 2.5,
        "noise_pct": 1.0,
        "share": 1.0,
    }
    cases = [case, {**case, "metric": "collectives", "error_pct": None}]
    run = {"scenario": "criteo_small", "world_size": 2, "folder": "runs/criteo_small", "cases": cases}
    keys = ("mape_pct", "median_pct", "geomean_pct", "bias_pct", "worst_pct", "noise_pct")
    statistics = {"iteration": {"runs": 1, **dict.fromkeys(keys, 2.5)}, "rest": {"runs": 1, **dict.fromkeys(keys)}}
    file = folder / "measured.html"
    file.write_text(render_measured([(run, [bars, bars], [bars, bars])], statistics, "1.0"), encoding="utf-8")
    return file


PAGES: dict[str, Callable[[Path], Path]] = {
    "run": run_page,
    "transformer": transformer_page,
    "requests": requests_page,
    "sequences": sequences_page,
    "sequences of many ranks": many_sequences_page,
    "captured": captured_page,
    "scaling": scaling_page,
    "lines": lines_page,
    "words": words_page,
    "collective": collective_page,
    "plan": plan_page,
    "divisions": divisions_page,
    "strategies": strategies_page,
    "blocks": blocks_page,
    "import": import_page,
    "one rank": one_rank_page,
    "replay": replay_page,
    "arrivals": arrivals_page,
    "suites": suites_page,
    "measured": measured_page,
}


def in_dejavu(file: Path) -> Path:
    """The page with its text in DejaVu."""
    text = file.read_text(encoding="utf-8")
    assert text.count("--sans: ") == text.count("--mono: ") == 1
    text = text.replace("--sans: ", '--sans: "DejaVu Sans", ').replace("--mono: ", '--mono: "DejaVu Sans Mono", ')
    (file.parent / "dejavu.html").write_text(text, encoding="utf-8")
    return file.parent / "dejavu.html"


@pytest.mark.parametrize("kind", PAGES)
def test_no_text_is_cut_and_nothing_complains(context, tmp_path, kind):
    """Opened at the least width, then made wider."""
    page = context.new_page()
    page.set_viewport_size({"width": WIDTHS[0], "height": 900})
    visit = Visit(page)
    visit.open(in_dejavu(PAGES[kind](tmp_path)))
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(200)
        assert "\n".join(page.evaluate(TROUBLES)) == "", f"{width} px"
    assert visit.complaints == []
    assert visit.requests == []
    page.close()


def test_every_template_of_a_page_is_opened_here():
    """A page is a call of `reports.page.assemble`; a new kind needs a page above."""
    modules = [file.stem for file in Path(dlrmsim.__file__).parents[1].glob("reports/**/*_report.py")]
    known = {"arrival", "run", "scaling", "collective", "plan", "strategy", "trace", "suite", "measured"}
    assert {module.removesuffix("_report") for module in modules} == known

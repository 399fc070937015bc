"""Scenarios out of core: order of times over batches, refusals with their remedy, plans that run, wrong input."""

from __future__ import annotations

import json
from functools import cache

import pytest

import dlrmsim
from inputs.errors import InfeasibleError, InputError
from scenarios.family import FAMILIES
from scenarios.prepare import prepare
from scenarios.progress import Silent
from scenarios.resolve import asked_again, changed, load_scenario
from scenarios.runner import simulation_of

ALEXNET = ("workload.model=alexnet", "workload.images_per_rank=3584")
"""More images than fit."""

BLOCKS = [{"last": "relu_0", "decision": "recompute"}, {"last": "bias_7", "decision": "keep"}]
PLAN = {"network": "alexnet", "blocks": BLOCKS}


def karma(*settings: str):
    return load_scenario("karma_resnet50", settings)


@cache
def seconds(*settings: str) -> float:
    return simulation_of(karma(*settings), Silent()).analysis.iteration.seconds


def has_room(*settings: str) -> bool:
    try:
        prepare(karma(*settings), Silent())
    except InfeasibleError:
        return False
    return True


@pytest.mark.parametrize("images", [64, 160, 192])
def test_planned_blocks_lie_between_memory_and_one_decision_for_all(images):
    """Each mode where it fits; on the same GPU with memory for all, nothing is faster than keeping."""
    job = ("workload.model=vgg16", f"workload.images_per_rank={images}")
    planned = seconds(*job)
    roomy = seconds(*job, "workload.out_of_core=none", "cluster.node.gpu.memory_bytes=64 GB")
    assert roomy <= planned
    if has_room(*job, "workload.out_of_core=none"):
        assert roomy == planned
    for mode in ("swap", "recompute", "checkpoint"):
        setting = f"workload.out_of_core={mode}"
        if has_room(*job, setting):
            assert planned < seconds(*job, setting)


def test_what_fits_is_neither_copied_nor_repeated():
    done = simulation_of(karma("workload.model=alexnet", "workload.images_per_rank=512"), Silent())
    section = done.prepared.job.summary_sections()["out_of_core"]
    assert section["copied_bytes"] == {"d2h": 0.0, "h2d": 0.0}
    assert section["decisions"]["keep"] == len(section["blocks"])
    assert done.analysis.iteration.seconds == seconds(
        "workload.model=alexnet", "workload.images_per_rank=512", "workload.out_of_core=none"
    )


def test_a_fast_link_leaves_the_time_in_memory():
    """Copies cost their starts, hundreds of microseconds at most, in an iteration of seconds."""
    fast = ("cluster.node.pcie_bytes_per_s=1000000 GB/s", "cluster.node.ddr_bytes_per_s=1000000 GB/s")
    in_memory = seconds(*ALEXNET, "workload.out_of_core=none", "cluster.node.gpu.memory_bytes=64 GB")
    assert in_memory <= seconds(*ALEXNET, *fast) <= in_memory + 4e-4


def test_the_memory_of_a_run_is_within_its_capacity():
    memory = prepare(karma(*ALEXNET), Silent()).memory
    assert memory.fits
    swapped = float(memory.items("ddr")["swapped activations"][0])
    assert swapped == prepare(karma(*ALEXNET), Silent()).job.summary_sections()["out_of_core"]["swapped_bytes"]


def test_a_refusal_names_the_remedy():
    resolved = karma(*ALEXNET, "workload.out_of_core=none")
    with pytest.raises(InfeasibleError, match=r"would fit: --set workload\.out_of_core=karma \(hbm ") as refused:
        prepare(resolved, Silent())
    for settings in refused.value.remedies:
        assert prepare(asked_again(resolved, settings), Silent()).memory.fits


def test_a_plan_of_ones_own_that_does_not_fit_has_remedies_without_it():
    """On four nodes with a P100 each: blocks otherwise, and partitions with the same batch and with a smaller one."""
    plan = {"network": "alexnet", "blocks": [{"last": "bias_7", "decision": "keep"}]}
    settings = (*ALEXNET, "nodes=4", f"workload.out_of_core_plan={json.dumps(plan)}")
    resolved = load_scenario("tf_resnet50", settings)
    with pytest.raises(InfeasibleError, match="a rank needs more memory than it has") as refused:
        prepare(resolved, Silent())
    found = refused.value.remedies
    assert ["workload.out_of_core=karma" in settings for settings in found] == [True, False, False]
    assert all("workload.out_of_core_plan=null" in settings for settings in found)
    for settings in found:
        assert prepare(asked_again(resolved, settings), Silent()).memory.fits


def test_a_changed_job_takes_its_own_memory():
    """From a plan for blocks to all in memory, which does not fit; to fewer images, which do; and back."""
    placed = prepare(karma(*ALEXNET, "workload.out_of_core=swap"), Silent())
    there = changed(placed.resolved, ["workload.out_of_core=none"])
    with pytest.raises(InfeasibleError, match="a rank needs more memory than it has"):
        placed.job.changed(there, placed.machine)
    fewer = changed(placed.resolved, ["workload.images_per_rank=512", "workload.out_of_core=none"])
    assert placed.job.changed(fewer, placed.machine).workload.out_of_core is None
    in_memory = prepare(fewer, Silent())
    more = placed.job.changed(placed.resolved, placed.machine).workload
    again = in_memory.job.changed(placed.resolved, placed.machine).workload
    assert again.memory().total("hbm") == more.memory().total("hbm")


def test_weights_beyond_device_memory_leave_it_too():
    """A GPU with less memory than weights, gradients and state of VGG-16."""
    small = ("workload.model=vgg16", "workload.images_per_rank=8", "cluster.node.gpu.memory_bytes=3 GB",
             "workload.optimizer.dense=adam")  # fmt: skip
    with pytest.raises(InfeasibleError, match=r"out_of_core=karma --set workload\.weights=swap") as refused:
        prepare(karma(*small, "workload.out_of_core=none"), Silent())
    there = prepare(karma(*small, *refused.value.remedies[0]), Silent())
    assert there.memory.fits
    assert float(there.memory.items("ddr")["optimizer state"][0]) > 0.0


def test_a_full_host_is_refused_with_its_numbers():
    with pytest.raises(InfeasibleError, match=r"ddr: rank 0 needs \S+ GB of 125 MB usable, \S+ GB too much"):
        prepare(karma(*ALEXNET, "workload.out_of_core=swap", "cluster.node.ddr_bytes=1 GB"), Silent())
    repeated = prepare(karma(*ALEXNET, "cluster.node.ddr_bytes=1 MB"), Silent()).job.summary_sections()
    assert repeated["out_of_core"]["swapped_bytes"] == 0.0
    with pytest.raises(InfeasibleError, match="no plan of its blocks fits; the nearest to fitting"):
        prepare(karma(*ALEXNET, "cluster.node.ddr_bytes=1 MB", "workload.images_per_rank=16384"), Silent())


def test_a_plan_is_written_and_runs_as_it_says(tmp_path):
    study = dlrmsim.plan("karma_resnet50", settings=ALEXNET, out=tmp_path / "plan").study
    statistics = json.loads((tmp_path / "plan" / "statistics.json").read_text(encoding="utf-8"))
    again = simulation_of(load_scenario(tmp_path / "plan" / "plan.json"), Silent())
    assert again.analysis.iteration.seconds == study.best.iteration_time_s == statistics["iteration_time_s"]
    assert again.prepared.job.summary_sections()["out_of_core"] == statistics["out_of_core"]
    times = {found["name"]: found["iteration_time_s"] for found in statistics["compared"]}
    assert times["keep"] is None
    assert study.best.iteration_time_s < min(times["swap"], times["checkpoint"])
    assert max(moment.bytes for moment in study.curve) <= study.best.job.room_bytes


def test_a_plan_of_ones_own(tmp_path):
    file = tmp_path / "plan.yaml"
    file.write_text(json.dumps(PLAN), encoding="utf-8")
    resolved = karma(ALEXNET[0], "workload.out_of_core=null", f"workload.out_of_core_plan={file}")
    blocks = prepare(resolved, Silent()).job.summary_sections()["out_of_core"]["blocks"]
    assert [(block["last"], block["decision"]) for block in blocks] == [("relu_0", "recompute"), ("bias_7", "keep")]
    assert karma(ALEXNET[0], "workload.out_of_core=none").hash != resolved.hash


def plan_setting(**changes) -> str:
    return f"workload.out_of_core_plan={json.dumps(PLAN | changes)}"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["workload.out_of_core=recomput"], r"workload\.out_of_core: .*given 'recomput'.*did you mean 'recompute'"),
        (["workload.weights=swapped"], r"workload\.weights: .*given 'swapped'.*did you mean 'swap'"),
        ([plan_setting()], r"workload\.out_of_core_plan: given together with out_of_core; expected one of the two"),
        (
            ["workload.strategy=grpc_ps"],
            r"workload\.out_of_core: out-of-core training .* strategy is grpc_ps; given 'karma'; expected .*horovod",
        ),
        (
            ["workload.out_of_core=none", "workload.weights=swap", "workload.strategy=grpc_ps"],
            r"workload\.weights: out-of-core training needs .* given 'swap'",
        ),
        (
            ["workload.out_of_core=null", plan_setting(network="vgg16")],
            r"workload\.out_of_core_plan\.network: the plan is for another network; given 'vgg16'; expected alexnet",
        ),
        (
            ["workload.out_of_core=null", plan_setting(blocks=[{"last": "relu_99", "decision": "keep"}])],
            r"workload\.out_of_core_plan\.blocks\[0\]\.last: alexnet cannot be cut .*'relu_99'.*did you mean 'relu_",
        ),
        (
            ["workload.out_of_core=null", plan_setting(blocks=BLOCKS[:1])],
            r"workload\.out_of_core_plan\.blocks: blocks are not the whole network in forward order; given 'relu_0'",
        ),
        (
            ["workload.out_of_core=null", plan_setting(blocks=[{"last": "bias_7", "decision": "swop"}])],
            r"workload\.out_of_core_plan\.blocks\[0\]\.decision: .*given 'swop'.*did you mean 'swap'",
        ),
        (["workload.out_of_core=null", "workload.out_of_core_plan=nowhere.yaml"], r"nowhere\.yaml: no such file"),
    ],
)  # fmt: skip
def test_wrong_input_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        karma(*ALEXNET, *settings)


def test_a_wrong_file_names_its_line(tmp_path):
    file = tmp_path / "plan.yaml"
    file.write_text("network: alexnet\nblocks:\n- {last: conv_0, decision: keep}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"plan\.yaml:3: blocks\[0\]\.last: alexnet cannot be cut behind this layer"):
        karma(*ALEXNET, "workload.out_of_core=null", f"workload.out_of_core_plan={file}")


def test_ways_to_plan_have_names():
    planning = FAMILIES.get("convnet").planning
    assert planning.settings("recompute") == ("workload.out_of_core=recompute",)
    with pytest.raises(InputError, match=r"--planner: no such plan of blocks; given 'karm'.*did you mean 'karma'"):
        planning.settings("karm")

"""Rows of single ranks in the section of sequences, settings that are tried for evaluations, memory nearly full."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scenarios.dlrm.sequence_sections import sequence_loads, sequences_of
from scenarios.progress import Silent
from scenarios.resolve import changed
from scenarios.runner import Outcome, simulate
from tests.sequence_jobs import model_data, placed, resolved_job
from workloads.dlrm.model.batch_contents import batch_lookups

LENGTHS = {"distribution": "geometric", "mean": 20.0}
ON_RANKS = ("tflop_on_ranks", "positions_on_ranks", "received_bytes_on_ranks", "served_lookups_on_ranks")
BATCH = 4 * 2 * 3 * 4
"""Samples that four ranks and one, two, three, four and six passes divide."""


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("planner", ["row_wise", "column_wise", "table_wise", "data_parallel"])
def test_rows_of_ranks_are_of_the_iteration_whatever_its_passes(planner: str, mode: str) -> None:
    """Equal lengths, so that the samples of a pass are alike: an iteration has the same work in several passes."""
    keys = {"global_batch_size": BATCH, "sharding": {"planner": planner}, "mode": mode}
    one, *others = (
        sequences_of(placed(model_data(), 4, gradient_accumulation=passes, **keys)[1]) for passes in (1, 2, 3, 6)
    )
    for several in others:
        for key in ON_RANKS:
            assert several[key] == pytest.approx(one[key], rel=1e-12), key
        assert several["gflop_per_sample"] == one["gflop_per_sample"]


@pytest.mark.parametrize("layout", ["jagged", "padded"])
def test_rows_of_ranks_add_up_to_the_samples_of_all_passes(layout: str) -> None:
    """Drawn lengths: a pass stands for all, each rank's operations are its samples' in all of them."""
    for passes in (1, 2, 4):
        keys = {"gradient_accumulation": passes, "global_batch_size": BATCH, "sequence_layout": layout}
        _, workload = placed(model_data(LENGTHS), 4, **keys)
        section, loads = sequences_of(workload), sequence_loads(workload)
        of_sample = section["gflop_per_sample" if layout == "jagged" else "padded_gflop_per_sample"]["layers"]
        assert section["tflop_on_ranks"]["mean"] * 4 == pytest.approx(of_sample / 1e3 * BATCH, rel=1e-12)
        assert loads.flops.sum() == pytest.approx(1e9 * of_sample * BATCH, rel=1e-12)


@pytest.mark.parametrize("lengths", [LENGTHS, {"distribution": "fixed"}])
@pytest.mark.parametrize("batch", [24, 25, 13, 7, 9, 4])
def test_copies_of_an_uneven_batch_serve_its_lookups(batch: int, lengths: dict[str, Any]) -> None:
    """The lookups of each rank's samples, no more: not those of the largest share on every rank."""
    _, workload = placed(model_data(lengths), 4, global_batch_size=batch, sharding={"planner": "data_parallel"})
    (group,) = workload.job.groups
    lookups = batch_lookups(workload.plan.tables, workload.settings)
    own = lookups.sum(axis=0) / (4 if lookups.shape[1] == 1 else 1)
    for kernel in (group.lookup, group.update):
        assert np.broadcast_to(kernel.lookups, 4).sum() == pytest.approx(lookups.sum(), rel=1e-12)
    assert np.broadcast_to(group.lookup.lookups, 4) == pytest.approx(np.broadcast_to(own, 4), rel=1e-12)
    assert group.lookup.row_bytes == pytest.approx(np.asarray(group.unpooled) * 4.0, rel=1e-12)


SLOW = {
    "overlap": {"exchange": False, "all_reduce": False, "weight_gradients": False},
    "precision": dict.fromkeys(("forward_all_to_all", "backward_all_to_all", "all_reduce"), "fp32"),
}
"""What overlaps or narrower numbers may improve, both of the forward and of the backward pass."""
OF_BACKWARD = (
    "workload.overlap.all_reduce",
    "workload.overlap.weight_gradients",
    "precision.backward_all_to_all",
    "precision.all_reduce",
)
OF_FORWARD = ("workload.overlap.exchange", "precision.forward_all_to_all")


def settings_tried(mode: str) -> set[str]:
    """Keys of the settings that a run names as candidates."""
    found: Outcome = simulate(resolved_job(model_data(LENGTHS), 8, mode=mode, **SLOW), Silent())
    return {candidate.setting.partition("=")[0] for candidate in found.prepared.job.candidates(found.bound)}


def test_settings_of_a_backward_pass_are_not_tried_for_evaluations() -> None:
    """An evaluation has none; those of the forward pass are tried as in training."""
    train, evaluation = (settings_tried(mode) for mode in ("train", "eval"))
    assert train - evaluation == set(OF_BACKWARD)
    assert set(OF_FORWARD) <= evaluation <= train


@pytest.mark.parametrize(("share", "noted"), [(0.97, True), (0.96, True), (0.94, False), (0.5, False)])
def test_memory_that_is_nearly_full_is_noted(share: float, noted: bool) -> None:
    """From 95 % of the fullest rank's memory: another batch may have longer histories."""
    resolved = resolved_job(model_data(LENGTHS), 4, sharding={"planner": "row_wise"})
    gpu = resolved.cluster.node.accelerator
    needed = simulate(resolved, Silent()).summary["memory"]["hbm"]["max_bytes"]
    size = needed / share / gpu.usable_memory_fraction.value
    full = simulate(changed(resolved, [f"cluster.node.gpu.memory_bytes={size:.0f}"]), Silent())
    notes = [note for note in full.warnings if "longer histories in a batch may not fit" in note]
    expected = f"the fullest rank needs {100 * share:.0f} % of its memory: longer histories in a batch may not fit"
    assert notes == ([expected] if noted else [])

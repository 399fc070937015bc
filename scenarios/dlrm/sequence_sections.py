"""Sections of a summary about sequences: lengths, operations in closed form, skew of lengths and of ids."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from scenarios.dlrm.sequences import SCENARIO
from scenarios.sequence_loads import SequenceLoads
from scenarios.uncertainty.constant import Constant, graded
from simulator.operators import Amount
from workloads.dlrm.family import DlrmWorkload
from workloads.dlrm.iteration.hstu_kernels import jagged
from workloads.dlrm.model.hstu_part import HstuFlops, HstuPart
from workloads.dlrm.model.sequence_batches import BATCHINGS
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.tables import Tables

GIGA, TERA = 1e9, 1e12


def sequences_of(workload: DlrmWorkload) -> dict[str, Any] | None:
    """Section ``sequences`` of a job; None without sequences."""
    job = workload.job
    stack = job.dense.hstu
    loads = sequence_loads(workload)
    if stack is None or loads is None:
        return None
    settings, tables = job.settings, job.plan.tables
    lengths = jagged(stack, tables, settings)
    full = tables.history.maximum + tables.history.targets + stack.contextual
    samples = float(lengths.samples.sum())
    padded = lengths.padded()

    def flops(positions: float, squares: float) -> dict[str, float]:
        return _by_part(_operations(stack, settings, float(positions), float(squares)))

    return {
        "layout": "padded" if settings.padded else "jagged",
        "batching": settings.batching,
        "positions_per_sample": {
            "mean": float(lengths.positions.sum()) / samples,
            "longest": float(lengths.longest.max()),
            "maximum": full,
        },
        "gflop_per_sample": flops(lengths.positions.sum() / samples, lengths.squares.sum() / samples),
        "gflop_per_full_sample": flops(full, float(full) ** 2),
        "padded_gflop_per_sample": flops(padded.positions.sum() / samples, padded.squares.sum() / samples),
        "tflop_on_ranks": _spread(loads.flops / TERA),
        "positions_on_ranks": _spread(loads.positions),
        "largest_over_mean_by_batching": {
            name: _largest_over_mean(_work(stack, replace(settings, batching=name), tables)) for name in BATCHINGS
        },
        "received_bytes_on_ranks": _spread(loads.received_bytes),
        "served_lookups_on_ranks": {**_spread(loads.served), "hottest_rank": int(np.argmax(loads.served))},
    }


def sequence_loads(workload: DlrmWorkload) -> SequenceLoads | None:
    """Work of each rank with sequences; None without sequences."""
    job = workload.job
    stack = job.dense.hstu
    if stack is None:
        return None
    settings, none = job.settings, np.zeros(job.settings.world_size)
    lengths = jagged(stack, job.plan.tables, settings)
    over = lengths.padded() if settings.padded else lengths
    sent, passes = [np.asarray(group.received) for group in job.groups if group.forward], settings.gradient_accumulation
    return SequenceLoads(
        positions=passes * (none + over.positions),
        flops=passes * (none + _operations(stack, settings, over.positions, over.squares).total),
        served=passes * sum((np.asarray(group.lookup.lookups) for group in job.groups), none),
        received_bytes=passes * sum(sent, none) * settings.forward_bytes,
    )


def assumed_lengths(workload: DlrmWorkload) -> list[tuple[float, Constant]]:
    """The mean length as a constant of the interval, where the model assumes its law; empty where somebody gave it.

    Attention grows with the square of a length, everything else of a sample with the length.
    """
    job, sequences = workload.job, workload.model.sequences or {}
    stack = job.dense.hstu
    if stack is None:
        return []
    lengths = sequences[stack.hstu.sequence].lengths
    if lengths.grade not in ("assumed", "memory") or lengths.source == SCENARIO:
        return []
    found = jagged(stack, job.plan.tables, job.settings)
    flops = stack.training_flops(found.positions.sum(), found.squares.sum())
    if not float(flops.total):  # no sample of the batch has a position
        return []
    slope = 1.0 + float(flops.attention / flops.total)
    setting = f"'workload.sequence_lengths.{stack.hstu.sequence}={{distribution: file, file: LENGTHS.csv}}'"
    return [(slope, graded("workload.model.sequences", lengths, f"count the lengths, then --set {setting}"))]


def _work(stack: HstuPart, settings: DlrmSettings, tables: Tables) -> Amount:
    """Operations of the layers on each rank without padding."""
    lengths = jagged(stack, tables, settings)
    return _operations(stack, settings, lengths.positions, lengths.squares).total


def _operations(stack: HstuPart, settings: DlrmSettings, positions: Amount, squares: Amount) -> HstuFlops:
    """Operations of the layers in an iteration: of training, or of a forward pass alone where that is all."""
    passes = stack.forward_flops if settings.evaluates else stack.training_flops
    return passes(positions, squares)


def _by_part(flops: HstuFlops) -> dict[str, float]:
    """Operations by part and of all layers, 1e9."""
    parts = {"attention": flops.attention, "uvqk": flops.uvqk, "output": flops.output, "layers": flops.total}
    return {name: float(of) / GIGA for name, of in parts.items()}


def _spread(amounts: Amount) -> dict[str, float]:
    """Mean, smallest and largest amount of a rank."""
    values = np.asarray(amounts, dtype=np.float64)
    return {
        "mean": float(values.mean()),
        "smallest": float(values.min()),
        "largest": float(values.max()),
        "largest_over_mean": _largest_over_mean(values),
    }


def _largest_over_mean(amounts: Amount) -> float:
    values = np.asarray(amounts, dtype=np.float64)
    return float(values.max() / values.mean()) if values.mean() > 0.0 else 1.0

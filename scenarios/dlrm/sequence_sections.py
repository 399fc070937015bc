"""Sections of a summary about sequences: lengths, operations in closed form, skew of lengths and of ids."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from scenarios.dlrm.sequences import SCENARIO
from scenarios.uncertainty.constant import Constant, graded
from simulator.operators import Amount
from workloads.dlrm.family import DlrmWorkload
from workloads.dlrm.iteration.hstu_kernels import jagged
from workloads.dlrm.model.hstu_part import HstuPart
from workloads.dlrm.model.sequence_batches import BATCHINGS, RankLengths

GIGA = 1e9


def sequences_of(workload: DlrmWorkload) -> dict[str, Any] | None:
    """Section ``sequences`` of a job; None without sequences."""
    job = workload.job
    stack = job.dense.hstu
    if stack is None:
        return None
    settings, tables = job.settings, job.plan.tables
    lengths = jagged(stack, tables, settings)
    sequence = next(known for known in tables.sequences if known is not None and known.attended)
    full = sequence.maximum + sequence.targets + stack.contextual
    samples = float(lengths.samples.sum())
    padded = lengths.padded()
    over = padded if settings.padded else lengths
    served = sum((np.asarray(group.lookup.lookups) for group in job.groups), np.zeros(settings.world_size))
    received = sum((np.asarray(group.unpooled) for group in job.groups), np.zeros(settings.world_size))
    return {
        "layout": "padded" if settings.padded else "jagged",
        "batching": settings.batching,
        "positions_per_sample": {
            "mean": float(lengths.positions.sum()) / samples,
            "longest": float(lengths.longest.max()),
            "maximum": full,
        },
        "gflop_per_sample": _flops(stack, lengths.positions.sum() / samples, lengths.squares.sum() / samples),
        "gflop_per_full_sample": _flops(stack, float(full), float(full) ** 2),
        "padded_gflop_per_sample": _flops(stack, padded.positions.sum() / samples, padded.squares.sum() / samples),
        "tflop_on_ranks": _spread(_work(stack, over) / GIGA / 1e3),
        "positions_on_ranks": _spread(over.positions),
        "largest_over_mean_by_batching": {
            name: _largest_over_mean(_work(stack, jagged(stack, tables, replace(settings, batching=name))))
            for name in BATCHINGS
        },
        "received_bytes_on_ranks": _spread(received * settings.forward_bytes),
        "served_lookups_on_ranks": {**_spread(served), "hottest_rank": int(np.argmax(served))},
    }


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
    slope = 1.0 + float(flops.attention / flops.total)
    setting = f"workload.sequence_lengths.{stack.hstu.sequence}={{distribution: file, file: LENGTHS.csv}}"
    return [(slope, graded("workload.model.sequences", lengths, f"count the lengths, then --set {setting}"))]


def _work(stack: HstuPart, lengths: RankLengths) -> Amount:
    """Operations of a training pass of the layers on each rank."""
    return stack.training_flops(lengths.positions, lengths.squares).total


def _flops(stack: HstuPart, positions: float, squares: float) -> dict[str, float]:
    """Operations of a training pass of a sample, 1e9: of the layers by part, and beside them."""
    found = stack.training_flops(float(positions), float(squares))
    parts = {"attention": found.attention, "uvqk": found.uvqk, "output": found.output}
    return {**{name: float(flops) / GIGA for name, flops in parts.items()}, "layers": float(found.total) / GIGA}


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

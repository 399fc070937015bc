"""Durations of private tasks: those that use nothing another stream or rank could slow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from simulator.categories import INPUT_CATEGORIES, INPUT_SECTION, Category
from simulator.collective_calls import CollectiveCall
from simulator.compute import ComputeModel
from simulator.lowered import PS_PER_S, ConstantDurations, Durations
from simulator.lowering.variation import Variation, VariedDurations
from simulator.operators import Amount, EmbeddingLookup, EmbeddingUpdate, FloatArray
from simulator.program import IntArray, Program
from simulator.rank_classes import classes_of
from simulator.work import category_of


def toward_mean(values: Amount, part: float) -> Amount:
    """Move ``values [P]`` the given part of the way to their mean; a scalar stays."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0 or part == 0.0:
        return values
    moved: FloatArray = array + (array.mean() - array) * part
    return moved


def evened_part(improve: Mapping[str, float]) -> float:
    """Part of the way to their mean by which differences between ranks shrink, 0 to 1."""
    return improve.get("imbalance", 1.0) - 1.0


def task_seconds(
    program: Program, compute: ComputeModel, variation: Variation, improve: Mapping[str, float]
) -> Iterator[tuple[int, Amount]]:
    """Duration of every task that is no collective, as (task, seconds: scalar or ``[P]``), jitter left out.

    Static differences between ranks, stragglers included, are moved towards their mean by ``improve["imbalance"]``.
    """
    slowdown: Amount = variation.slowdown(program.ranks) if variation.straggler_ranks else 1.0
    evened = evened_part(improve)
    alike: dict[int, Amount] = {}  # tasks that share an operator take as long
    for task, work in enumerate(program.work):
        if isinstance(work, CollectiveCall):
            continue
        known = alike.get(id(work))
        seconds = alike[id(work)] = compute.duration_s(work) if known is None else known
        category = category_of(work)
        if category is Category.COMPUTE:
            seconds = seconds * slowdown
        elif program.sections[task] == INPUT_SECTION and category in INPUT_CATEGORIES:
            seconds = seconds / improve.get("input", 1.0)
        yield task, toward_mean(seconds, evened)


def durations_of(program: Program, seconds: Mapping[int, Amount], variation: Variation, world_size: int) -> Durations:
    """Constant durations, or drawn ones when some task varies."""
    sigma = np.array([variation.sigma(category) for category in program.categories])
    contents = _contents(program)
    if np.any(sigma > 0.0) or contents:
        base_ps = _filled(seconds, program.task_count, program.rank_count)
        return VariedDurations(program, base_ps, sigma, contents, variation.seed, world_size)
    uneven = {task: np.asarray(value) for task, value in seconds.items() if np.ndim(value)}
    classes = classes_of(program.rank_count, uneven.values())
    of_classes = {**seconds, **{task: value[classes.first] for task, value in uneven.items()}}
    values = np.floor(_filled(of_classes, program.task_count, len(classes.first)) + 0.5).astype(np.int64)
    return ConstantDurations(values, classes)


def _filled(seconds: Mapping[int, Amount], tasks: int, columns: int) -> FloatArray:
    """Durations of all tasks in ps, not rounded ``[tasks, columns]``."""
    values = np.zeros((tasks, columns))
    for task, value in seconds.items():
        values[task] = value
    return values * PS_PER_S


def _contents(program: Program) -> dict[int, Amount]:
    """Tasks whose work differs from batch to batch, and its standard deviation over its mean: scalar or ``[P]``."""
    lookups = (
        (task, work) for task, work in enumerate(program.work) if isinstance(work, EmbeddingLookup | EmbeddingUpdate)
    )
    return {task: work.deviation for task, work in lookups if np.any(work.deviation)}


def member_instances(activity: IntArray, instance: IntArray) -> IntArray:
    """Activity numbers of ranks: ``activity`` by instance number, -1 for ranks in no instance ``[P]``."""
    return np.where(instance >= 0, activity[np.maximum(instance, 0)], -1)

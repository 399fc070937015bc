"""Settings of a transformer's scenario that may make it faster: other divisions, less recomputation, compiled, fp8."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import get_args

from inputs.errors import InputError
from scenarios.candidates import Candidate
from scenarios.transformer.divisions import less_recomputation
from scenarios.transformer.filling import settings_of_resolved
from scenarios.transformer.least_time import LeastTime
from scenarios.transformer.search import memory_of
from scenarios.transformer.typed import TransformerResolved, with_changes
from workloads.transformer.settings import AttentionChoice, ContextExchange, Sharding, TransformerSettings

MOST_TRIED = 8
"""Number of simulated settings of free keys, by their least times: a second or two each."""


def candidates(
    resolved: TransformerResolved, settings: TransformerSettings, least: LeastTime, time_s: float
) -> Iterator[Candidate]:
    """Settings that the job does not have yet, that it has room for, and that may be faster.

    Args:
        least: least times of divisions.
        time_s: iteration time of the run.
    """
    found = []
    fitting = (f"workload.recompute={name}" for name in less_recomputation(settings))
    mildest = next((setting for setting in fitting if _changed(resolved, setting, least)), None)
    for setting in (*_free(settings), *([mildest] if mildest else ())):
        changed = _changed(resolved, setting, least)
        if changed is not None:
            amount = changed[0].tokens_per_iteration / settings.tokens_per_iteration
            found.append((changed[1] / amount / time_s, setting))
    for share, setting in sorted(found)[:MOST_TRIED]:
        yield Candidate(setting, most=1.0 - share, plans=True)
    gpu = resolved.cluster.node.gpu
    if gpu is not None and "fp8" in gpu.peak_flops and settings.precision != "fp8":
        yield Candidate("precision.dense=fp8", "numerics", plans=True)


def _free(settings: TransformerSettings) -> Iterator[str]:
    """Settings that keep what is computed: half and twice of each size, and other values of each choice."""
    parallel, sizes = "workload.parallel.", settings.sizes
    same = {sizes.sharding, *(("hybrid", "fsdp") if sizes.gathers and sizes.shard_size == sizes.reducing else ())}
    keys = {"workload.micro_batch_size": settings.micro_batch}
    keys |= {parallel + name: getattr(sizes, name) for name in ("tensor", "pipeline", "context", "virtual_stages")}
    for key, size in keys.items():
        yield from (f"{key}={other}" for other in (size // 2, 2 * size) if other and size in (2 * other, other // 2))
    choices: dict[str, tuple[bool, Iterable[str]]] = {
        "workload.compiled": (not settings.compiled, ["true"]),
        "workload.attention": (True, set(get_args(AttentionChoice)) - {settings.attention, "unfused"}),
        parallel + "sharding": (sizes.reducing > 1, set(get_args(Sharding)) - same),
        parallel + "sequence_parallel": (sizes.tensor > 1 and not sizes.sequence_parallel, ["true"]),
        parallel + "context_exchange": (sizes.context > 1, set(get_args(ContextExchange)) - {sizes.context_exchange}),
    }
    if sizes.tensor > 1 and not sizes.overlap_tensor:
        yield parallel + "overlap_tensor=true"
    for key, (possible, values) in choices.items():
        yield from (f"{key}={value}" for value in sorted(values) if possible)


def _changed(resolved: TransformerResolved, setting: str, least: LeastTime) -> tuple[TransformerSettings, float] | None:
    """The job with a setting and its least time; None if it cannot have that, or has no room."""
    try:
        there = with_changes(resolved, [setting], fresh=True)
        settings = settings_of_resolved(there)
        fits = memory_of(there, settings).fits
        return (settings, least(settings)) if fits else None
    except InputError:
        return None

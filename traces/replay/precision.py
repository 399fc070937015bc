"""Collectives in another precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from inputs.errors import InputError
from simulator.collective_calls import CollectiveCall
from simulator.precisions import QUANTISED, WIRE_BYTES
from simulator.work import Work
from traces.replay.job import ReplayJob, with_work
from traces.replay.transfers import with_sizes

FLOATING = frozenset({"fp64", "fp32", "tf32", "fp16", "bf16", "fp8"})
"""Types that a job can do with fewer bytes of; integers are indices and lengths."""
WIRE = FLOATING | QUANTISED
"""Types that can replace the type of a collective in floating point."""


def in_precision(job: ReplayJob, dtypes: Mapping[str, str]) -> ReplayJob:
    """The job with floating-point collectives in other types, casts not counted; see `with_sizes`.

    Args:
        dtypes: new type by operation (``all_to_all``); the key ``all`` is for those not named.

    Raises:
        InputError: the job has no such collective in floating point.
    """
    work = [w for program in job.graph.programs for w in program.work]
    used = {w.op for w in work if isinstance(w, CollectiveCall) and w.dtype in FLOATING}
    missing = [op for op in dtypes if op != "all" and op not in used]
    if missing or not used:
        expected = f"one of {', '.join(sorted(used))}" if used else "a trace with floating-point collectives"
        given = ", ".join(missing) or None
        raise InputError("no such collective", file="--collective-precision", given=given, expected=expected)

    def target(call: CollectiveCall) -> str:
        return call.dtype if call.dtype not in FLOATING else dtypes.get(call.op) or dtypes.get("all") or call.dtype

    def ratio(call: CollectiveCall) -> float:
        return WIRE_BYTES[target(call)] / WIRE_BYTES[call.dtype] if call.dtype in FLOATING else 1.0

    def cast(own: Work) -> Work:
        return replace(own, dtype=target(own)) if isinstance(own, CollectiveCall) else own

    resized = with_sizes(job, ratio)
    cast_work = [[cast(own) for own in program.work] for program in resized.graph.programs]
    return replace(resized, graph=with_work(resized.graph, cast_work))

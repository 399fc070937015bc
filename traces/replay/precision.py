"""Collectives in another precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from inputs.errors import InputError
from simulator.operators import BYTES_PER_ELEMENT, CollectiveCall, Work
from simulator.program import IntArray
from traces.replay.job import Job, numbered_calls, with_work

FLOATING = frozenset({"fp64", "fp32", "tf32", "fp16", "bf16", "fp8"})
"""Types that a job can do with fewer bytes of; integers are indices and lengths."""


def in_precision(job: Job, dtypes: Mapping[str, str]) -> Job:
    """The job with floating-point collectives in other types, casts not counted.

    On a machine its models take the new sizes. A measured transfer changes in the part above the shortest one of the
    same operation in the trace, which is taken for what does not depend on the size.

    Args:
        job: the job.
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
    transfers = dict(job.transfers_ps)
    shortest = _shortest(job)
    for key, call in numbered_calls(job.graph):
        ratio = _ratio(call.call, dtypes)
        if key in transfers and ratio != 1.0:
            own, least = transfers[key], shortest[call.call.op]
            transfers[key] = np.where(own > 0, least + np.rint((own - least) * ratio), 0).astype(np.int64)
    changed = [[_changed(work, dtypes) for work in program.work] for program in job.graph.programs]
    return replace(job, graph=with_work(job.graph, changed), transfers_ps=transfers)


def _target(call: CollectiveCall, dtypes: Mapping[str, str]) -> str:
    return dtypes.get(call.op) or dtypes.get("all") or call.dtype


def _ratio(call: CollectiveCall, dtypes: Mapping[str, str]) -> float:
    if call.dtype not in FLOATING:
        return 1.0
    return BYTES_PER_ELEMENT[_target(call, dtypes)] / BYTES_PER_ELEMENT[call.dtype]


def _changed(work: Work, dtypes: Mapping[str, str]) -> Work:
    if not isinstance(work, CollectiveCall) or work.dtype not in FLOATING:
        return work
    return replace(work, bytes=work.bytes * _ratio(work, dtypes), dtype=_target(work, dtypes))


def _shortest(job: Job) -> dict[str, int]:
    """Shortest measured transfer of each operation, in ps."""
    found: dict[str, int] = {}
    for key, call in numbered_calls(job.graph):
        own: IntArray = job.transfers_ps.get(key, np.zeros(0, dtype=np.int64))
        for length in own[own > 0].tolist():
            found[call.call.op] = min(found.get(call.call.op, length), length)
    return found

"""Collectives of other sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from simulator.collective_calls import CollectiveCall
from simulator.program import IntArray, sequenced_calls
from simulator.work import Work
from traces.replay.job import ReplayJob, with_work


def with_sizes(job: ReplayJob, ratio_of: Callable[[CollectiveCall], float]) -> ReplayJob:
    """The job with collectives of other sizes.

    A machine takes the new sizes. A measured transfer changes in the part above the shortest one of the same operation
    in the trace, which is taken for what does not depend on the size.

    Args:
        ratio_of: new size of a collective over its present one.
    """
    transfers, shortest = dict(job.transfers_ps), _shortest(job)
    for call in sequenced_calls(job.graph):
        ratio = ratio_of(call.call)
        if call.key in transfers and ratio != 1.0:
            own, least = transfers[call.key], shortest[call.call.op]
            transfers[call.key] = np.where(own > 0, least + np.rint((own - least) * ratio), 0).astype(np.int64)

    def changed(work: Work) -> Work:
        return replace(work, bytes=work.bytes * ratio_of(work)) if isinstance(work, CollectiveCall) else work

    graph = with_work(job.graph, [[changed(work) for work in program.work] for program in job.graph.programs])
    return replace(job, graph=graph, transfers_ps=transfers)


def _shortest(job: ReplayJob) -> dict[str, int]:
    """Shortest measured transfer of each operation that took any time, in ps."""
    found: dict[str, int] = {}
    for call in sequenced_calls(job.graph):
        own: IntArray = job.transfers_ps.get(call.key, np.zeros(0, dtype=np.int64))
        for length in own[own > 0].tolist():
            found[call.call.op] = min(found.get(call.call.op, length), length)
    return found

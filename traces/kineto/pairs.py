"""Kineto traces with the execution traces of the same ranks: the latter know more about collectives.

The n-th collective of one is the n-th of the other; where their operations differ the pair covers different steps, and
the execution trace is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from inputs.errors import InputError
from simulator.collective_calls import CollectiveCall
from simulator.work import Work
from traces.collective_args import UNKNOWN_SIZE, UNKNOWN_SPLITS, CollectiveArgs
from traces.kineto.tasks import RankImport
from traces.pytorch.execution_trace import ExecutionTrace, collectives_of
from traces.typed import ONE_EACH


def with_execution_traces(
    imports: Sequence[RankImport], traces: Sequence[ExecutionTrace], ranks: Collection[int]
) -> list[RankImport]:
    """The imports with sizes, types and groups of their collectives from the execution traces.

    Args:
        imports: Kineto traces.
        ranks: all that have a Kineto trace, imported or not.

    Raises:
        InputError: an execution trace is of a rank without a Kineto trace, or two are of one rank.
    """
    by_rank: dict[int, ExecutionTrace] = {}
    for trace in traces:
        rank = trace.rank if trace.rank is not None or len(traces) > 1 else next(iter(ranks))
        if rank is None:
            raise InputError(
                "does not say its rank", file=trace.file, expected="a name that ends in its rank, et_3.json"
            )
        if rank in by_rank:
            raise InputError(f"is of rank {rank}, and so is {by_rank[rank].file}", file=trace.file, expected=ONE_EACH)
        if rank not in ranks:
            known = ", ".join(map(str, sorted(ranks)[:8]))
            raise InputError(
                f"is of rank {rank}, which has no Kineto trace", file=trace.file, expected=f"a trace of rank {known}"
            )
        by_rank[rank] = trace
    return [_enriched(i, by_rank.get(i.tasks.rank)) for i in imports]


def _enriched(imported: RankImport, trace: ExecutionTrace | None) -> RankImport:
    if trace is None:
        imported.gaps["Kineto traces without their execution trace"] += 1
        return imported
    traced = [args for _, args in collectives_of(trace, imported.trace.world_size)]
    work = list(imported.tasks.work)
    places = [task for task, own in enumerate(work) if isinstance(own, CollectiveCall)]
    calls = [own for own in work if isinstance(own, CollectiveCall)]
    if [args.op for args in traced] != [call.op for call in calls]:
        imported.gaps["execution traces whose collectives are not those of the Kineto trace (left out)"] += 1
        return imported
    for place, call, args in zip(places, calls, traced, strict=True):
        work[place] = _call(call, args)
    groups = {args.group: args for args in traced}
    gaps = Counter(imported.gaps)
    gaps[UNKNOWN_SIZE] = sum(
        args.bytes is None and not np.any(call.bytes) for call, args in zip(calls, traced, strict=True)
    )
    gaps[UNKNOWN_SPLITS] = sum(
        args.splits_missing and call.peer_shares is None for call, args in zip(calls, traced, strict=True)
    )
    return replace(imported, tasks=replace(imported.tasks, work=tuple(work)), groups=groups, gaps=+gaps)


def _call(call: CollectiveCall, args: CollectiveArgs) -> Work:
    size = call.bytes if args.bytes is None else args.bytes
    uneven = args.uneven or np.ndim(size) > 0
    amount = np.array([float(np.sum(size))]) if uneven else float(np.sum(size))
    shares = call.peer_shares if args.shares_row is None else args.shares_row
    return replace(call, communicator=args.group, bytes=amount, dtype=args.dtype, peer_shares=shares)

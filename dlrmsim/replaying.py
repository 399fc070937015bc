"""Replays of traces, as JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hardware_specs.loader import load_cluster
from simulator.lowered import PS_PER_S
from simulator.lowering import build_machine
from traces.formats import import_traces
from traces.replay import as_measured, error_ps, on_machine


def replay(files: Sequence[Path], cluster: str | None = None, ranks: Sequence[int] | None = None) -> dict[str, Any]:
    """Import traces and run them in the engine.

    Args:
        files: traces of one job.
        cluster: name or path; None: with the measured durations, collectives included.
        ranks: ranks to keep; default: all.

    Returns:
        ``makespan_s`` and, for traces with times, ``measured_makespan_s``; as measured also ``largest_error_s``.

    Raises:
        InputError: a trace is wrong, has no times to replay and no cluster was named, or the cluster is too small.
        DeadlockError: the trace's dependencies contradict each other.
    """
    imported = import_traces(files, ranks)
    if cluster is None:
        result = as_measured(imported)
        error = {"largest_error_s": error_ps(imported, result) / PS_PER_S}
    else:
        machine = build_machine(load_cluster(cluster), imported.world_size, launch_s=0.0)
        _, result = on_machine(imported, machine)
        error = {}
    measured = imported.measured
    known = {} if measured is None else {"measured_makespan_s": int(measured.result.iteration_end_ps[0]) / PS_PER_S}
    return {
        "format": imported.format,
        "cluster": cluster,
        "ranks": len(imported.ranks),
        "world_size": imported.world_size,
        "makespan_s": int(result.iteration_end_ps[0]) / PS_PER_S,
        **known,
        **error,
        "gaps": [{"what": gap.what, "count": gap.count} for gap in imported.gaps],
    }

"""``python -m benchmarks host_fit --record NAME``: how well costs of a host tell jobs that they were not fitted to.

Of a calibration's jobs a sixth is left out at a time; costs are fitted to the others and to kernels alone, and tell
what parts of those left out take. (How much longer collectives beside them made parts was told with costs of all jobs.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.rows import Row
from scenarios.progress import Silent
from simulator.operators import EmbeddingLookup, EmbeddingUpdate, Gemm
from validation.host_calibration import as_alone, jobs_alone, rank_counts
from validation.host_fit import Trained, fit_kernels
from validation.host_iterations import TrainedJob
from validation.host_record import HostRecord
from validation.in_situ import PartRow
from validation.kernel_costs import expected_s
from validation.own_cache import with_own_cache

FOLDS = 6
"""Into which jobs are cut; each is left out once."""
KINDS = ("lookup", "update", "gemm", "rest")


def rows(record: str) -> Iterator[Row]:
    """Mean errors of parts of jobs left out, by kind and by threads of a rank."""
    known = HostRecord.read(record)
    by_ranks = jobs_alone(known, as_alone(known.facts, known.rows, Silent()))
    by_threads = {threads: by_ranks[ranks] for threads, ranks in rank_counts(known.facts.cores).items()}
    for threads, trained in by_threads.items():
        facts = with_own_cache(known.facts, known.rows, threads, trained)
        yield Row(f"host_fit_{threads}_threads", len(trained.jobs), "jobs")
        off: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for fold in range(FOLDS):
            others, left_out = _split(trained.jobs, fold)
            kernels = fit_kernels(known.rows, threads, facts, replace(trained, jobs=others))
            for part in Trained((), {}, left_out).parts:
                expected = expected_s(part, kernels) + part.floor_s
                off[_kind(part)].append(abs(part.seconds + part.floor_s - expected) / expected)
        for kind in KINDS:
            yield Row(f"{kind}_{threads}_threads", 100.0 * float(np.mean(off[kind])), "%")


def _split(jobs: Sequence[TrainedJob], fold: int) -> tuple[list[TrainedJob], list[TrainedJob]]:
    """Jobs that are fitted to, and those left out."""
    left_out = list(jobs[fold::FOLDS])
    return [job for place, job in enumerate(jobs) if place % FOLDS != fold], left_out


def _kind(part: PartRow) -> str:
    """The kind that errors of a part count for: that of its main operator."""
    told = {"lookup": EmbeddingLookup, "update": EmbeddingUpdate, "gemm": Gemm}
    return next((kind for kind, of in told.items() if any(isinstance(work, of) for work in part.work)), "rest")

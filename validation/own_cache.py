"""How much of the cache that cores share a machine has, as lookups and updates tell it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from simulator.compute.cpu_amounts import Caches
from simulator.operators import EmbeddingLookup, EmbeddingUpdate, HostWork
from validation.cpu_fit import Row
from validation.host_fit import HostFacts, Trained, timed_alone
from validation.in_situ import PartRow
from validation.kernel_costs import misfit

MOST_HALVED = 5
"""Times that a shared cache is halved at most in looking for how much of it a machine has."""


def with_own_cache(facts: HostFacts, rows: Sequence[Row], threads: int, trained: Trained) -> HostFacts:
    """The facts with as much of the shared cache as lookups and updates show that ranks of so many threads have.

    Other tenants of a virtual machine's host use it, too, and what threads of one rank have of it is not what ranks of
    one thread have. Of halves and halves of these, down to what cores have alone, that is taken with which costs fit
    best.

    Args:
        facts: with what the system tells.
        rows: kernels timed alone.
        threads: of a rank.
        trained: jobs of such ranks.
    """
    tables = [part for part in [*timed_alone(rows, threads), *trained.parts] if _is_of_tables(part)]
    if not tables:
        return facts
    tried = [facts.shared_cache_bytes / 2**halved for halved in range(MOST_HALVED + 1)]
    tried = [size for size in tried if size >= facts.core_cache_bytes * facts.cores] or tried[:1]
    off = [misfit(tables, Caches(facts.core_cache_bytes, size)) for size in tried]
    size = tried[int(np.argmin(off))]
    note = ", ".join(f"{100.0 * error:.1f} % with {each / 2**20:g} MiB" for each, error in zip(tried, off, strict=True))
    return replace(facts, shared_cache_bytes=size, shared_cache_note=f"lookups and updates are off by {note}")


def _is_of_tables(part: PartRow) -> bool:
    """Whether a part is a lookup or an update of tables; launching it is part of it."""
    kernels = [work for work in part.work if not isinstance(work, HostWork)]
    return bool(kernels) and all(isinstance(work, EmbeddingLookup | EmbeddingUpdate) for work in kernels)

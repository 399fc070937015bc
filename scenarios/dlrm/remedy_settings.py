"""Settings that remedies of a job that does not fit are made of, by key, the mildest value first.

Tables shrink by narrower numbers, another planner, and kernels that keep rows outside device memory. Vectors and
activations of sequences shrink where a rank asks for each row once, where ranks have equal work, and with more passes
for the same batch.
"""

from __future__ import annotations

from collections.abc import Iterator

from inputs.keys import key_text
from scenarios.dlrm.typed import DlrmResolved
from workloads.dlrm.sharding.conforming import CONSTRAINTS

SPREADING = ("greedy", "column_wise", "grid_shard", "row_wise")
"""Planners for jobs with too many ranks to try all planners; their shards are the smallest."""

KERNELS = ("fused_uvm_caching", "fused_uvm", "key_value")
"""Kernels that are allowed in addition to ``fused``, one after the other; the last one needs SSDs."""

MORE_PASSES = (2, 4, 8)
"""Factors on the passes of an iteration that are tried for sequences; the batch stays."""

PLANNER, SEARCH = "workload.sharding.planner", "search"
"""Key of the planner; the planner that finds a plan where any other one does."""

KERNELS_KEY, CONSTRAINTS_KEY = "workload.sharding.compute_kernels", key_text(CONSTRAINTS)
DEDUP, BATCHING = "workload.sharding.index_dedup", "workload.batching"
PASSES = "workload.gradient_accumulation"

GRADED = (KERNELS_KEY, PASSES)
"""Keys with values in descending order of the device memory that a job needs."""

ALONE = (DEDUP, BATCHING)
"""Keys that are tried by themselves, and not together with others."""


def table_settings(resolved: DlrmResolved) -> dict[str, list[str]]:
    """Values that the scenario does not have yet of keys that shrink or move tables."""
    sharding, found = resolved.scenario.workload.sharding, dict[str, list[str]]()
    if resolved.scenario.precision.tables == "fp32":
        found["precision.tables"] = ["fp16"]
    found[PLANNER] = [name for name in SPREADING if name != sharding.planner]
    if sharding.compute_kernels == ("fused",) and sharding.plan is None:
        beyond = KERNELS[:-1] if resolved.cluster.node.ssd is None else KERNELS
        lists = (("fused", *beyond[:number]) for number in range(1, len(beyond) + 1))
        found[KERNELS_KEY] = [f"[{','.join(names)}]" for names in lists]
    if sharding.constraints:
        found[CONSTRAINTS_KEY] = ["{}"]
    return found


def sequence_settings(resolved: DlrmResolved) -> dict[str, list[str]]:
    """Values that the scenario does not have yet of keys that shrink vectors and activations of sequences."""
    if resolved.model.hstu is None:
        return {}
    return dict(_of_sequences(resolved))


def _of_sequences(resolved: DlrmResolved) -> Iterator[tuple[str, list[str]]]:
    workload = resolved.scenario.workload
    if not workload.sharding.index_dedup and resolved.world_size > 1:
        yield DEDUP, ["true"]
    if workload.batching != "balanced" and resolved.world_size > 1:
        yield BATCHING, ["balanced"]
    passes = (workload.gradient_accumulation * factor for factor in MORE_PASSES)
    if more := [str(number) for number in passes if number <= resolved.local_batch_size]:
        yield PASSES, more

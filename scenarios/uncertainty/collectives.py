"""The interval of a single collective on an idle machine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hardware_specs.types import Cluster
from scenarios.uncertainty.constant import SIGMA, Constant
from scenarios.uncertainty.interval import Interval, elasticity, interval, sources_of
from scenarios.uncertainty.machine import VERSIONS_LARGE, VERSIONS_SMALL, machine_constants, version_of
from scenarios.uncertainty.shipped import COLLECTIVE_GROUPS, shipped_quantiles
from scenarios.uncertainty.usage import LARGE_BYTES, CallUse, Usage
from simulator.analysis.bound import IMPROVEMENT
from simulator.lowering.machine import LINK_CLASSES
from simulator.network import CollectiveModel
from simulator.network.collectives import Call
from simulator.network.size_table import SizeTable, placed_group
from simulator.network.topology import Placement

FORM_INSIDE, FORM_BETWEEN = 0.05, 0.05
"""Standard deviations of what the forms of collectives leave out (median errors of predicted rows whose shares were
fitted on the same machine: 3 % inside a node, 2.7 % between nodes from 32 MiB on)."""

KNEE = 0.40
"""Further standard deviation between nodes below the knee, where chunks and protocols decide (judged: predicted rows of
1 to 64 MiB have signed medians of -56 to +13 % by suite, and those of Polaris on 256 and 540 nodes scatter by half)."""

KNEE_BYTES = 32 * 2**20
"""Size at the knee, where half of the largest rate is reached: 32 MiB on 8 nodes of Polaris."""

KNEE_INSIDE, KNEE_INSIDE_BYTES = 0.15, 64 * 2**20
"""The same inside a node: 8 B200 from 2 and 4 are off by 3 to 10 %, but single sizes up to 64 MiB, where NCCL changes
channels and protocols, by 15 to 40 %."""

_LAUNCH = Constant("cluster.fitted.launch_s", "derived", SIGMA["derived"], "fitted", "dlrmsim calibrate collectives")


@dataclass(frozen=True, slots=True)
class CallIntervals:
    """Intervals of collectives on a placed cluster.

    Attributes:
        model: its network model.
        improved: the model with each class of links, and messages, 10 % better.
    """

    model: CollectiveModel
    improved: Mapping[str, CollectiveModel]

    @staticmethod
    def of(model: CollectiveModel) -> CallIntervals:
        """The intervals of a model's calls."""
        links = {
            name: model.improved(dict.fromkeys(classes, IMPROVEMENT))
            for name, classes in LINK_CLASSES.items()
            if model.rates.keys() & set(classes)
        }
        return CallIntervals(model, {**links, "messages": model.improved({}, IMPROVEMENT)})

    def of_call(self, call: Call, added_s: float = 0.0) -> Interval:
        """The interval of a call.

        Args:
            added_s: part of the time that is not the collective's, such as launches of a benchmark.
        """
        size, nodes = float(call.bytes.max()), call.block.node_count
        timed = self.model.time(call)
        seconds = float(timed.seconds.max())
        use = CallUse(call.op, call.block.size, nodes, size, seconds, timed.algorithm.name)
        whole_s = seconds + added_s
        cluster, part = self.model.cluster, seconds / whole_s if whole_s > 0.0 else 0.0
        slopes = {name: part * elasticity(seconds, _seconds(of, call)) for name, of in self.improved.items()}
        common = [(part, _form(use)), (part, version_of(cluster, [use])), (1.0 - part, _LAUNCH)]
        constants = machine_constants(cluster, self.model.calibration, Usage([use]))
        group = COLLECTIVE_GROUPS[min(nodes, 2) - 1]
        least = VERSIONS_LARGE if size >= LARGE_BYTES else VERSIONS_SMALL
        return interval(whole_s, sources_of(slopes, constants, common), group, shipped_quantiles()[group], least)


def table_intervals(
    cluster: Cluster,
    table: SizeTable,
    *,
    placement: Placement = "block",
    seed: int = 0,
    algorithm: str | None = None,
) -> tuple[Interval, ...]:
    """The interval of each row of a table, whose ranks are placed as `size_tables` placed them."""
    topology, block = placed_group(cluster, table.ranks, table.ranks_per_node, placement, seed)
    model = CollectiveModel.of(cluster, topology, {table.op: algorithm} if algorithm else None)
    intervals = CallIntervals.of(model)
    return tuple(intervals.of_call(Call(table.op, block, np.full((1, 1), row.bytes))) for row in table.rows)


def _form(use: CallUse) -> Constant:
    """Part of the time that no constant stands for."""
    reason = "what the forms of collectives leave out"
    if use.nodes == 1:
        sigma = math.hypot(FORM_INSIDE, KNEE_INSIDE * KNEE_INSIDE_BYTES / (KNEE_INSIDE_BYTES + use.bytes))
        return Constant("simulator.network (inside a node)", "derived", sigma, reason)
    sigma = math.hypot(FORM_BETWEEN, KNEE * KNEE_BYTES / (KNEE_BYTES + use.bytes))
    return Constant("simulator.network (between nodes)", "derived", sigma, f"{reason}: chunks, protocols")


def _seconds(model: CollectiveModel, call: Call) -> float:
    return float(model.time(call).seconds.max())

"""Measured collectives, and their predictions by the network model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hardware_specs.library import Operation
from hardware_specs.types import Cluster
from simulator.network import CollectiveModel
from simulator.network.blocks import Block
from simulator.network.call_table import CallTable
from simulator.network.collectives import Call
from simulator.network.size_table import placed_group
from simulator.operators import FloatArray


@dataclass(frozen=True, slots=True)
class MeasuredCollective:
    """One timed collective; bytes as nccl-tests counts them.

    Attributes:
        ranks_per_node: GPUs in use on each.
        source: source whose method was used; each has a launch overhead of its own.
    """

    op: Operation
    nodes: int
    ranks_per_node: int
    bytes: float
    time_s: float
    source: str = ""

    @property
    def shape(self) -> tuple[int, int]:
        """Nodes, and ranks on each."""
        return self.nodes, self.ranks_per_node

    @property
    def inputs(self) -> dict[str, Any]:
        """Inputs that a rule may use."""
        ranks = self.nodes * self.ranks_per_node
        return {
            "op": self.op,
            "nodes": self.nodes,
            "ranks_per_node": self.ranks_per_node,
            "ranks": ranks,
            "bytes": self.bytes,
            "source": self.source,
        }


@dataclass(frozen=True, slots=True)
class Predictor:
    """The network model of a cluster for any number of its nodes; groups of ranks are built once."""

    cluster: Cluster
    _models: dict[tuple[int, int], tuple[CollectiveModel, Block]] = field(default_factory=dict)

    def table(self, rows: Sequence[MeasuredCollective]) -> CallTable:
        """The rows as calls whose times can be asked for with other constants.

        Raises:
            InputError: a row has more ranks on a node than it has GPUs.
        """
        return CallTable.of(self.call(row) for row in rows)

    def seconds(self, rows: Sequence[MeasuredCollective]) -> FloatArray:
        """Durations on an idle machine, without any source's launch overhead ``[rows]``; raises as `table`."""
        return self.table(rows).seconds(self.cluster) if rows else np.zeros(0)

    def launch_s(self, source: str) -> float:
        """Fitted launch overhead of a source's method on the cluster, seconds."""
        fit = self.cluster.fitted
        return fit.launch_s[source].value if fit is not None and source in fit.launch_s else 0.0

    def call(self, row: MeasuredCollective) -> tuple[CollectiveModel, Call]:
        """The call of a row, and the model of its ranks."""
        model, block = self._of(row.shape)
        return model, Call(row.op, block, np.full((1, 1), row.bytes))

    def _of(self, shape: tuple[int, int]) -> tuple[CollectiveModel, Block]:
        if shape not in self._models:
            nodes, per_node = shape
            topology, block = placed_group(self.cluster, nodes * per_node, per_node)
            self._models[shape] = (CollectiveModel.of(self.cluster, topology), block)
        return self._models[shape]

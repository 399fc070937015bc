"""Measured collectives, and what the network model says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hardware_specs.library import Operation
from hardware_specs.types import Cluster
from simulator.network import CollectiveModel
from simulator.network.calibration import calibrate
from simulator.network.collectives import Call
from simulator.network.library import transport_of
from simulator.network.membership import Block
from simulator.network.size_table import placed_group
from simulator.operators import FloatArray


@dataclass(frozen=True, slots=True)
class MeasuredCollective:
    """One collective that somebody timed; bytes as nccl-tests counts them.

    Attributes:
        op: the operation.
        nodes: nodes in use.
        ranks_per_node: GPUs in use on each.
        bytes: size.
        time_s: duration.
        source: whose method it was; each has a launch overhead of its own.
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
        """What a rule may ask about."""
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
    """The network model of a cluster for any number of its nodes; groups of ranks are built once.

    Attributes:
        cluster: the machine.
    """

    cluster: Cluster
    _models: dict[tuple[int, int], tuple[CollectiveModel, Block]] = field(default_factory=dict)

    def with_cluster(self, cluster: Cluster) -> Predictor:
        """The same groups of ranks with other constants: those of ``cluster``, which differs in its fit only."""
        calibration, transport = calibrate(cluster), transport_of(cluster)
        models = {
            shape: (replace(model, cluster=cluster, calibration=calibration, transport=transport), block)
            for shape, (model, block) in self._models.items()
        }
        return Predictor(cluster, models)

    def seconds(self, rows: Sequence[MeasuredCollective]) -> FloatArray:
        """Durations on an idle machine, without any source's launch overhead ``[rows]``.

        Raises:
            InputError: a row has more ranks on a node than it has GPUs.
        """
        return np.array([self._one(row) for row in rows])

    def launch_s(self, source: str) -> float:
        """What the fit of the cluster found for the method of a source, seconds."""
        fit = self.cluster.fitted
        return fit.launch_s[source].value if fit is not None and source in fit.launch_s else 0.0

    def _one(self, row: MeasuredCollective) -> float:
        model, block = self._of(row.shape)
        return float(model.time(Call(row.op, block, np.full((1, 1), row.bytes))).seconds.max())

    def _of(self, shape: tuple[int, int]) -> tuple[CollectiveModel, Block]:
        if shape not in self._models:
            nodes, per_node = shape
            topology, block = placed_group(self.cluster, nodes * per_node, per_node)
            self._models[shape] = (CollectiveModel.of(self.cluster, topology), block)
        return self._models[shape]

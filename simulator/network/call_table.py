"""Times of many calls at once, for constants that change from one evaluation to the next: what a fit asks for.

All that a fit leaves alone (bytes per link, counts of latencies, shares of protocols) is gathered once, a row for each
stage of each way in which a call could be done. Times are then a few operations on columns, the same ones in the same
order as `simulator.network.model.CollectiveModel.time` takes them one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from hardware_specs.collectives import Shares
from hardware_specs.types import Cluster
from simulator.collective_calls import CollectiveOp
from simulator.network.calibration import Calibration, LinkClass, calibrate
from simulator.network.collectives import Call, CollectiveAlgorithm
from simulator.network.collectives.algorithm import Latency, Stage
from simulator.network.levels import ResourceClass
from simulator.network.library import transport_of
from simulator.network.load import full_rate_seconds
from simulator.network.model import ALONE, NETWORK, CollectiveModel, StageAmounts
from simulator.network.peers import peer_shares
from simulator.network.pipeline import latency_s
from simulator.network.transport import Transport
from simulator.operators import FloatArray
from simulator.program import IntArray

_COLUMNS = (
    "near_s", "network_s", "inside_s", "mesh_share", "efficiency", "touched_bytes", "kernels_s", "least_s",
    "near", "network", "transfer", "rounds", "hides", "waits", "is_ll",
)  # fmt: skip
"""Seconds at full rates and shares, what a `Way` says beside its protocol, and the factors of its pipeline."""

Hops = tuple[Latency, str, int, float]
"""Counts of latencies, protocol, links per hop, size of the messages between nodes."""
Kind = tuple[CollectiveOp, Shares, int, int]
"""Operation, name of the algorithm's shares, nodes, members on each."""


NO_STAGE = StageAmounts(Stage(Latency(starts=0.0)), {}, 1.0, 1)


@dataclass(slots=True)
class _Rows:
    """Rows under construction; latencies and kinds of call are written once and numbered."""

    values: list[tuple[float, ...]] = field(default_factory=list)
    latency_of: list[int] = field(default_factory=list)
    kind_of: list[int] = field(default_factory=list)
    option_starts: list[int] = field(default_factory=list)
    call_starts: list[int] = field(default_factory=list)
    latencies: dict[Hops, int] = field(default_factory=dict)
    kinds: dict[Kind, int] = field(default_factory=dict)

    def add(self, model: CollectiveModel, call: Call) -> None:
        """All ways to do a call."""
        self.call_starts.append(len(self.option_starts))
        for algorithm in model.candidates(call) if call.block.size > 1 else [ALONE]:
            self._add_options(model, call, algorithm)

    def _add_options(self, model: CollectiveModel, call: Call, algorithm: CollectiveAlgorithm) -> None:
        amounts = model.amounts(call, algorithm) or (NO_STAGE,)
        peers = peer_shares(model.cluster.node, algorithm.shares, call.block.local_size, call.block.node_count)
        kind = (call.op, algorithm.shares, call.block.node_count, call.block.local_size)
        for ways in model.transport.ways(algorithm, call, [part.stage for part in amounts]).values():
            self.option_starts.append(len(self.values))
            for way, part in zip(ways, amounts, strict=True):
                pipe = way.pipeline
                key = (part.stage.latency, way.protocol, part.links, pipe.piece_bytes)
                self.latency_of.append(self.latencies.setdefault(key, len(self.latencies)))
                self.kind_of.append(self.kinds.setdefault(kind, len(self.kinds)))
                touched = float(np.max(way.touched_bytes))
                pieces = (pipe.near, pipe.network, pipe.transfer, pipe.rounds)
                flags = (float(pipe.hides), pipe.waits, float(way.protocol == "ll"))
                own = (part.mesh_share, way.efficiency, touched, float(np.max(way.kernels_s)), way.least_s)
                self.values.append((*_full_rate_s(model, part, peers), *own, *pieces, *flags))


def _full_rate_s(
    model: CollectiveModel, part: StageAmounts, peers: Mapping[ResourceClass, float]
) -> tuple[float, float, float]:
    """Seconds at the full rate of links inside a node that a fit looks at, of the network, and of all others."""
    near, found = model.topology.near_classes, [0.0, 0.0, 0.0]
    for name, seconds in full_rate_seconds(part.loads, model.rates).items():
        place = 0 if name in near else 1 if name in NETWORK else 2
        found[place] = max(found[place], float(seconds.max()) / peers.get(name, 1.0))
    return found[0], found[1], found[2]


@dataclass(frozen=True, slots=True, eq=False)
class CallTable:
    """Calls of one instance each, ready to be timed with other constants.

    Attributes:
        columns: ``[rows]`` of each of `_COLUMNS`.
        latency_of: index in ``latencies`` of each row's latency ``[rows]``.
        kind_of: index in ``kinds`` of each row's call ``[rows]``.
        option_starts: first row of each way to do a call.
        call_starts: first such way of each call.
        latencies: distinct counts of latencies with what their time depends on.
        kinds: distinct operations with their algorithm, nodes and members per node.
    """

    columns: dict[str, FloatArray]
    latency_of: IntArray
    kind_of: IntArray
    option_starts: IntArray
    call_starts: IntArray
    latencies: tuple[Hops, ...]
    kinds: tuple[Kind, ...]

    @staticmethod
    def of(calls: Iterable[tuple[CollectiveModel, Call]]) -> CallTable:
        """Gather the calls; each is of one instance."""
        rows = _Rows()
        for model, call in calls:
            rows.add(model, call)
        values = np.array(rows.values).reshape(-1, len(_COLUMNS)).T
        return CallTable(
            columns=dict(zip(_COLUMNS, values, strict=True)),
            latency_of=np.array(rows.latency_of, dtype=np.int64),
            kind_of=np.array(rows.kind_of, dtype=np.int64),
            option_starts=np.array(rows.option_starts, dtype=np.int64),
            call_starts=np.array(rows.call_starts, dtype=np.int64),
            latencies=tuple(rows.latencies),
            kinds=tuple(rows.kinds),
        )

    def seconds(self, cluster: Cluster) -> FloatArray:
        """Durations on an idle machine, of the fastest way ``[calls]``.

        Args:
            cluster: the machine of the calls; its fit may differ from the one they were gathered with.
        """
        fastest: FloatArray = np.minimum.reduceat(self._options_s(cluster), self.call_starts)
        return fastest

    def chosen(self, cluster: Cluster) -> IntArray:
        """Index in ``kinds`` of the fastest way of each call ``[calls]``."""
        options_s = self._options_s(cluster)
        ends = np.append(self.call_starts[1:], len(options_s))
        spans = zip(self.call_starts.tolist(), ends.tolist(), strict=True)
        fastest = [start + int(np.argmin(options_s[start:end])) for start, end in spans]
        found: IntArray = self.kind_of[self.option_starts[np.array(fastest, dtype=np.int64)]]
        return found

    def _options_s(self, cluster: Cluster) -> FloatArray:
        """Seconds of each way to do each call."""
        transport, calibration = transport_of(cluster), calibrate(cluster)
        column = self.columns
        near = self._reached(calibration, "near") * column["mesh_share"] * column["efficiency"]
        near_s = column["near_s"] / near
        ll = np.where(column["is_ll"] > 0.0, calibration.ll, 1.0)
        network_s = column["network_s"] / (self._reached(calibration, "nic") * column["efficiency"] * ll)
        busiest_s = np.maximum(np.maximum(near_s, network_s), column["inside_s"] / column["efficiency"])
        starts_s, hops_s, own_s, waits_s, posts_s = self._latencies(transport)
        paced_s = np.maximum(np.maximum(posts_s, column["least_s"]), column["waits"] * waits_s)
        work_s = np.maximum(busiest_s, paced_s)
        factors = tuple(column[name] for name in ("near", "network", "transfer", "rounds"))
        least_s = np.where(column["hides"] > 0.0, own_s, hops_s)
        exposed_s = latency_s(factors, hops_s, least_s, (near_s, network_s), work_s)
        beside_s = transport.copy_seconds(column["touched_bytes"]) + column["kernels_s"]
        stage_s = starts_s + exposed_s + (work_s + beside_s)
        found: FloatArray = np.add.reduceat(stage_s, self.option_starts)
        return found

    def _latencies(self, transport: Transport) -> FloatArray:
        """Seconds of starts, hops, their own part, one between nodes, and posts of each row ``[5, rows]``."""
        each = [
            (
                transport.start_seconds(latency, protocol),
                transport.hop_seconds(latency, protocol, links, piece),
                transport.own_seconds(latency, protocol),
                transport.wait_seconds(latency, protocol, links),
                transport.posting_seconds(latency, protocol),
            )
            for latency, protocol, links, piece in self.latencies
        ]
        found: FloatArray = np.array(each).reshape(-1, 5).T[:, self.latency_of]
        return found

    def _reached(self, calibration: Calibration, link: LinkClass) -> FloatArray:
        """The fraction of a link class that each row's call reaches ``[rows]``."""
        found = [calibration.link_fractions(op, name, link, m, local).reached for op, name, m, local in self.kinds]
        return np.array(found)[self.kind_of]

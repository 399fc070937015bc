"""Times of kernels on a CPU socket, from the rates of its data sheet (`hardware_specs.cpu_rates`).

    GEMM             start + max(flops / (peak x fraction x share of the cores), bytes / STREAM)
    convolution      the same, at the GEMM's fraction; a depthwise convolution moves its tensors only
    lookup           start + (rows that miss the shared cache + indices + pooled vectors) / STREAM
    update           start + (gradients read, one for each lookup written and read, weights and state) / STREAM,
                     times its contention
    gather, scatter  start + bytes / rate of indexing
    others           start + bytes / STREAM

A rank has a socket, an equal part of it, or several; cores of the library's workers compute nothing. STREAM is the
rate of the socket, which fewer cores reach too. The update follows Kalamkar et al. (SC 2020): the backward pass
writes a gradient for each lookup, which a second kernel adds to the rows, in one of three ways:

    race_free   each core owns a range of rows and skips the lookups of others: no contention
    atomic      each core adds its share of the lookups: of T cores that add, T c meet at one row at a time, where c is
                the probability that two lookups of a table are of one row, so it takes 1 + (T - 1) c times as long
    reference   one core sums and adds all rows: a time for each lookup
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardware_specs.cpu_rates import CpuRates
from hardware_specs.types import Cluster, Node
from simulator.operators import (
    Amount,
    Convolution,
    Copy,
    Delay,
    DenseOptimizer,
    Elementwise,
    EmbeddingLookup,
    EmbeddingUpdate,
    Gemm,
    HostTraffic,
    HostWork,
    Ingest,
    Interaction,
    Measured,
    Misses,
)
from simulator.precisions import BYTES_PER_ELEMENT
from simulator.work import KernelSeries, Operator

SINGLE_VALUES = ("gather", "scatter")
"""Kernels that move values one by one."""
COPIED_TWICE = 2.0
"""A copy reads and writes its bytes."""


@dataclass(frozen=True, slots=True)
class SocketModel:
    """Kernel times of a rank on its socket, and of its host thread.

    Attributes:
        rates: rates of the socket.
        node: the node it sits in.
        ranks: ranks that share the socket.
        sockets: sockets that a rank spans instead.
        cores: cores of a rank that compute.
        launch_s: host time of one operator, from the framework profile.
        gemm_speed: multiplies arithmetic rates.
        memory_speed: multiplies the rate of memory.
        host_speed: divides host times.
        kernel_starts: multiplies the starts of kernels.
    """

    rates: CpuRates
    node: Node
    ranks: int
    cores: int
    launch_s: float
    gemm_speed: float = 1.0
    memory_speed: float = 1.0
    host_speed: float = 1.0
    kernel_starts: float = 1.0
    sockets: int = 1

    @staticmethod
    def of(cluster: Cluster, rates: CpuRates, world_size: int, launch_s: float) -> SocketModel:
        """The model of a rank of a cluster; cores of the library's workers compute nothing; a lone rank has none."""
        node = cluster.node
        ranks = 1 if node.ranks_per_socket is None else node.ranks_per_socket.value
        workers = cluster.collectives.workers if world_size > 1 else 0
        cores = max(1, node.cpu.cores.value * node.spanned_sockets // ranks - workers)
        return SocketModel(rates, node, ranks, cores, launch_s, sockets=node.spanned_sockets)

    @property
    def memory_bytes_per_s(self) -> float:
        """Rate of memory for a rank."""
        return self.rates.memory_bytes_per_s.value * self.sockets / self.ranks * self.memory_speed

    def flops_per_s(self, precision: str, fraction: float) -> float:
        """Arithmetic rate of a rank's computing cores at a fraction of the peak.

        Raises:
            InputError: the cores do not compute in the precision.
        """
        part = self.cores / self.node.cpu.cores.value
        return self.rates.peak_flops_per_s(precision) * fraction * part * self.gemm_speed

    def duration_s(self, operator: Operator) -> Amount:
        """Duration in seconds: a scalar, or ``[P]`` when an amount of the operator is ``[P]``.

        Raises:
            InputError: the cores do not compute in the operator's precision.
        """
        found = _DURATIONS.get(type(operator))
        return 0.0 if found is None else found(self, operator)

    def pcie_s(self, traffic: HostTraffic | None) -> Amount:  # noqa: ARG002 - one signature for all models
        """Nothing: a rank computes where its memory is."""
        return 0.0

    def ssd_s(self, traffic: HostTraffic | None) -> Amount:  # noqa: ARG002 - as above
        """Nothing: tables of ranks on CPUs are in memory."""
        return 0.0

    def outside_range(self, operator: Operator) -> str | None:
        """Reason why the operator is outside the range of the model, or None."""
        if isinstance(operator, EmbeddingUpdate) and operator.variant == "atomic" and np.any(operator.collisions):
            return "contention of atomic updates follows from the index law; only its largest effect is published"
        return None

    def improved(self, speed: Mapping[str, float]) -> SocketModel:
        """The same machine with ``GEMM``, ``HBM`` (memory of the sockets) or ``host`` faster by the given factors."""
        return replace(
            self,
            gemm_speed=speed.get("GEMM", 1.0),
            memory_speed=speed.get("HBM", 1.0),
            host_speed=speed.get("host", 1.0),
        )

    def without_starts(self) -> SocketModel:
        """The same sockets without kernel starts."""
        return replace(self, kernel_starts=0.0)

    def _started(self, busy_s: Amount) -> Amount:
        """The start of a kernel and its work; 0 where that is nothing."""
        start_s = self.rates.kernel_start_s.value * self.kernel_starts
        timed = np.where(np.asarray(busy_s) > 0.0, busy_s + start_s, 0.0)
        return timed if timed.ndim else float(timed)

    def _streamed(self, traffic_bytes: Amount) -> Amount:
        return self._started(traffic_bytes / self.memory_bytes_per_s)

    def _gemm(self, operator: Gemm) -> Amount:
        m, n, k, count = operator.m, operator.n, operator.k, operator.count
        small = bool(np.max(count) > 1) and not operator.apart
        fraction = (self.rates.small_gemm_fraction if small else self.rates.gemm_fraction).value
        traffic = BYTES_PER_ELEMENT[operator.precision] * count * (m * k + k * n + m * n)
        flops_s = 2.0 * count * m * n * k / self.flops_per_s(operator.precision, fraction)
        return self._started(np.maximum(flops_s, traffic / self.memory_bytes_per_s))

    def _convolution(self, operator: Convolution) -> Amount:
        """Time of a convolution at the rate of GEMMs: direct convolutions reach about the same share of the peak.

        70 to 80 % on Skylake sockets (Georganas et al., SC 2018, arXiv:1808.05567, recalled).
        """
        traffic_s = BYTES_PER_ELEMENT[operator.precision] * operator.elements / self.memory_bytes_per_s
        if operator.groups > 1:
            return self._started(traffic_s)
        flops_s = operator.flops / self.flops_per_s(operator.precision, self.rates.gemm_fraction.value)
        return self._started(max(flops_s, traffic_s))

    def _series(self, operator: KernelSeries) -> Amount:
        return sum(count * self.duration_s(kernel) for count, kernel in operator.kernels)

    def _interaction(self, operator: Interaction) -> Amount:
        rate = self.flops_per_s(operator.precision, self.rates.small_gemm_fraction.value)
        traffic_s = (operator.read_bytes + operator.write_bytes) / self.memory_bytes_per_s
        return self._started(np.maximum(operator.flops / rate, traffic_s))

    def _lookup(self, operator: EmbeddingLookup) -> Amount:
        rows = self._from_memory(None if operator.cpu is None else operator.cpu.rows, operator.row_bytes)
        busy_s = operator.factor * (rows + operator.output_bytes + operator.index_bytes) / self.memory_bytes_per_s
        return self._started(busy_s)

    def _update(self, operator: EmbeddingUpdate) -> Amount:
        if operator.variant == "reference":
            return self._started(operator.lookups * self.rates.serial_row_s.value)
        rows, state = operator.weight_bytes, operator.state_bytes
        if operator.cpu is not None:
            rows = self._from_memory(operator.cpu.rows, rows)
            state = self._from_memory(operator.cpu.state, state)
        of_lookups = operator.gradient_bytes + operator.repeated_gradient_bytes
        traffic = operator.gradient_bytes + COPIED_TWICE * of_lookups + rows + state
        busy_s = operator.factor * traffic / self.memory_bytes_per_s
        return self._started(busy_s * self.contention(operator))

    def contention(self, operator: EmbeddingUpdate) -> Amount:
        """Factor on the time of an update by which cores wait for each other at rows."""
        return 1.0 + (self.cores - 1) * operator.collisions if operator.variant == "atomic" else 1.0

    def _from_memory(self, missed: Misses | None, passed: Amount) -> Amount:
        """Bytes that miss the shared cache; each rank of the socket has an equal part of the cache."""
        return passed if missed is None else missed.at(self.rates.cache_bytes.value * self.sockets / self.ranks)

    def _elementwise(self, operator: Elementwise) -> Amount:
        if operator.access in SINGLE_VALUES:
            part = self.cores / self.node.cpu.cores.value * self.memory_speed
            return self._started(operator.read_bytes / (self.rates.gather_bytes_per_s.value * part))
        return self._streamed(operator.read_bytes + operator.write_bytes)

    def _optimizer(self, operator: DenseOptimizer) -> Amount:
        return self._streamed(operator.traffic_bytes)

    def _copy(self, operator: Copy) -> Amount:
        """Nothing for copies between a host and its device, which are one."""
        return self._streamed(operator.bytes * COPIED_TWICE) if operator.direction == "d2d" else 0.0

    def _host(self, operator: HostWork) -> Amount:
        busy_s = operator.launches * self.launch_s + operator.seconds
        return busy_s * self.node.cpu.host_time_factor.value / self.host_speed

    def _ingest(self, operator: Ingest) -> Amount:
        return operator.bytes / self.node.frontend_bytes_per_s

    def _measured(self, operator: Measured) -> Amount:
        return operator.seconds

    def _waiting(self, operator: Delay) -> Amount:
        return operator.seconds / self.host_speed


_DURATIONS: dict[type, Callable[[SocketModel, Any], Amount]] = {
    Gemm: SocketModel._gemm,  # noqa: SLF001 - the class's own table
    Convolution: SocketModel._convolution,  # noqa: SLF001
    KernelSeries: SocketModel._series,  # noqa: SLF001
    EmbeddingLookup: SocketModel._lookup,  # noqa: SLF001
    EmbeddingUpdate: SocketModel._update,  # noqa: SLF001
    Interaction: SocketModel._interaction,  # noqa: SLF001
    Elementwise: SocketModel._elementwise,  # noqa: SLF001
    DenseOptimizer: SocketModel._optimizer,  # noqa: SLF001
    Copy: SocketModel._copy,  # noqa: SLF001
    HostWork: SocketModel._host,  # noqa: SLF001
    Ingest: SocketModel._ingest,  # noqa: SLF001
    Measured: SocketModel._measured,  # noqa: SLF001
    Delay: SocketModel._waiting,  # noqa: SLF001
}
"""Times by operator; other operators take no time."""

"""A time below which no iteration of a transformer's job ends, without its task graph.

Kernels of a rank follow each other, and exchanges of its tensor and context groups stand between them. A stage s of a
pipeline begins when a micro-batch has passed the stages before it, and its last backward pass goes back through them:

    time >= max over s of  sum over stages before s of (F + B)  +  microbatches x (F_s + B_s)

with F and B the passes of a micro-batch through a stage (for the stages before: through its first part). Launches of
the host, weights that FSDP gathers for every pass, and sums of gradients are another bound each, for they stand in a
line of their own. Starts of kernels, messages between stages and the optimizer only add to these.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from scenarios.machine import machine_of
from scenarios.transformer.typed import TransformerResolved
from simulator.collective_calls import CollectiveCall, CollectiveOp
from simulator.lowering import Machine
from simulator.network.collectives import Call
from simulator.operators import HostWork
from workloads.transformer.parts import NetworkPart, parts_of, stage_parts
from workloads.transformer.recorder import PassWork
from workloads.transformer.settings import ParallelSizes, TransformerSettings


@dataclass(slots=True)
class LeastTime:
    """Least times of jobs on a machine; passes of equal parts are priced once."""

    machine: Machine
    _passes: dict[TransformerSettings, dict[str, tuple[float, float]]] = field(default_factory=dict)
    _calls: dict[tuple[str, float, int, int], float] = field(default_factory=dict)

    def __call__(self, settings: TransformerSettings) -> float:
        """Seconds of an iteration at least."""
        prices = self._prices(settings)
        stages = stage_parts(settings)
        before, longest, host = 0.0, 0.0, 0.0
        for parts in stages:
            times = [_of_part(part, prices) for part in parts]
            longest = max(longest, before + settings.microbatches * sum(device for device, _ in times))
            host = max(host, settings.microbatches * sum(launches for _, launches in times))
            before += times[0][0]
        largest = max(sum(part.parameters for part in parts) for parts in stages)
        return max(longest, host, self._gathers_s(settings), self._sums_s(settings, largest))

    def _prices(self, settings: TransformerSettings) -> dict[str, tuple[float, float]]:
        """Seconds of device and host for both passes of an embedding, a layer and a head."""
        sizes = replace(
            settings.sizes, data=1, pipeline=1, virtual_stages=1, sharding="none", shard_size=1
        )  # the same passes
        alike = replace(settings, sizes=sizes, microbatches=1, compression=None)
        if alike not in self._passes:
            first, *layers, last = parts_of(alike)
            layer = [replace(layers[0], repeated=count) for count in (0, 1)]
            parts = {"embedding": first, "layer": layer[0], "repeated": layer[1], "head": last}
            self._passes[alike] = {name: self._both_passes(part, alike) for name, part in parts.items()}
        return self._passes[alike]

    def _both_passes(self, part: NetworkPart, settings: TransformerSettings) -> tuple[float, float]:
        compute, device, host = self.machine.compute.without_starts(), 0.0, 0.0
        for backward in (False, True):
            work = PassWork.of(part, None, settings, backward=backward)
            device += sum(float(np.min(compute.duration_s(series))) for series in work.series)
            waits = settings.sizes.context_exchange == "all_gather"
            calls = (*work.tensor_calls, *(work.context_calls if waits else ()))
            device += sum(call.repeats * self._call_s(call, settings) for call in calls)
            seconds = 0.0 if settings.compiled else work.launches * settings.operator_s
            host += float(np.min(compute.duration_s(HostWork(launches=work.launches, seconds=seconds))))
        return device, host

    def _gathers_s(self, settings: TransformerSettings) -> float:
        """Seconds in which FSDP gathers weights, where it does so for every pass."""
        sizes = settings.sizes
        group = _shard_ranks(sizes)
        if not sizes.reshards or group == 1:
            return 0.0
        passes, found = 2 * settings.microbatches, 0.0
        for part in parts_of(settings):
            kept = settings.model.tied and part.embedding
            size = float(part.parameters * settings.element_bytes)
            found += (1 if kept else passes) * self._alone_s("all_gather", size, sizes.tensor, group)
        return found

    def _sums_s(self, settings: TransformerSettings, parameters: int) -> float:
        """Seconds in which the gradients of a stage are summed, as one call each time."""
        sizes, group = settings.sizes, _shard_ranks(settings.sizes)
        if group == 1:
            return 0.0
        op: CollectiveOp = "all_reduce" if sizes.sharding == "none" else "reduce_scatter"
        times = settings.microbatches if sizes.gathers and sizes.pipeline == 1 else 1
        return times * self._alone_s(op, float(parameters * settings.reduced_bytes), sizes.tensor, group)

    def _call_s(self, call: CollectiveCall, settings: TransformerSettings) -> float:
        """Seconds of a call of the tensor or context group."""
        sizes, size = settings.sizes, float(np.min(call.bytes))
        if call.communicator == "tensor":
            return self._alone_s(call.op, size, 1, sizes.tensor)
        return self._alone_s(call.op, size, sizes.tensor, sizes.context)

    def _alone_s(self, op: CollectiveOp, size: float, step: int, count: int) -> float:
        """Seconds of a call of ``count`` ranks, ``step`` apart, alone on their links."""
        key = (op, size, step, count)
        if key not in self._calls:
            members = np.full(self.machine.topology.world_size, -1, dtype=np.int64)
            members[: step * count : step] = 0
            amount = np.full((1, 1), size)
            collectives = self.machine.collectives
            times = [collectives.time(Call(op, block, amount)).seconds for block in collectives.blocks(members)]
            self._calls[key] = min(float(seconds.min()) for seconds in times)
        return self._calls[key]


def least_time_of(resolved: TransformerResolved, machine: Machine) -> LeastTime:
    """Least times of divisions of a scenario; several sites count as one site, which is no slower."""
    if machine.topology.site_of is None:
        return LeastTime(machine)
    return LeastTime(machine_of(replace(resolved, cluster=resolved.cluster.of_one_site())))


def _shard_ranks(sizes: ParallelSizes) -> int:
    """Ranks among which the gradient of a parameter is summed first."""
    return sizes.shard_size if sizes.sharding == "hybrid" else sizes.reducing


def _of_part(part: NetworkPart, prices: dict[str, tuple[float, float]]) -> tuple[float, float]:
    """Seconds of device and host for both passes of a micro-batch through a part."""
    ends, plain = {"embedding": int(part.embedding), "head": int(part.head)}, part.layers - part.repeated
    counts = {**ends, "layer": plain, "repeated": part.repeated}
    return (
        sum(count * prices[name][0] for name, count in counts.items()),
        sum(count * prices[name][1] for name, count in counts.items()),
    )

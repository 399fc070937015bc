"""Settings of a convolutional network's scenario that may make it faster."""

from __future__ import annotations

from collections.abc import Iterator

from scenarios.candidates import Candidate
from scenarios.convnet import filling
from scenarios.convnet.settings import ConvnetResolved
from simulator.analysis import Bound
from workloads.convnet.settings import Strategy


def candidates(resolved: ConvnetResolved, bound: Bound) -> Iterator[Candidate]:
    """Candidates: other strategies, servers, micro-batches and schedules, and 16-bit products on GPUs."""
    if resolved.world_size > 1:
        most = bound.path_shares.get("communication", 0.0)
        yield from (Candidate(f"workload.strategy={name}", most=most) for name in _strategies(resolved))
        yield from (Candidate(f"workload.servers={count}", most=most) for count in _servers(resolved))
    yield from map(Candidate, _pipelines(resolved))
    wide = resolved.scenario.precision.dense in ("fp32", "tf32")
    if wide and resolved.cluster.node.gpu is not None:
        yield Candidate("precision.dense=fp16", "numerics")


def _strategies(resolved: ConvnetResolved) -> Iterator[Strategy]:
    """Data-parallel strategies of the cluster's libraries, without strategies over gRPC."""
    cluster, own = resolved.cluster, resolved.scenario.workload.strategy
    if own == filling.PARTITIONED:
        return
    for name, backend in filling.BACKEND_OF.items():
        known = cluster.node.gpu is not None or name in filling.ON_CPUS
        others = (own, filling.PARTITIONED)
        if known and name not in others and not name.startswith("grpc_ps") and cluster.by_backend(backend):
            yield name


def _pipelines(resolved: ConvnetResolved) -> Iterator[str]:
    """Twice and half as many micro-batches, and the other schedule, of a network in partitions."""
    section = resolved.scenario.workload
    if section.held_partitions > 1:
        own = section.micro_batches or 1
        yield from (f"workload.micro_batches={size}" for size in (own // 2, 2 * own) if size)
        yield f"workload.schedule={'1f1b' if section.schedule == 'gpipe' else 'gpipe'}"


def _servers(resolved: ConvnetResolved) -> Iterator[int]:
    """Twice and four times as many parameter servers, and one on each node."""
    own, nodes = resolved.scenario.workload.servers, resolved.nodes
    if own is not None:
        yield from (count for count in sorted({2 * own, 4 * own, nodes}) if own < count <= nodes)

"""The constants of a machine behind each class of the bound, each with the part of the class's time it stands for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from hardware_specs.cpu_rates import CpuRates
from hardware_specs.processors import Cpu, Gpu
from hardware_specs.types import Cluster
from scenarios.uncertainty.constant import Constant, graded
from scenarios.uncertainty.shares import NORMAL_MEDIAN, measured_nodes, measured_ops, residual_sigma, share_of
from scenarios.uncertainty.usage import LARGE_BYTES, CallUse, Usage, parts
from simulator.network.calibration import Calibration

NODE, GPU, NICS, FABRIC = "cluster.node", "cluster.node.gpu", "cluster.node.nics", "cluster.fabric"

EMBEDDING = ("EmbeddingLookup", "EmbeddingUpdate", "CacheFill")
STREAMS = ("Elementwise", "DenseOptimizer", "Interaction")
MEMORY_BOUND_GEMMS = 0.5
"""Part of the time of GEMMs that counts as bound by memory where the classes of kernels share the HBM's time: some
layers of an MLP are, some are not."""

UNMEASURED_L2 = 0.25
"""Standard deviation of an L2 rate that nobody measured: known ones are 2 to 6 times the HBM's (`L2_OVER_MEMORY`)."""

TUNING = 0.25
"""Standard deviation of NCCL's latencies inside a node, where no fit corrects them: they drive its choices and are no
measurements; fits find 0.85 to 1.2 of them on H100, 1.9 on B200."""

UNMEASURED_MESSAGES = 0.50
"""The same between nodes: a post takes 1.2 us on InfiniBand and 22.6 us on Slingshot, and 6 are counted."""

VERSIONS_LARGE, VERSIONS_SMALL = 0.05, 0.13
"""Standard deviation between versions of NCCL on the same GPUs, operation and size, from 1 MiB on and below (medians
of all public repeats: up to 5 and up to 13 %). No interval of a collective is narrower."""


class Weighted(NamedTuple):
    """A constant, and the part of its class's time that it stands for, 0 to 1."""

    part: float
    constant: Constant


def machine_constants(cluster: Cluster, calibration: Calibration, usage: Usage) -> dict[str, list[Weighted]]:
    """Constants by single class of `simulator.analysis.bound.SINGLE_CLASSES`; imbalance rests on none."""
    inside = [call for call in usage.calls if call.nodes == 1]
    between = [call for call in usage.calls if call.nodes > 1]
    near = [*_shares(cluster, calibration, usage.calls, "near")]
    far = [*_shares(cluster, calibration, between, "nic")]
    found = {
        "NVLink": [*_nvlink(cluster), *near],
        "NIC": [*_nics(cluster), *far],
        "spine": [*_spine(cluster), *far],
        "messages": [*_messages(cluster, usage, inside, between)],
        "PCIe/DDR": [*_pcie(cluster), *([] if cluster.node.scale_up is not None else near)],
    }
    return found | _kernels(cluster, usage)


def version_of(cluster: Cluster, calls: Sequence[CallUse]) -> Constant:
    """Difference between versions of the library: a constant of all that collectives take."""
    whole = sum(call.seconds for call in calls)
    small = sum(call.seconds for call in calls if call.bytes < LARGE_BYTES) / whole if whole > 0.0 else 0.0
    sigma = small * VERSIONS_SMALL + (1.0 - small) * VERSIONS_LARGE
    name = cluster.collectives.name
    reason = f"versions of a library differ; the constants are of {name} and of the versions that were measured"
    measure = "nccl-tests with the version that the job runs; dlrmsim calibrate collectives"
    return Constant("cluster.collectives", "derived", sigma, reason, measure)


def _kernels(cluster: Cluster, usage: Usage) -> dict[str, list[Weighted]]:
    gpu = cluster.node.gpu
    cpu = cluster.node.cpu
    if gpu is None and not cpu.kernels and cpu.rates is not None:
        return _socket(cpu.rates)
    if gpu is None:
        costs = Weighted(1.0, _cpu_costs(cluster.node.cpu))
        return {"GEMM": [costs], "HBM": [costs], "host": [costs]}
    host = graded(f"{NODE}.cpu.host_time_factor", cluster.node.cpu.host_time_factor, "dlrmsim calibrate host")
    return {"GEMM": [*_gemms(gpu, usage)], "HBM": [*_memory(gpu, usage)], "host": [Weighted(1.0, host)]}


def _socket(rates: CpuRates) -> dict[str, list[Weighted]]:
    """Constants of a socket's data sheet; each class rests on those that most of its time does."""
    key = f"{NODE}.cpu.rates"
    gemms = [
        graded(f"{key}.peak_flops.fp32", rates.peak_flops["fp32"], "a GEMM benchmark on all cores of a socket"),
        graded(f"{key}.gemm_fraction", rates.gemm_fraction, "a GEMM benchmark on all cores of a socket"),
    ]
    memory = graded(f"{key}.memory_bytes_per_s", rates.memory_bytes_per_s, "STREAM on a socket")
    start = graded(f"{key}.kernel_start_s", rates.kernel_start_s, "an empty parallel region on all cores")
    return {
        "GEMM": [Weighted(1.0, constant) for constant in gemms],
        "HBM": [Weighted(1.0, memory)],
        "host": [Weighted(1.0, start)],
    }


def _cpu_costs(cpu: Cpu) -> Constant:
    """Costs of a CPU's kernels: how far timed kernels are from them."""
    errors = [cost.median_error_pct for known in cpu.kernels for cost in known.costs.values()]
    sigma = median(errors) / 100.0 / NORMAL_MEDIAN if errors else 0.0
    reason = f"fitted, median error {median(errors):.1f} %" if errors else "not measured"
    return Constant(f"{NODE}.cpu.kernels", "derived", sigma, reason, "dlrmsim calibrate host")


def _gemms(gpu: Gpu, usage: Usage) -> Iterator[Weighted]:
    precision = gpu.computes_in(usage.precision)
    peak = next(rate for name, rate in gpu.peak_flops.items() if name == precision)
    yield Weighted(1.0, graded(f"{GPU}.peak_flops.{precision}", peak, f"the data sheet of {gpu.name}"))
    yield Weighted(1.0, graded(f"{GPU}.achieved.gemm_fraction", gpu.achieved.gemm_fraction, _timed_kernels(gpu)))


def _memory(gpu: Gpu, usage: Usage) -> Iterator[Weighted]:
    """Memory rates; kernels share the class by their time on the critical path."""
    rate, reached, measure = gpu.memory_bytes_per_s, gpu.achieved, _timed_kernels(gpu)
    clock = "the memory clock and bus width that nvidia-smi -q reports: bits x clock x 2 / 8"
    yield Weighted(1.0, graded(f"{GPU}.memory_bytes_per_s", rate, clock))
    times = usage.kernels_s
    of = parts(
        {
            "embedding_fraction": sum(times.get(name, 0.0) for name in EMBEDDING),
            "stream_fraction": sum(times.get(name, 0.0) for name in STREAMS),
            "gemm_memory_fraction": MEMORY_BOUND_GEMMS * times.get("Gemm", 0.0),
        }
    )
    for name, part in of.items():
        yield Weighted(part, graded(f"{GPU}.achieved.{name}", getattr(reached, name), measure))
    if gpu.l2_bytes_per_s is None:
        reason = "nobody measured the L2 of this GPU: rows that it holds are read at twice the rate of the HBM"
        l2 = Constant(f"{GPU}.l2_bytes_per_s", "assumed", UNMEASURED_L2, reason, "gpu-benches gpu-l2-cache")
        yield Weighted(of.get("embedding_fraction", 0.0), l2)


def _timed_kernels(gpu: Gpu) -> str:
    return f"dlrmsim calibrate host on a node with it, or dlrmsim calibrate kernels ROWS --gpu {gpu.name} --out FILE"


def _nvlink(cluster: Cluster) -> Iterator[Weighted]:
    if cluster.node.scale_up is not None:
        rate = cluster.node.scale_up.bytes_per_s
        yield Weighted(1.0, graded(f"{NODE}.scale_up.bytes_per_s", rate, "nvidia-smi nvlink -s"))


def _nics(cluster: Cluster) -> Iterator[Weighted]:
    nics = cluster.node.nics
    yield Weighted(1.0, graded(f"{NICS}.nic.bytes_per_s", nics.nic.bytes_per_s, "ib_write_bw between two nodes"))
    yield Weighted(1.0, graded(f"{NICS}.count", nics.count, "ibstat on a node"))


def _spine(cluster: Cluster) -> Iterator[Weighted]:
    fabric = cluster.fabric
    measure = "nccl-tests alltoall_perf on all nodes against the nodes of one leaf"
    for name in ("spine_oversubscription", "detour_share", "link_bytes_per_s"):
        value = getattr(fabric, name)
        if value is not None:
            yield Weighted(1.0, graded(f"{FABRIC}.{name}", value, measure))


def _pcie(cluster: Cluster) -> Iterator[Weighted]:
    node = cluster.node
    for name in ("pcie_bytes_per_s", "pcie_fraction", "ddr_bytes_per_s"):
        value = getattr(node, name)
        if value is not None:
            yield Weighted(1.0, graded(f"{NODE}.{name}", value, "nvbandwidth on a node"))


def _shares(cluster: Cluster, calibration: Calibration, calls: Sequence[CallUse], link: str) -> Iterator[Weighted]:
    """Shares of links that the calls use, each with their part of the time; one per constant, the least sure."""
    found: dict[str, list[tuple[float, Constant]]] = {}
    whole = sum(call.seconds for call in calls)
    for call in calls:
        constant = share_of(cluster, calibration, call, "near" if link == "near" else "nic")
        found.setdefault(constant.key, []).append((call.seconds / whole if whole > 0.0 else 0.0, constant))
    for of_key in found.values():
        yield Weighted(sum(part for part, _ in of_key), max((c for _, c in of_key), key=lambda c: c.sigma))


def _messages(
    cluster: Cluster, usage: Usage, inside: Sequence[CallUse], between: Sequence[CallUse]
) -> Iterator[Weighted]:
    """Starts, hops and posts, inside a node and between nodes apart."""
    for calls, of in ((inside, _near_messages), (between, _far_messages)):
        if calls:
            yield Weighted(usage.share_of_calls(calls, usage.calls), of(cluster, calls))


def _near_messages(cluster: Cluster, calls: Sequence[CallUse]) -> Constant:
    name = "cluster.collectives.messages.near" if cluster.collectives.nccl is None else "cluster.collectives.nccl.ring"
    return _latency(cluster, calls, ("cluster.fitted.near_hop_factor", name), TUNING)


def _far_messages(cluster: Cluster, calls: Sequence[CallUse]) -> Constant:
    library = "messages.network" if cluster.collectives.nccl is None else "nccl.network_post"
    keys = ("cluster.fitted.network_hop_factor", f"cluster.collectives.{library}")
    return _latency(cluster, calls, keys, UNMEASURED_MESSAGES)


def _latency(cluster: Cluster, calls: Sequence[CallUse], keys: tuple[str, str], unmeasured: float) -> Constant:
    """Latencies of a library: fitted, checked by a small message, or as the library states them."""
    fit, nodes = cluster.fitted, max(call.nodes for call in calls)
    name = {"all_to_all": "alltoall"}.get(calls[0].op, calls[0].op)
    measure = f"{name}_perf -b 8 -e 1M -f 2 on {nodes} node{'s' if nodes > 1 else ''}; dlrmsim calibrate collectives"
    if fit is not None and nodes <= measured_nodes(cluster):
        return Constant(keys[0], "derived", residual_sigma(fit.residuals), f"fitted, {fit.residuals}", measure)
    if fit is not None and nodes > 1:
        return Constant(keys[0], "derived", unmeasured, "fitted on fewer nodes", measure)
    if {call.op for call in calls} <= set(measured_ops(cluster, nodes=nodes)):
        reason = "constants of the library, checked by a small message"
        return Constant(keys[1], "derived", unmeasured / 2.0, reason, measure)
    reason = f"constants of {cluster.collectives.name}, not measured on this machine"
    return Constant(keys[1], "assumed", unmeasured, reason, measure)

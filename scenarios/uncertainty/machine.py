"""The constants of a machine behind each class of the bound, each with the part of the class's time it stands for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from hardware_specs.cpu_rates import CpuRates
from hardware_specs.links import PcieTree
from hardware_specs.processors import Cpu, Gpu
from hardware_specs.types import Cluster, Node
from scenarios.uncertainty.constant import Constant, graded
from scenarios.uncertainty.shares import (
    NORMAL_MEDIAN,
    fitted_constant,
    measured_by,
    measured_nodes,
    measured_ops,
    share_of,
)
from scenarios.uncertainty.usage import LARGE_BYTES, CallUse, Usage, parts
from scenarios.uncertainty.vendors import carried_over, links_command, memory_command
from simulator.compute.convolution import has_fractions
from simulator.network.calibration import Calibration

NODE, GPU, NICS, FABRIC = "cluster.node", "cluster.node.gpu", "cluster.node.nics", "cluster.fabric"

CONVOLUTION = "Convolution"
ATTENTION = "Attention"
EMBEDDING = ("EmbeddingLookup", "EmbeddingUpdate", "CacheFill")
STREAMS = ("Elementwise", "DenseOptimizer", "Interaction")
MEMORY_BOUND_GEMMS = 0.5
"""Part of the time of GEMMs that counts as bound by memory where the classes of kernels share the HBM's time: some
layers of an MLP are, some are not."""

ATTENTION_RATES, OTHER_ATTENTION = 0.10, 0.25
"""Standard deviation of the rate of attention (assumed) on Hopper, whose kernels were timed by length and
width of heads, and on other GPUs."""

POINTWISE_ATTENTION = 0.35
"""Standard deviation of the rate of attention without a softmax: FlashAttention-3 is 0.63 faster than FlashAttention-2
on H100 (of the logarithm), and a kernel for HSTU may be built like either."""

POINTWISE_BENCHMARK = "hstu_attention_bench.py of generative-recommenders on this GPU"

UNMEASURED_FP8 = 0.15
"""Standard deviation of the rate of GEMMs in fp8 on a GPU on which none was timed: on five that have one rate it is
0.89 to 1.00 of what the share of 16-bit GEMMs gives."""

UNKNOWN_CLOCK = 0.15
"""Standard deviation of the clock in training where nothing is known of it: 0.66 to 1.0 of that of kernels timed
alone on three GPUs."""

MEASURED_CONVOLUTIONS, OTHER_CONVOLUTIONS = 0.10, 0.25
"""Standard deviation of the rate of a network's convolutions on a generation of GPUs on which these were measured
(networks on one P100 are 6 to 8 % off in the median, `benchmarks.convnets`; single convolutions up to 30 %), and on
one that takes Volta's fractions."""

UNMEASURED_L2 = 0.35
"""Standard deviation of an unmeasured L2 rate: half the way (of the logarithm) from the HBM's rate, which is
counted, to twice it, the least of the measured ones (`L2_OVER_MEMORY`)."""

UNKNOWN_NICS = 0.7
"""Standard deviation of the number of NICs of a node where its source does not state it: half or twice as many."""

UNMEASURED_PEERS = 0.5
"""Standard deviation of what a host passes on between GPUs on PCIe where it was not measured on the machine itself:
servers of one generation differ by a factor of 2.6 between switches (17.2 and 6.5 GB/s) and of 9 between sockets (16
and 1.7 GB/s), and a submission on A30 to MLPerf is faster than either allows."""

PEERS_BY_OPERATION = 0.35
"""The same between operations and sizes on one server: 1.1 to 1.65 GB/s pass between the sockets of L40S in four large
operations, and single sizes of 8 L40S are 25 to 65 % off."""

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
        "NIC": [*_nics(cluster, between, usage), *far],
        "spine": [*_spine(cluster), *far],
        "site": [*_sites(cluster)],
        "messages": [*_messages(cluster, usage, inside, between)],
        "PCIe/DDR": [*_pcie(cluster, usage), *([] if cluster.node.scale_up is not None else near)],
        "SSD": [*_ssds(cluster.node)],
    }
    return found | _kernels(cluster, usage)


def version_of(cluster: Cluster, calls: Sequence[CallUse]) -> Constant:
    """Difference between versions of the library: a constant of all that collectives take."""
    whole = sum(call.seconds for call in calls)
    small = sum(call.seconds for call in calls if call.bytes < LARGE_BYTES) / whole if whole > 0.0 else 0.0
    sigma = small * VERSIONS_SMALL + (1.0 - small) * VERSIONS_LARGE
    name = cluster.collectives.name
    reason = f"versions of a library differ; the constants are of {name} and of the versions that were measured"
    return Constant("cluster.collectives", "derived", sigma, reason)


def _kernels(cluster: Cluster, usage: Usage) -> dict[str, list[Weighted]]:
    gpu = cluster.node.gpu
    cpu = cluster.node.cpu
    if gpu is None and not cpu.kernels and cpu.rates is not None:
        return _socket(cpu.rates)
    if gpu is None:
        costs = Weighted(1.0, _cpu_costs(cluster.node.cpu))
        return {"GEMM": [costs], "HBM": [costs], "host": [costs]}
    host = graded(f"{NODE}.cpu.host_time_factor", cluster.node.cpu.host_time_factor, "dlrmsim calibrate host")
    of_gpu = {"GEMM": _gemms(gpu, usage), "HBM": _memory(gpu, usage)}
    found = {name: [Weighted(part, carried_over(gpu, c)) for part, c in behind] for name, behind in of_gpu.items()}
    return {**found, "host": [Weighted(1.0, host)]}


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
    convolutions = parts({name: usage.kernels_s.get(name, 0.0) for name in ("Gemm", CONVOLUTION)}).get(CONVOLUTION, 0.0)
    measured = has_fractions(gpu.architecture, precision)
    # Fractions of convolutions are fitted on top of the rate of GEMMs: both together were measured.
    products = 1.0 - convolutions if measured else 1.0
    fraction = _gemm_fraction(gpu, precision)
    attention = parts({name: usage.kernels_s.get(name, 0.0) for name in ("Gemm", ATTENTION)}).get(ATTENTION, 0.0)
    yield Weighted(products * (1.0 - attention), fraction)
    if attention:
        yield Weighted(attention, _attention(gpu, pointwise=usage.pointwise))
        yield Weighted(1.0, _clock(gpu))
    if convolutions:
        yield Weighted(convolutions, _convolutions(gpu, measured=measured))


def _gemm_fraction(gpu: Gpu, precision: str) -> Constant:
    """Share of the peak that GEMMs reach in a precision."""
    reached, measure = gpu.achieved, _timed_kernels(gpu)
    if precision != "fp8":
        return graded(f"{GPU}.achieved.gemm_fraction", reached.gemm_fraction, measure)
    key = f"{GPU}.achieved.gemm_fp8_fraction"
    if reached.gemm_fp8_fraction is None:
        reason = "GEMMs in fp8 at the share of the peak that 16-bit ones reach"
        return Constant(key, "assumed", UNMEASURED_FP8, reason, measure)
    return graded(key, reached.gemm_fp8_fraction, measure)


def _attention(gpu: Gpu, *, pointwise: bool) -> Constant:
    """Rate of attention kernels."""
    if pointwise:
        reason = "attention without a softmax at rates of kernels with one; nobody timed it"
        return Constant("workload.model.hstu.kernel", "assumed", POINTWISE_ATTENTION, reason, POINTWISE_BENCHMARK)
    key, measure = f"{GPU}.architecture", "benchmarks of flash-attention on this GPU"
    if gpu.architecture == "hopper":
        reason = "attention at rates fitted on the figures of FlashAttention-3"
        return Constant(key, "derived", ATTENTION_RATES, reason, measure)
    reason = "attention at rates of H100, and the most that FlashAttention-2 reaches on A100"
    return Constant(key, "assumed", OTHER_ATTENTION, reason, measure)


def _clock(gpu: Gpu) -> Constant:
    """Clock of tensor cores in training."""
    key, known = f"{GPU}.achieved.sustained_fraction", gpu.achieved.sustained_fraction
    measure = f"dlrmsim calibrate clock SUITE --gpu {gpu.name} --out FILE"
    if known is None:
        return Constant(key, "assumed", UNKNOWN_CLOCK, "the clock of kernels timed alone", measure)
    return graded(key, known, measure)


def _convolutions(gpu: Gpu, *, measured: bool) -> Constant:
    """Rates of convolutions of a generation of GPUs."""
    key, measure = f"{GPU}.architecture", "the convolutions of DeepBench (baidu-research/DeepBench) on this GPU"
    if measured:
        reason = f"convolutions at the fractions of {gpu.architecture}, fitted on DeepBench's"
        return Constant(key, "derived", MEASURED_CONVOLUTIONS, reason, measure)
    return Constant(key, "assumed", OTHER_CONVOLUTIONS, "convolutions at the fractions of Volta", measure)


def _memory(gpu: Gpu, usage: Usage) -> Iterator[Weighted]:
    """Memory rates; kernels share the class by their time on the critical path."""
    rate, reached, measure = gpu.memory_bytes_per_s, gpu.achieved, _timed_kernels(gpu)
    yield Weighted(1.0, graded(f"{GPU}.memory_bytes_per_s", rate, memory_command(gpu)))
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
        reason = "the L2 of this GPU is unmeasured: rows in it count as read at the HBM's peak rate"
        l2 = Constant(f"{GPU}.l2_bytes_per_s", "assumed", UNMEASURED_L2, reason, "gpu-benches gpu-l2-cache")
        yield Weighted(of.get("embedding_fraction", 0.0), l2)


def _timed_kernels(gpu: Gpu) -> str:
    return f"dlrmsim calibrate host on a node with it, or dlrmsim calibrate kernels ROWS --gpu {gpu.name} --out FILE"


def _nvlink(cluster: Cluster) -> Iterator[Weighted]:
    if cluster.node.scale_up is not None:
        rate = cluster.node.scale_up.bytes_per_s
        yield Weighted(1.0, graded(f"{NODE}.scale_up.bytes_per_s", rate, links_command(cluster.node.gpu)))


def _nics(cluster: Cluster, between: Sequence[CallUse], usage: Usage) -> Iterator[Weighted]:
    """Rate of a port; number of ports, which matters where several GPUs of a node send."""
    nics = cluster.node.nics
    yield Weighted(1.0, graded(f"{NICS}.nic.bytes_per_s", nics.nic.bytes_per_s, "ib_write_bw between two nodes"))
    count = graded(f"{NICS}.count", nics.count, "ibstat on a node")
    if nics.count.grade == "assumed":
        count = count.widened(UNKNOWN_NICS, "half or twice as many")
    several = [call for call in between if call.local_size > 1]
    yield Weighted(usage.share_of_calls(several, between), count)


def _spine(cluster: Cluster) -> Iterator[Weighted]:
    fabric = cluster.fabric
    measure = "nccl-tests alltoall_perf on all nodes against the nodes of one leaf"
    for name in ("spine_oversubscription", "detour_share", "link_bytes_per_s"):
        value = getattr(fabric, name)
        if value is not None:
            yield Weighted(1.0, graded(f"{FABRIC}.{name}", value, measure))


def _sites(cluster: Cluster) -> Iterator[Weighted]:
    """Rates of the links between sites; the least certain rate represents all links."""
    links = cluster.site_links
    if links is None:
        return
    named = {f"pairs[{number}]": pair for number, pair in enumerate(links.pairs)}
    every = ({} if links.default is None else {"default": links.default}) | named
    rates = (
        graded(f"cluster.site_links.{name}.bytes_per_s", link.bytes_per_s, "iperf3 between a node of each site")
        for name, link in every.items()
    )
    yield Weighted(1.0, max(rates, key=lambda constant: constant.sigma))


def _pcie(cluster: Cluster, usage: Usage) -> Iterator[Weighted]:
    node = cluster.node
    peers = [] if node.pcie_tree is None or node.scale_up is not None else [*_peers(node, node.pcie_tree, usage)]
    # Collectives that the host passes on are capped by it, and not by the links; a job has copies, too.
    links = 1.0 if usage.kernels_s else 1.0 - sum(peer.part for peer in peers)
    for name in ("pcie_bytes_per_s", "pcie_fraction", "ddr_bytes_per_s"):
        value = getattr(node, name)
        if value is not None:
            yield Weighted(links, graded(f"{NODE}.{name}", value, "nvbandwidth on a node"))
    yield from peers


def _ssds(node: Node) -> Iterator[Weighted]:
    """Rate at which the SSDs of a node are read, which stands for writes, too: fills of caches read more."""
    if node.ssd is not None:
        rate = node.ssd.read_bytes_per_s
        yield Weighted(1.0, graded(f"{NODE}.ssd.read_bytes_per_s", rate, "fio, random reads on the SSDs of a node"))


def _peers(node: Node, tree: PcieTree, usage: Usage) -> Iterator[Weighted]:
    """Rates of the host between GPUs; where they were not measured another server may have a fraction of them."""
    of_switch, of_socket = node.ranks // tree.switches.value, node.ranks // node.sockets.value
    calls = usage.calls
    between = [call for call in calls if of_switch < call.local_size <= of_socket]
    for name, passed in (
        ("peer_bytes_per_s", between),
        ("far_peer_bytes_per_s", [call for call in calls if call.local_size > of_socket]),
    ):
        value = getattr(tree, name)
        if value is not None and passed:
            by_grade = graded(
                f"{NODE}.pcie_tree.{name}", value, "all_reduce_perf on the GPUs of one socket, and of all"
            )
            known = by_grade.widened(PEERS_BY_OPERATION, "operations and sizes differ by a third")
            assumed = known.widened(UNMEASURED_PEERS, "servers differ by a factor of 2.6 to 9")
            part = usage.share_of_calls(passed, calls)
            yield Weighted(part, assumed if value.grade == "assumed" else known)


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
    call = max(calls, key=lambda call: (call.op != "barrier", call.seconds))
    measure = f"{measured_by(cluster, call, call.ranks, nodes, ('8', '1M'))} --out FILE"
    if fit is not None and nodes <= measured_nodes(cluster):
        return fitted_constant(keys[0], cluster, getattr(fit, keys[0].rpartition(".")[2]), measure)
    if fit is not None and 1 < measured_nodes(cluster) < nodes:
        return Constant(keys[0], "derived", unmeasured, "fitted on fewer nodes", measure)
    if {call.op for call in calls} <= set(measured_ops(cluster, nodes=nodes)):
        reason = "constants of the library, checked by a small message"
        return Constant(keys[1], "derived", unmeasured / 2.0, reason, measure)
    reason = f"constants of {cluster.collectives.name}, not measured on this machine"
    return Constant(keys[1], "assumed", unmeasured, reason, measure)

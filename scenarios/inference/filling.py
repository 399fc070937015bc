"""Keys of a served DLRM, resolved: the batch, caches and threads filled in, contradictions refused."""

from __future__ import annotations

from hardware_specs import Cluster
from inputs.keys import KeyPath, key_text, value_at
from inputs.yaml_lines import Document
from scenarios.backend import BACKEND
from scenarios.dlrm.sequences import refuse_sequences
from scenarios.family import Asked, Filled
from scenarios.inference.section import GPU_CACHE, MOST_SAMPLES, InferenceScenario, InferenceSection
from workloads.dlrm.laws.index_laws import IndexLaw
from workloads.dlrm.model.model import DlrmModel, with_law
from workloads.graded import Graded

BATCH: KeyPath = ("workload", "global_batch_size")
PER_SERVER: KeyPath = ("workload", "max_batch")

MOST_REQUESTS = 20_000_000
"""Largest number of requests of a run: their times take 1 GB, and a minute for batches of one."""

FEWEST_REQUESTS = 1_000
"""Smallest number of requests of a run: a thousandth of them is above the largest percentile."""


def fill(asked: Asked[DlrmModel, InferenceScenario]) -> Filled[DlrmModel]:
    """Fill the section ``workload``; see `scenarios.family.Family.fill`."""
    document, section = asked.document, asked.scenario.workload
    _check_passes(document, section)
    refuse_sequences(document, asked.model, "servers have")
    _check_machine(document, asked.cluster)
    if asked.scenario.network.backend is not None:
        given = asked.scenario.network.backend
        raise document.error(BACKEND, "servers exchange nothing", given=given, expected="no such key")
    batch = _batch(document, section, asked.world_size)
    _check_requests(document, section, batch // asked.world_size)
    model = asked.model
    if section.indices is not None:
        law = Graded[IndexLaw](value=section.indices, source="the scenario", grade="assumed")
        model = with_law(model, law, document, ("workload", "indices"))
    update = {"indices": None, "max_batch": None, **_tiers(document, section, asked.cluster)}
    return Filled(section.model_copy(update=update), model, batch)


def _check_passes(document: Document, section: InferenceSection) -> None:
    """Refuse keys of training.

    Raises:
        InputError: a key of training is given.
    """
    if section.gradient_buckets is not None:
        raise document.error(("workload", "gradient_buckets"), "servers have no gradients", expected="no such key")
    if section.gradient_accumulation > 1:
        raise document.error(
            ("workload", "gradient_accumulation"),
            "a batch of requests has one pass",
            given=section.gradient_accumulation,
            expected="1",
        )
    if section.optimizer != type(section.optimizer)():
        raise document.error(("workload", "optimizer"), "servers update nothing", expected="no such key")


def _check_machine(document: Document, cluster: Cluster) -> None:
    """Refuse CPUs with measured kernels: lookups without an update were not measured on them.

    Raises:
        InputError: the cluster has such a CPU.
    """
    if cluster.node.gpu is None and cluster.node.cpu.kernels:
        raise document.error(
            ("cluster",),
            "servers are GPUs, or CPUs with known rates",
            given=cluster.name,
            expected="a cluster such as dgx_a100_80 or xeon_8280_opa",
        )


def _batch(document: Document, section: InferenceSection, servers: int) -> int:
    """Samples of the largest batches of all servers together.

    Raises:
        InputError: both keys are given, or the servers cannot have equal batches.
    """
    batch = section.global_batch_size
    if batch is None:
        return servers * (MOST_SAMPLES if section.max_batch is None else section.max_batch)
    if section.max_batch is not None:
        raise document.error(PER_SERVER, "given together with global_batch_size", expected="one of the two")
    if batch % servers:
        below = batch - batch % servers
        raise document.error(
            BATCH,
            f"the {servers} servers need equal batches",
            given=batch,
            expected=f"a multiple of {servers}, e.g. {below or servers}",
        )
    return batch


def more_nodes(document: Document, nodes: int, ranks_per_node: int, most: int) -> list[str]:
    """Settings for another number of nodes with the same batch of a server, by the keys of the scenario.

    Args:
        most: largest number of samples of a server's batch.
    """
    servers = nodes * ranks_per_node
    size = f"nodes={nodes}" if value_at(document.data, ("world_size",)) is None else f"world_size={servers}"
    if value_at(document.data, BATCH) is None:
        return [size, f"{key_text(PER_SERVER)}={most}"]
    return [size, f"{key_text(BATCH)}={most * servers}"]


def _check_requests(document: Document, section: InferenceSection, most: int) -> None:
    """Refuse requests larger than a batch, and runs of too few or too many requests.

    Args:
        most: largest number of samples of a server's batch.

    Raises:
        InputError: the requests are refused.
    """
    if section.samples_per_request > most:
        raise document.error(
            ("workload", "samples_per_request"),
            f"a request has more samples than a batch of {most}",
            given=section.samples_per_request,
            expected=f"at most {most}, or a larger max_batch",
        )
    requests, rate = section.requests_per_s * section.simulated_time, section.requests_per_s
    if not FEWEST_REQUESTS <= requests <= MOST_REQUESTS:
        least_s, most_s = FEWEST_REQUESTS / rate, MOST_REQUESTS / rate
        raise document.error(
            ("workload", "simulated_time"),
            f"{requests:,.0f} requests arrive in that time, at {rate:,.10g} a second",
            given=f"{section.simulated_time:g} s",
            expected=f"{least_s:.3g} s to {most_s:.3g} s",
        )


def _tiers(document: Document, section: InferenceSection, cluster: Cluster) -> dict[str, float | int | None]:
    """Fill the cache and the threads of a server.

    Raises:
        InputError: the nodes have no GPUs with caches, or no SSDs for rows outside host memory.
    """
    node = cluster.node
    if node.gpu is None:
        for key, default in (("gpu_cache", None), ("host_memory", 1.0), ("host_threads", None)):
            given = getattr(section, key)
            if given != default:
                raise document.error(
                    ("workload", key),
                    f"the nodes of {cluster.name} have no GPUs: their CPUs have all rows in memory",
                    given=given,
                    expected="no such key, or a cluster with GPUs",
                )
        return {}
    if section.host_memory < 1.0 and node.ssd is None:
        raise document.error(
            ("workload", "host_memory"),
            f"the nodes of {cluster.name} have no SSDs for the other rows",
            given=section.host_memory,
            expected="1, or nodes with ssd",
        )
    own = max(1, node.sockets.value * node.cpu.cores.value // node.ranks)
    return {
        "gpu_cache": GPU_CACHE if section.gpu_cache is None else section.gpu_cache,
        "host_threads": section.host_threads or own,
    }

"""Keys of a DLRM with parameter servers, resolved: ranks divided into trainers and servers, the batch filled in."""

from __future__ import annotations

from inputs.keys import KeyPath
from inputs.yaml_lines import Document
from scenarios.backend import BACKEND
from scenarios.dlrm.sequences import refuse_sequences
from scenarios.dlrm_ps.section import BATCH_PER_THREAD, PsScenario, PsSection
from scenarios.family import Asked, Filled
from workloads.dlrm.model.model import DlrmModel

BATCH: KeyPath = ("workload", "global_batch_size")
PER_THREAD: KeyPath = ("workload", "batch_per_thread")
SERVERS = ("sparse_servers", "dense_servers", "readers")
"""Keys of ranks that do not train."""


def fill(asked: Asked[DlrmModel, PsScenario]) -> Filled[DlrmModel]:
    """Fill the section ``workload``; see `scenarios.family.Family.fill`."""
    document, section = asked.document, asked.scenario.workload
    refuse_sequences(document, asked.model, "parameter servers have")
    _check_machine(asked)
    _check_passes(document, section)
    if asked.scenario.network.backend is not None:
        raise document.error(
            BACKEND,
            "trainers and servers send messages by gRPC, not by a library of collectives",
            given=asked.scenario.network.backend,
            expected="no such key",
        )
    _check_ranks(document, section, asked.world_size)
    trainers = section.training_ranks(asked.world_size)
    if trainers > 1 and not section.dense_servers:
        raise document.error(
            ("workload", "dense_servers"),
            f"nothing keeps the dense parameters of {trainers} trainers together",
            given=0,
            expected="1 or more",
        )
    batch = _batch(document, section, trainers)
    return Filled(section.model_copy(update={"batch_per_thread": None}), asked.model, batch)


def _check_machine(asked: Asked[DlrmModel, PsScenario]) -> None:
    """Refuse machines that are no CPU servers with known rates.

    Raises:
        InputError: this one is.
    """
    node = asked.cluster.node
    if node.gpu is not None or node.cpu.kernels or node.cpu.rates is None:
        raise asked.document.error(
            ("cluster",),
            "trainers and parameter servers are CPU servers whose rates are known",
            given=asked.cluster.name,
            expected="a cluster of CPU sockets, such as cpu_servers_25gbe",
        )


def _check_passes(document: Document, section: PsSection) -> None:
    """Refuse keys of all workloads that these do not use.

    Raises:
        InputError: one of them is given.
    """
    if section.gradient_buckets is not None:
        raise document.error(
            ("workload", "gradient_buckets"),
            "dense gradients are not summed, but applied by each thread",
            expected="workload.sync_every, the exchange of dense parameters",
        )
    if section.gradient_accumulation > 1:
        raise document.error(
            ("workload", "gradient_accumulation"),
            "a thread has one pass for each batch",
            given=section.gradient_accumulation,
            expected="1",
        )


def _check_ranks(document: Document, section: PsSection, world_size: int) -> None:
    """Check that each rank is a trainer or a server.

    Raises:
        InputError: there are more or fewer ranks than these.
    """
    servers = section.servers
    if servers >= world_size:
        largest = max(SERVERS, key=lambda key: getattr(section, key))
        others = servers - getattr(section, largest)
        room = world_size - 1 - others
        raise document.error(
            ("workload", largest),
            f"no rank is left to train: {servers} servers on {world_size} ranks",
            given=getattr(section, largest),
            expected=f"at most {room}" if room >= 0 else f"{servers + 1} ranks or more (nodes)",
        )
    if section.trainers is not None and section.trainers + servers != world_size:
        raise document.error(
            ("workload", "trainers"),
            f"{section.trainers} trainers and {servers} servers are not the {world_size} ranks of the job",
            given=section.trainers,
            expected=f"{world_size - servers}, or no such key",
        )


def _batch(document: Document, section: PsSection, trainers: int) -> int:
    """Samples of an iteration.

    Raises:
        InputError: both keys are given, or threads cannot have equal batches.
    """
    threads, batch = trainers * section.threads, section.global_batch_size
    if batch is None:
        return threads * (section.batch_per_thread or BATCH_PER_THREAD)
    if section.batch_per_thread is not None:
        raise document.error(PER_THREAD, "given together with global_batch_size", expected="one of the two")
    if batch % threads:
        below = batch - batch % threads
        expected = f"a multiple of {threads}, e.g. {below or threads}"
        raise document.error(
            BATCH,
            f"the {threads} threads of all trainers cannot share the batch evenly",
            given=batch,
            expected=expected,
        )
    return batch

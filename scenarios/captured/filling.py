"""Keys of a captured job, resolved and checked against its records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

from hardware_specs import Cluster
from inputs.errors import InputError
from inputs.keys import KeyPath
from inputs.yaml_lines import Document
from scenarios.captured.model import CapturedModel
from scenarios.captured.section import CapturedScenario, CapturedSection
from scenarios.family import Asked, Filled
from scenarios.resolved import ResolvedScenario
from scenarios.shared_keys import MODEL
from workloads.captured.kernels import precision_of
from workloads.captured.records import AttentionWork, ConvolutionWork, Product, RecordedJob
from workloads.captured.settings import CapturedSettings, HostRanks
from workloads.dlrm.laws.index_laws import IndexLaw, Indices, make_law
from workloads.dlrm.model.measured_rows import everywhere
from workloads.graded import Graded

CapturedResolved: TypeAlias = ResolvedScenario[CapturedModel, CapturedScenario]

BATCH: KeyPath = ("workload", "global_batch_size")
INDICES: KeyPath = ("workload", "indices")

LARGEST_EXPONENT = 8.0
"""Largest exponent of a Zipf law (`workloads.dlrm.laws.index_laws.Exponent`)."""

_ZIPF = re.compile(r"zipf\((?P<exponent>[^()]*)\)")


def fill(asked: Asked[CapturedModel, CapturedScenario]) -> Filled[CapturedModel]:
    """Fill the section ``workload``; see `scenarios.family.Family.fill`."""
    document, section, job = asked.document, asked.scenario.workload, asked.model.records
    _refuse_unused(document, section)
    _check_world(document, asked, job)
    _check_precisions(document, asked.cluster, job, tf32=asked.scenario.precision.dense == "tf32")
    settings = CapturedSettings(job, asked.framework)
    batch = settings.global_batch_size
    if section.global_batch_size not in (None, batch):
        each = f"{settings.samples_per_rank} on each of {job.world_size} ranks"
        raise document.error(
            BATCH,
            f"the job was captured with another batch: {each}; capture it again with the batch that you ask for",
            given=section.global_batch_size,
            expected=f"{batch}, or no such key",
        )
    return Filled(section.model_copy(update={"indices": _law(document, section.indices)}), asked.model, batch)


def settings_of(resolved: CapturedResolved) -> CapturedSettings:
    """The settings of a resolved scenario."""
    section = resolved.scenario.workload
    return CapturedSettings(
        job=resolved.model.records,
        framework=resolved.framework,
        law=make_law(section.indices),
        tf32=resolved.scenario.precision.dense == "tf32",
        fuse=section.fuse,
        host=_host_of(resolved.cluster),
    )


def _host_of(cluster: Cluster) -> HostRanks | None:
    """Ranks on CPUs; None: each has a GPU."""
    if cluster.node.gpu is not None:
        return None
    library = cluster.collectives
    return HostRanks(bool(cluster.node.cpu.kernels), library.progress, library.threads, frozenset(library.made_of))


def _refuse_unused(document: Document, section: CapturedSection) -> None:
    """Refuse keys that only generated jobs have: a recording already has the work of the user's program.

    Raises:
        InputError: one is given.
    """
    recorded = "the recording has the captured program's own"
    if section.gradient_buckets is not None:
        raise document.error(("workload", "gradient_buckets"), f"no buckets are made: {recorded}", expected="no key")
    if section.optimizer != type(section.optimizer)():
        raise document.error(("workload", "optimizer"), f"no optimizer is added: {recorded}", expected="no such key")
    if section.gradient_accumulation > 1:
        raise document.error(
            ("workload", "gradient_accumulation"),
            f"no passes are added: {recorded}",
            given=section.gradient_accumulation,
            expected="1",
        )


def _check_world(document: Document, asked: Asked[CapturedModel, CapturedScenario], job: RecordedJob) -> None:
    """Check that the scenario has the ranks of the job.

    Raises:
        InputError: it has more or fewer.
    """
    if asked.world_size == job.world_size:
        return
    key = "nodes" if asked.scenario.nodes is not None else "world_size"
    each = asked.cluster.node.ranks
    nodes = f" (nodes={job.world_size // each} of {asked.cluster.name})" if job.world_size % each == 0 else ""
    again = f"dlrmsim capture {job.source} --world-size {asked.world_size}"
    raise document.error(
        (key,),
        f"the job was captured on {job.world_size} ranks, and the scenario has {asked.world_size}; "
        f"for that number capture it again: {again} --out FOLDER",
        given=getattr(asked.scenario, key),
        expected=f"world_size={job.world_size}{nodes}",
    )


def _check_precisions(document: Document, cluster: Cluster, job: RecordedJob, *, tf32: bool) -> None:
    """Check that the GPU computes in all recorded types.

    Raises:
        InputError: it lacks one.
    """
    gpu = cluster.node.gpu
    if gpu is None:
        return
    for work in job.works:
        if isinstance(work, Product | AttentionWork | ConvolutionWork):
            try:
                gpu.computes_in(precision_of(work.dtype, tf32=tf32))
            except InputError as error:
                message = f"the job has {work.__struct_config__.tag} kernels in {work.dtype}: {error.message}"
                raise document.error(MODEL, message, given=work.dtype, expected=error.expected) from None


def _law(document: Document, given: IndexLaw) -> IndexLaw:
    """The law of lookups with its parts written out.

    Raises:
        InputError: there is no such law.
    """
    found = given if not isinstance(given, str) else _zipf(document, given)
    law = Graded[IndexLaw](value=found, source="the scenario", grade="assumed")
    return everywhere(law, None, document, INDICES)[0].value


def _zipf(document: Document, given: str) -> IndexLaw:
    """The law of text such as ``zipf(1.05)``; other text stays.

    Raises:
        InputError: the exponent is no number, or out of range.
    """
    match = _ZIPF.fullmatch(given.replace(" ", ""))
    if match is None:
        return given
    try:
        exponent = float(match["exponent"])
    except ValueError:
        exponent = -1.0
    if not 0.0 <= exponent <= LARGEST_EXPONENT:
        expected = f"zipf(EXPONENT) with 0 to {LARGEST_EXPONENT:g}, e.g. zipf(1.05)"
        raise document.error(INDICES, "no such exponent", given=given, expected=expected)
    return Indices(distribution="zipf", exponent=exponent)


def fp32_kernels(job: RecordedJob) -> Iterator[Product | AttentionWork | ConvolutionWork]:
    """Works whose arithmetic ``precision.dense`` decides."""
    for work in job.works:
        if isinstance(work, Product | AttentionWork | ConvolutionWork) and work.dtype == "fp32":
            yield work

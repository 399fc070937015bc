"""The family of served DLRMs behind the interface of `scenarios.family`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from inputs.errors import InfeasibleError
from inputs.keys import KeyPath
from inputs.quantities import MAX_RANKS
from scenarios.candidates import Candidate
from scenarios.capacity import MemoryReport, capacities_bytes
from scenarios.dlrm.models import DlrmModels
from scenarios.engine_run import iteration_s
from scenarios.family import FAMILIES, Asked, Expected, Filled, template_of
from scenarios.inference import filling
from scenarios.inference.section import InferenceScenario
from scenarios.inference.service import service_curve
from scenarios.inference.serving import Servers, enough_nodes, overload, serving_of
from scenarios.progress import Progress
from scenarios.resolved import ResolvedScenario
from simulator.analysis import Bound
from simulator.lowering import Machine
from simulator.queueing.batching import ServiceTimes
from workloads.dlrm.laws.index_laws import make_law
from workloads.dlrm.model.model import DlrmModel
from workloads.inference.family import InferenceWorkload
from workloads.inference.settings import InferenceSettings

InferenceResolved: TypeAlias = ResolvedScenario[DlrmModel, InferenceScenario]

TASKS, TASKS_PER_LAYER = 40, 4
"""Number of tasks of a batch without its layers, and of each layer (for the estimate of a run's memory)."""

MORE_CACHE = (2.0, 4.0)
"""Factors on the size of the cache in the search for levers."""


@dataclass(frozen=True, slots=True)
class PlacedInference:
    """Servers of a DLRM; see `scenarios.family.PlacedJob` and `scenarios.family.TimedJob`."""

    resolved: InferenceResolved
    workload: InferenceWorkload
    machine: Machine
    varies: bool = False

    def estimate_sections(self) -> Mapping[str, Any]:
        """Rows of the largest batch by tier."""
        settings, rows = self.workload.settings, self.workload.rows()
        if settings.on_host:
            return {}
        tiers = {"gpu_cache": settings.gpu_cache, "host_memory": settings.host_memory}
        found = {"distinct_rows": float(rows.distinct.sum()), "missing_rows": rows.missing}
        return {"tiers": {**tiers, "lookups_found": rows.shares(), "batch": found}}

    def summary_sections(self) -> Mapping[str, Any]:
        """Rows by tier."""
        return self.estimate_sections()

    def timed_sections(self, iteration_s: float, low: float, high: float) -> Mapping[str, Any]:  # noqa: ARG002 - its own
        """Results of the queue in front of the servers; see `scenarios.family.TimedJob`."""
        curve = service_curve(self.resolved, self.workload, self.machine, self._requests * self._samples)
        service = curve.of_requests(self._samples)
        return {"serving": serving_of(self._servers(service), curve, low, high)}

    def check_rate(self) -> None:
        """Check that the servers can answer all requests.

        Raises:
            InfeasibleError: more requests arrive; with the utilisation, and a sufficient number of nodes.
        """
        full = self.workload.of_batch(self._requests * self._samples)
        servers = self._servers(ServiceTimes.fixed(iteration_s(self.resolved, full, self.machine), self._requests))
        if servers.utilisation < 1.0:
            return
        ranks, document = self.resolved.cluster.node.ranks, self.resolved.document
        nodes = enough_nodes(servers, ranks, self.resolved.nodes)
        file, line = document.where(("workload", "requests_per_s"))
        place = f"{file}:{line}" if line is not None else str(file)
        most = min(MAX_RANKS // ranks, self.resolved.cluster.max_nodes.value)
        more = filling.more_nodes(document, nodes, ranks, self.workload.settings.most) if nodes <= most else []
        raise InfeasibleError(f"{place}: {overload(servers, more)}", remedies=[more] if more else [])

    @property
    def _samples(self) -> int:
        """Samples of a request."""
        return self.resolved.scenario.workload.samples_per_request

    @property
    def _requests(self) -> int:
        """Number of whole requests in a full batch."""
        return self.workload.settings.most // self._samples

    def warnings(self) -> Sequence[str]:
        """Warnings from the placement: none."""
        return ()

    def device_waits_s(self) -> Mapping[str, float]:
        """Waits by feature, for the features of the forward pass."""
        framework, tables = self.resolved.framework, self.workload.tables
        return {
            "table_s": framework.seconds("table_s") * len(tables),
            "feature_s": framework.seconds("feature_s") * tables.feature_count,
        }

    def candidates(self, bound: Bound) -> Iterator[Candidate]:  # noqa: ARG002 - an interface
        """Candidates: larger caches, more rows in host memory, launches as graphs, narrower rows and products."""
        settings, precision = self.workload.settings, self.resolved.scenario.precision
        cache = settings.gpu_cache
        if cache is not None:
            wanted = sorted({min(1.0, factor * cache) for factor in MORE_CACHE} - {cache}) if cache else [0.1]
            yield from (Candidate(f"workload.gpu_cache={share:g}") for share in wanted)
            if settings.host_memory < 1.0:
                yield Candidate("workload.host_memory=1")
        if precision.tables == "fp32" and cache is not None:
            yield Candidate("precision.tables=fp16", "numerics")
        if precision.dense in ("fp32", "tf32") and cache is not None:
            yield Candidate("precision.dense=fp16", "numerics")

    def keeps_plan(self, resolved: InferenceResolved) -> bool:  # noqa: ARG002 - an interface
        """True: nothing is planned."""
        return True

    def changed(
        self,
        resolved: InferenceResolved,
        machine: Machine,
        *,
        place_again: bool = False,  # noqa: ARG002 - an interface
    ) -> PlacedInference:
        """The servers of a changed scenario.

        Raises:
            InfeasibleError: they do not fit into memory, or cannot answer all requests.
        """
        workload = workload_of(resolved)
        memory = _memory(resolved, workload)
        if not memory.fits:
            raise InfeasibleError(f"{resolved.name} does not fit\n{memory.in_words()}")
        placed = PlacedInference(resolved, workload, machine)
        placed.check_rate()
        return placed

    def _servers(self, service: ServiceTimes) -> Servers:
        scenario = self.resolved.scenario
        return Servers(scenario.workload, self.resolved.world_size, service, scenario.variation.seed)


@dataclass(frozen=True, slots=True)
class InferenceFamily(DlrmModels):
    """Family of served DLRMs; see `scenarios.family.Family` for its members."""

    kind: str = "inference"
    unit: str = "samples"
    scenario: type[InferenceScenario] = InferenceScenario
    exclusive: Sequence[tuple[KeyPath, KeyPath]] = ((filling.BATCH, filling.PER_SERVER),)
    refused: Sequence[str] = ("backend", "communication_cores")
    planning: None = None

    @property
    def template(self) -> str:
        """Content of ``template.yaml``."""
        return template_of(__package__)

    def fill(self, asked: Asked[DlrmModel, InferenceScenario]) -> Filled[DlrmModel]:
        """See `scenarios.inference.filling.fill`."""
        return filling.fill(asked)

    def expected(self, resolved: InferenceResolved) -> Expected:
        """Number of tasks of a server, from the number of layers."""
        model = resolved.model
        layers = 0 if model.cross is None else 2 * model.cross.layers.value
        if model.uniform_mlp is not None:
            layers += model.uniform_mlp.bottom_layers.value + model.uniform_mlp.top_layers.value
        elif model.mlp is not None:
            layers += len(model.mlp.bottom.value) + len(model.mlp.top.value)
        return Expected(TASKS + TASKS_PER_LAYER * layers)

    def facts(self, resolved: InferenceResolved) -> Mapping[str, str]:
        """Lines about requests, batches, tiers and number formats."""
        section, precision = resolved.scenario.workload, resolved.scenario.precision
        cache = section.gpu_cache
        rows = "in memory" if cache is None else f"{cache:g} in GPU caches, {section.host_memory:g} in host memory"
        return {
            "Requests": f"{section.requests_per_s:,.10g} a second of {section.samples_per_request:,} "
            f"sample{'s' * (section.samples_per_request > 1)}",
            "Batches": f"at most {resolved.local_batch_size:,} samples, routing {section.routing}",
            "Rows": rows,
            "Arithmetic": f"dense {precision.dense}, tables {precision.tables}",
        }

    def place(self, resolved: InferenceResolved, machine: Machine, progress: Progress) -> PlacedInference:
        """The placed servers; raises `InfeasibleError` if they cannot answer all requests."""
        progress.stage("timing a batch")
        placed = PlacedInference(resolved, workload_of(resolved), machine)
        if _memory(resolved, placed.workload).fits:  # memory that does not fit is reported later
            placed.check_rate()
        return placed


def _memory(resolved: InferenceResolved, workload: InferenceWorkload) -> MemoryReport:
    return MemoryReport(workload.memory(), capacities_bytes(resolved.cluster, resolved.world_size))


def workload_of(resolved: InferenceResolved) -> InferenceWorkload:
    """The workload of a scenario, with the largest batch on every server."""
    section, precision = resolved.scenario.workload, resolved.scenario.precision
    batch, on_host = resolved.local_batch_size, resolved.cluster.node.gpu is None
    settings = InferenceSettings(
        servers=resolved.world_size,
        local_servers=min(resolved.cluster.node.ranks, resolved.world_size),
        batch=batch,
        most=batch,
        framework=resolved.framework,
        dense=precision.dense,
        tables=precision.tables,
        indices=make_law(resolved.model.index_reuse.value),
        gpu_cache=None if on_host else section.gpu_cache,
        host_memory=section.host_memory,
        host_threads=section.host_threads or 1,
        host_row_s=section.host_row_time,
        ssd_row_s=section.ssd_row_time,
        cuda_graph=resolved.framework.cuda_graph.value,
    )
    return InferenceWorkload(resolved.model, settings)


FAMILIES.add("inference", InferenceFamily(), "deep learning recommendation models: served to requests, not trained")

"""The family of convolutional networks behind the interface of `scenarios.family`.

It takes its networks and their workloads from a `Generator`, and is registered with one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from hardware_specs.library import Backend
from inputs.errors import InfeasibleError, nearest_name
from inputs.keys import KeyPath, parse_key
from inputs.validate import validate
from inputs.yaml_lines import Document
from scenarios.candidates import Candidate
from scenarios.capacity import MemoryReport, capacities_bytes
from scenarios.convnet import filling
from scenarios.convnet.out_of_core import PlanningBlocks, asked_job, leaves_device, refusal, section_of
from scenarios.convnet.plan_study import ConvnetPlanning
from scenarios.convnet.section import ConvnetScenario
from scenarios.convnet.settings import ConvnetResolved
from scenarios.family import Asked, Expected, Filled, template_of
from scenarios.progress import Progress, Silent
from simulator.analysis import Bound
from simulator.lowering import Machine
from workloads.convnet.family import ConvnetWorkload
from workloads.convnet.out_of_core import OutOfCore
from workloads.convnet.settings import Strategy
from workloads.family import Model, Workload

BACKEND_OF: Mapping[Strategy, Backend] = {
    "horovod_mpi": "mpi", "horovod_mpi_opt": "mpi", "baidu_ring": "mpi", "grpc_ps_mpi": "mpi", "horovod_nccl": "nccl"
}  # fmt: skip
"""Libraries by strategy; the other transports of gRPC go at the rate of the cluster's library."""

TASKS_PER_LAYER = 8
"""Tasks of an iteration for each layer: launches and kernels of both passes, exchange of its gradient (assumed; for the
estimate of a run's memory)."""


class Generator(Protocol):
    """Networks, and the workloads that train them."""

    def titles(self) -> Mapping[str, str]:
        """One line about each network, by name."""
        ...

    def layers(self, name: str) -> int:
        """Number of layers of a network."""
        ...

    def workload(self, resolved: ConvnetResolved) -> Workload:
        """The workload of a scenario.

        Raises:
            InputError: its settings contradict each other.
        """
        ...


@dataclass(frozen=True, slots=True)
class PlacedConvnet:
    """A convolutional network on its ranks; see `scenarios.family.PlacedJob`."""

    resolved: ConvnetResolved
    generator: Generator
    workload: Workload
    blocks: OutOfCore | None = None
    varies: bool = False

    def estimate_sections(self) -> Mapping[str, Any]:
        """Exchange of gradients, and decisions for blocks that may leave device memory."""
        section = self.resolved.scenario.workload
        servers = {} if section.servers is None else {"servers": section.servers}
        blocks = {} if self.blocks is None else {"out_of_core": section_of(self.blocks)}
        return {"exchange": {"strategy": section.strategy, **servers}, **blocks}

    def summary_sections(self) -> Mapping[str, Any]:
        """The same."""
        return self.estimate_sections()

    def warnings(self) -> Sequence[str]:
        """None."""
        return ()

    def device_waits_s(self) -> Mapping[str, float]:
        """None."""
        return {}

    def candidates(self, bound: Bound) -> Iterator[Candidate]:
        """Other strategies, more servers, and products in 16 bits on GPUs where the scenario has 32."""
        if self.resolved.world_size > 1:
            most = bound.path_shares.get("communication", 0.0)
            yield from (Candidate(f"workload.strategy={name}", most=most) for name in self._strategies())
            yield from (Candidate(f"workload.servers={count}", most=most) for count in self._servers())
        wide = self.resolved.scenario.precision.dense in ("fp32", "tf32")
        if wide and self.resolved.cluster.node.gpu is not None:
            yield Candidate("precision.dense=fp16", "numerics")

    def _strategies(self) -> Iterator[Strategy]:
        """Strategies of the same libraries as the cluster has, but for those over gRPC."""
        cluster, own = self.resolved.cluster, self.resolved.scenario.workload.strategy
        for name, backend in BACKEND_OF.items():
            if name != own and not name.startswith("grpc_ps") and cluster.by_backend(backend) is not None:
                yield name

    def _servers(self) -> Iterator[int]:
        """Twice and four times as many parameter servers, and one on each node."""
        own, nodes = self.resolved.scenario.workload.servers, self.resolved.nodes
        if own is not None:
            yield from (count for count in sorted({2 * own, 4 * own, nodes}) if own < count <= nodes)

    def changed(self, resolved: ConvnetResolved, machine: Machine, *, place_again: bool = False) -> Workload:
        """The workload of a changed scenario: with this job's decisions for blocks, or with its own.

        Raises:
            InfeasibleError: it does not fit with them.
        """
        if self.blocks is None:
            return self.generator.workload(resolved)
        planning = PlanningBlocks(resolved, machine)
        job = asked_job(resolved, machine, Silent()) if place_again else planning.job(self.blocks.plan)
        memory = planning.report(job)
        if not memory.fits:
            raise InfeasibleError(f"{resolved.name} does not fit\n{memory.in_words()}")
        return ConvnetWorkload(job.settings, job)


@dataclass(frozen=True, slots=True)
class ConvnetFamily:
    """Convolutional networks; see `scenarios.family.Family` for its members."""

    generator: Generator
    kind: str = "convnet"
    unit: str = "images"
    scenario: type[ConvnetScenario] = ConvnetScenario
    exclusive: Sequence[tuple[KeyPath, KeyPath]] = ((filling.BATCH, filling.PER_RANK),)
    refused: Sequence[str] = ()
    planning: ConvnetPlanning = field(default_factory=ConvnetPlanning)

    @property
    def template(self) -> str:
        """Content of ``template.yaml``."""
        return template_of(__package__)

    def models(self) -> Mapping[str, str]:
        """Networks and their parameters."""
        return self.generator.titles()

    def load_model(self, name_or_path: str, *, origin: Document, key: str) -> Model:
        """A network by name; there are no files of networks."""
        titles = self.generator.titles()
        if name_or_path not in titles:
            expected, near = f"one of {', '.join(titles)}", nearest_name(name_or_path, titles)
            raise origin.error(parse_key(key), "no such network", given=name_or_path, expected=expected, nearest=near)
        return Model(name=name_or_path, title=titles[name_or_path])

    def read_model(self, document: Document, *, prefix: KeyPath) -> Model:
        """A network that a resolved scenario names."""
        name = validate(Model, document, prefix=prefix).name
        return self.load_model(name, origin=document, key=".".join(map(str, (*prefix, "name"))))

    def backend(self, scenario: ConvnetScenario) -> Backend | None:
        """The library that the strategy is named by; see `scenarios.family.Family.backend`."""
        return BACKEND_OF.get(scenario.workload.strategy)

    def fill(self, asked: Asked[Model, ConvnetScenario]) -> Filled[Model]:
        """See `scenarios.convnet.filling.fill`."""
        return filling.fill(asked)

    def expected(self, resolved: ConvnetResolved) -> Expected:
        """Tasks of a rank, from the number of layers."""
        return Expected(TASKS_PER_LAYER * self.generator.layers(resolved.model.name))

    def facts(self, resolved: ConvnetResolved) -> Mapping[str, str]:
        """Exchange, images and number formats."""
        section, precision = resolved.scenario.workload, resolved.scenario.precision
        blocks = {"Out of core": section.out_of_core or "a plan of its own"} if leaves_device(section) else {}
        return {"Exchange": section.strategy, "Images": section.images, "Arithmetic": precision.dense, **blocks}

    def place(self, resolved: ConvnetResolved, machine: Machine, progress: Progress) -> PlacedConvnet:
        """The workload, with decisions for blocks where tensors may leave device memory.

        Raises:
            InfeasibleError: it does not fit; with the numbers of each tier, and settings with which it does.
        """
        workload, job = self.generator.workload(resolved), None
        if leaves_device(resolved.scenario.workload):
            job = asked_job(resolved, machine, progress)
            workload = ConvnetWorkload(job.settings, job)
        memory = MemoryReport(workload.memory(), capacities_bytes(resolved.cluster, resolved.world_size))
        if not memory.fits:
            raise refusal(resolved, machine, memory, "a rank holds more than it may")
        return PlacedConvnet(resolved, self.generator, workload, job)

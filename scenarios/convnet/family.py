"""The family of convolutional networks behind the interface of `scenarios.family`.

It takes its networks and their workloads from a `Generator`, and is registered with one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from hardware_specs.library import Backend
from inputs.errors import InputError
from inputs.keys import KeyPath, parse_key
from inputs.validate import validate
from inputs.yaml_lines import Document
from scenarios.candidates import Candidate
from scenarios.convnet import filling
from scenarios.convnet.remedies import memory_of, remedies
from scenarios.convnet.section import ConvnetScenario
from scenarios.family import Asked, Expected, Filled, template_of
from scenarios.fitting import refusal_with
from scenarios.progress import Progress
from scenarios.resolved import ResolvedScenario
from simulator.analysis import Bound
from simulator.lowering import Machine
from workloads.convnet.settings import Strategy
from workloads.family import Model, Workload

ConvnetResolved: TypeAlias = ResolvedScenario[Model, ConvnetScenario]

BACKEND_OF: Mapping[Strategy, Backend] = {
    "horovod_mpi": "mpi", "horovod_mpi_opt": "mpi", "baidu_ring": "mpi", "grpc_ps_mpi": "mpi", "horovod_nccl": "nccl",
    "hypar_mpi": "mpi",
}  # fmt: skip
"""Libraries by strategy; the other transports of gRPC go at the rate of the cluster's library."""

TASKS_PER_LAYER = 8
"""Tasks of an iteration for each layer: launches and kernels of both passes, exchange of its gradient (assumed; for the
estimate of a run's memory)."""
TASKS_PER_PASS = 8
"""Tasks of a pass of a micro-batch through a partition: launches, kinds of kernels, messages (likewise)."""


TOO_LARGE = "a rank holds more than it may"
"""Reason of a refusal."""


class Generator(Protocol):
    """Networks, and the workloads that train them."""

    def titles(self) -> Mapping[str, str]:
        """One line about each network, by name."""
        ...

    def title(self, name: str) -> str:
        """One line about a network, which lists need not name.

        Raises:
            InputError: there is no such network.
        """
        ...

    def layers(self, name: str) -> int:
        """Number of layers of a network."""
        ...

    def workload(self, resolved: ConvnetResolved, machine: Machine) -> Workload:
        """The workload of a scenario; partitions that it does not state have even times on the machine.

        Raises:
            InputError: its settings contradict each other.
        """
        ...

    def partitions(self, workload: Workload) -> Mapping[str, Any]:
        """Numbers about the partitions of a workload's network, as JSON; empty: it has none."""
        ...


@dataclass(frozen=True, slots=True)
class PlacedConvnet:
    """A convolutional network on its ranks; see `scenarios.family.PlacedJob`."""

    resolved: ConvnetResolved
    generator: Generator
    workload: Workload
    varies: bool = False

    def estimate_sections(self) -> Mapping[str, Any]:
        """Exchange of gradients, and partitions of the network."""
        section = self.resolved.scenario.workload
        servers = {} if section.servers is None else {"servers": section.servers}
        return {"exchange": {"strategy": section.strategy, **servers, **self.generator.partitions(self.workload)}}

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
        """Other strategies, servers, micro-batches and schedules, and products in 16 bits on GPUs with 32."""
        if self.resolved.world_size > 1:
            most = bound.path_shares.get("communication", 0.0)
            yield from (Candidate(f"workload.strategy={name}", most=most) for name in self._strategies())
            yield from (Candidate(f"workload.servers={count}", most=most) for count in self._servers())
        yield from map(Candidate, self._pipelines())
        wide = self.resolved.scenario.precision.dense in ("fp32", "tf32")
        if wide and self.resolved.cluster.node.gpu is not None:
            yield Candidate("precision.dense=fp16", "numerics")

    def _strategies(self) -> Iterator[Strategy]:
        """Data-parallel strategies of the same libraries as the cluster has, but for those over gRPC."""
        cluster, own = self.resolved.cluster, self.resolved.scenario.workload.strategy
        if own == filling.PARTITIONED:
            return
        for name, backend in BACKEND_OF.items():
            known = cluster.node.gpu is not None or name in filling.ON_CPUS
            others = (own, filling.PARTITIONED)
            if known and name not in others and not name.startswith("grpc_ps") and cluster.by_backend(backend):
                yield name

    def _pipelines(self) -> Iterator[str]:
        """Twice and half as many micro-batches, and the other schedule, of a network in partitions."""
        section = self.resolved.scenario.workload
        if section.held_partitions > 1:
            own = section.micro_batches or 1
            yield from (f"workload.micro_batches={size}" for size in (own // 2, 2 * own) if size)
            yield f"workload.schedule={'1f1b' if section.schedule == 'gpipe' else 'gpipe'}"

    def _servers(self) -> Iterator[int]:
        """Twice and four times as many parameter servers, and one on each node."""
        own, nodes = self.resolved.scenario.workload.servers, self.resolved.nodes
        if own is not None:
            yield from (count for count in sorted({2 * own, 4 * own, nodes}) if own < count <= nodes)

    def changed(self, resolved: ConvnetResolved, machine: Machine, *, place_again: bool = False) -> Workload:  # noqa: ARG002 - an interface
        """The workload of a changed scenario.

        Raises:
            InfeasibleError: it does not fit.
        """
        workload = self.generator.workload(resolved, machine)
        memory = memory_of(resolved, workload)
        if not memory.fits:
            raise refusal_with(resolved.name, memory, TOO_LARGE, ())
        return workload


@dataclass(frozen=True, slots=True)
class ConvnetFamily:
    """Convolutional networks; see `scenarios.family.Family` for its members."""

    generator: Generator
    kind: str = "convnet"
    unit: str = "images"
    scenario: type[ConvnetScenario] = ConvnetScenario
    exclusive: Sequence[tuple[KeyPath, KeyPath]] = (
        (filling.BATCH, filling.PER_RANK),
        (filling.PARTITIONS, filling.LAYERS),
    )
    refused: Sequence[str] = ()
    planning: None = None

    @property
    def template(self) -> str:
        """Content of ``template.yaml``."""
        return template_of(__package__)

    def models(self) -> Mapping[str, str]:
        """Networks and their parameters."""
        return self.generator.titles()

    def load_model(self, name_or_path: str, *, origin: Document, key: str) -> Model:
        """A network by name; there are no files of networks."""
        path = parse_key(key)
        try:
            title = self.generator.title(name_or_path)
        except InputError as error:
            raise origin.error(
                path, error.message, given=name_or_path, expected=error.expected, nearest=error.nearest
            ) from None
        return Model(name=name_or_path, title=title)

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
        """Tasks of a rank, from the number of layers, or of passes through its partition."""
        section = resolved.scenario.workload
        if section.strategy == filling.PARTITIONED:
            return Expected(2 * (section.micro_batches or 1) * TASKS_PER_PASS)
        return Expected(TASKS_PER_LAYER * self.generator.layers(resolved.model.name))

    def facts(self, resolved: ConvnetResolved) -> Mapping[str, str]:
        """Exchange, images and number formats."""
        section, precision = resolved.scenario.workload, resolved.scenario.precision
        found: dict[str, str] = {"Exchange": section.strategy, "Images": section.images}
        found["Arithmetic"] = precision.dense
        if section.strategy == filling.PARTITIONED:
            replicas = section.training_ranks(resolved.world_size)
            found["Groups"] = f"{replicas} replicas x {section.held_partitions} partitions"
            found["Micro-batches"] = f"{section.micro_batches}, {section.schedule}"
        return found

    def place(self, resolved: ConvnetResolved, machine: Machine, progress: Progress) -> PlacedConvnet:
        """The workload; nothing is placed.

        Raises:
            InfeasibleError: it does not fit; with the numbers of each tier, and remedies.
        """
        workload = self.generator.workload(resolved, machine)
        memory = memory_of(resolved, workload)
        if not memory.fits:
            progress.stage("looking for partitions that fit")
            found = remedies(resolved, self.generator.workload)
            raise refusal_with(resolved.name, memory, TOO_LARGE, found)
        return PlacedConvnet(resolved, self.generator, workload)

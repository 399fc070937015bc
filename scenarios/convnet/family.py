"""The family of convolutional networks behind the interface of `scenarios.family`.

It takes its networks and their workloads from a `Generator`, and is registered with one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from hardware_specs.library import Backend
from inputs.errors import InputError
from inputs.keys import KeyPath, parse_key
from inputs.validate import validate
from inputs.yaml_lines import Document
from scenarios.candidates import Candidate
from scenarios.convnet import filling
from scenarios.convnet.levers import candidates
from scenarios.convnet.out_of_core import PlanningBlocks, asked_job, leaves_device, section_of
from scenarios.convnet.plan_study import ConvnetPlanning
from scenarios.convnet.remedies import refusal
from scenarios.convnet.section import ConvnetScenario
from scenarios.convnet.settings import ConvnetResolved, memory_of
from scenarios.family import Asked, Expected, Filled, template_of
from scenarios.progress import Progress, Silent
from simulator.analysis import Bound
from simulator.lowering import Machine
from workloads.convnet.family import ConvnetWorkload
from workloads.convnet.out_of_core import OutOfCore
from workloads.family import Model, Workload

TASKS_PER_LAYER = 8
"""Tasks of an iteration for each layer: launches and kernels of both passes, exchange of its gradient (assumed; for the
estimate of a run's memory)."""
TASKS_PER_PASS = 8
"""Number of tasks of a micro-batch's pass through a partition: launches, kinds of kernels, messages."""


class Generator(Protocol):
    """Networks, and the workloads that train them."""

    def titles(self) -> Mapping[str, str]:
        """One line about each network, by name."""
        ...

    def title(self, name: str) -> str:
        """One line about a network, listed or not.

        Raises:
            InputError: there is no such network.
        """
        ...

    def layers(self, name: str) -> int:
        """Number of layers of a network."""
        ...

    def workload(self, resolved: ConvnetResolved, machine: Machine) -> Workload:
        """The workload of a scenario; by default partitions have even times on the machine.

        Raises:
            InputError: its settings contradict each other.
        """
        ...

    def partitions(self, workload: Workload) -> Mapping[str, Any]:
        """Numbers about the partitions of a workload's network, as JSON; empty without partitions."""
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
        """Exchange of gradients, partitions of the network, and decisions for blocks that may leave device memory."""
        section = self.resolved.scenario.workload
        servers = {} if section.servers is None else {"servers": section.servers}
        exchange = {"strategy": section.strategy, **servers, **self.generator.partitions(self.workload)}
        blocks = {} if self.blocks is None else {"out_of_core": section_of(self.blocks)}
        return {"exchange": exchange, **blocks}

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
        """See `scenarios.convnet.levers.candidates`."""
        return candidates(self.resolved, bound)

    def keeps_plan(self, resolved: ConvnetResolved) -> bool:
        """Whether it has the same network and the same keys of the plan for blocks."""
        one, other = self.resolved.scenario.workload, resolved.scenario.workload
        return self.resolved.model == resolved.model and (one.out_of_core, one.out_of_core_plan, one.weights) == (
            other.out_of_core, other.out_of_core_plan, other.weights
        )  # fmt: skip

    def changed(self, resolved: ConvnetResolved, machine: Machine, *, place_again: bool = False) -> PlacedConvnet:
        """The job of a changed scenario, with this job's decisions for blocks or with a new plan.

        Raises:
            InfeasibleError: the workload does not fit with these decisions.
        """
        blocks = None if place_again else self.blocks
        workload, job = _workload(self.generator, resolved, machine, Silent(), blocks)
        memory = memory_of(resolved, workload)
        if not memory.fits:
            raise refusal(resolved, memory)
        return PlacedConvnet(resolved, self.generator, workload, job)


def _workload(
    generator: Generator, resolved: ConvnetResolved, machine: Machine, progress: Progress, known: OutOfCore | None
) -> tuple[Workload, OutOfCore | None]:
    """The workload of a scenario, and the plan for its blocks if tensors may leave device memory.

    Args:
        known: job whose plan is used again; None: the plan comes from the scenario.
    """
    if not leaves_device(resolved.scenario.workload):
        return generator.workload(resolved, machine), None
    job = asked_job(resolved, machine, progress) if known is None else PlanningBlocks(resolved, machine).job(known.plan)
    return ConvnetWorkload(job.settings, job), job


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
        return filling.BACKEND_OF.get(scenario.workload.strategy)

    def fill(self, asked: Asked[Model, ConvnetScenario]) -> Filled[Model]:
        """See `scenarios.convnet.filling.fill`."""
        return filling.fill(asked)

    def expected(self, resolved: ConvnetResolved) -> Expected:
        """Number of tasks of a rank, from the number of layers or of passes through its partition."""
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
        if leaves_device(section):
            found["Out of core"] = section.out_of_core or "a plan of its own"
        return found

    def place(self, resolved: ConvnetResolved, machine: Machine, progress: Progress) -> PlacedConvnet:
        """The workload, with decisions for blocks if tensors may leave device memory.

        Raises:
            InfeasibleError: the job does not fit; with the numbers of each tier, and settings with which the job fits.
        """
        workload, job = _workload(self.generator, resolved, machine, progress, None)
        memory = memory_of(resolved, workload)
        if not memory.fits:
            raise refusal(resolved, memory, progress)
        return PlacedConvnet(resolved, self.generator, workload, job)

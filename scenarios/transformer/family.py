"""The family of transformers behind the interface of `scenarios.family`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from hardware_specs.library import Backend
from inputs.errors import InfeasibleError, InputError, nearest_name
from inputs.keys import KeyPath, parse_key
from inputs.validate import validate
from inputs.yaml_lines import Document
from scenarios.block_times import BLOCKS_KEY
from scenarios.candidates import Candidate
from scenarios.family import FAMILIES, Asked, Expected, Filled, template_of
from scenarios.mapping import Keep
from scenarios.progress import Progress
from scenarios.schedules import tasks_again, transformed
from scenarios.strategies import StrategySearch, StrategyStudy
from scenarios.transformer import filling
from scenarios.transformer.blocks import blocks_of
from scenarios.transformer.filling import settings_of_resolved as settings_of
from scenarios.transformer.least_time import least_time_of
from scenarios.transformer.levers import candidates
from scenarios.transformer.messages import summed_over_sites
from scenarios.transformer.plan_study import TransformerPlanStudy, study_divisions
from scenarios.transformer.remedies import refusal
from scenarios.transformer.search import memory_report
from scenarios.transformer.section import TransformerScenario
from scenarios.transformer.strategies import TransformerStrategies
from scenarios.transformer.typed import TransformerResolved
from simulator.analysis import Bound
from simulator.lowering import Machine
from workloads.transformer.architecture import Transformer
from workloads.transformer.catalog import TRANSFORMERS
from workloads.transformer.family import TransformerWorkload
from workloads.transformer.repeated import repeated_layers

TASKS_OF_A_PASS, TASKS_OF_A_LAYER, OTHER_TASKS = 10, 12, 40
"""Tasks of a rank for each pass of a micro-batch through a part of a stage, for each layer where something is exchanged
for it, and beside (for the estimate of a run's memory)."""


@dataclass(frozen=True, slots=True)
class PlacedTransformer:
    """A transformer on its ranks; see `scenarios.family.PlacedJob`."""

    resolved: TransformerResolved
    workload: TransformerWorkload
    machine: Machine
    varies: bool = False

    def estimate_sections(self) -> Mapping[str, Any]:
        """Parameters, operations, and groups of ranks."""
        settings = self.workload.settings
        sizes, model = settings.sizes, settings.model
        return {
            **_messages(self.resolved),
            "parallelism": {
                "parameters": model.counts.all,
                "model_flops_per_token": model.model_flops_per_token(settings.sequence),
                "data": sizes.data,
                "tensor": sizes.tensor,
                "pipeline": sizes.pipeline,
                "context": sizes.context,
                "virtual_stages": sizes.virtual_stages,
                "sharding": sizes.sharding,
                "micro_batches": settings.microbatches,
            },
        }

    def summary_sections(self) -> Mapping[str, Any]:
        """The same sections, and kernels by block for an unchanged graph."""
        if self.resolved.scenario.transform:  # transformations change the kernels of blocks
            return self.estimate_sections()
        found = blocks_of(self.workload.settings, self.machine.compute)
        return {**self.estimate_sections(), BLOCKS_KEY: [asdict(block) for block in found]}

    def warnings(self) -> Sequence[str]:
        """Sums of gradients between sites, where messages between stages are compressed."""
        if self.resolved.scenario.workload.compression is None:
            return ()
        sums = summed_over_sites(self.workload.settings, self.machine.topology.site_of)
        alone = "workload.compression: only messages between stages are compressed"
        return [f"{alone}; over links between sites travel as they are {' and '.join(sums)}"] if sums else ()

    def device_waits_s(self) -> Mapping[str, float]:
        """None."""
        return {}

    def candidates(self, bound: Bound) -> Iterator[Candidate]:
        """See `scenarios.transformer.levers`."""
        least = least_time_of(self.resolved, self.machine)
        return candidates(self.resolved, self.workload.settings, least, bound.iteration_time_s)

    def keeps_plan(self, resolved: TransformerResolved) -> bool:  # noqa: ARG002 - an interface
        """True: nothing is planned."""
        return True

    def changed(
        self,
        resolved: TransformerResolved,
        machine: Machine,
        *,
        place_again: bool = False,  # noqa: ARG002 - an interface
    ) -> PlacedTransformer:
        """The job of a changed scenario.

        Raises:
            InfeasibleError: it does not fit.
        """
        workload = workload_of(resolved, machine)
        memory = memory_report(resolved, workload)
        if not memory.fits:
            raise InfeasibleError(f"{resolved.name} does not fit\n{memory.in_words()}")
        return PlacedTransformer(resolved, workload, machine)


@dataclass(frozen=True, slots=True)
class TransformerPlanning:
    """Divisions among ranks, for ``dlrmsim plan``."""

    def settings(self, planner: str) -> Sequence[str]:
        """No planner has a name here.

        Raises:
            InputError: always.
        """
        expected = "no planner: divisions that fit are simulated, and the fastest is the plan"
        raise InputError("plans of transformers have no planners", file="--planner", given=planner, expected=expected)

    def study(
        self, resolved: TransformerResolved, progress: Progress, *, compare: bool, keep: Keep
    ) -> TransformerPlanStudy:
        """See `scenarios.transformer.plan_study.study_divisions`."""
        return study_divisions(resolved, progress, compare=compare, keep=keep)

    def strategies(
        self, resolved: TransformerResolved, progress: Progress, *, compare: bool, keep: Keep
    ) -> StrategyStudy:
        """See `scenarios.transformer.strategies`."""
        return StrategySearch(resolved, TransformerStrategies(resolved), progress, compare, keep).study("tokens")


@dataclass(frozen=True, slots=True)
class TransformerFamily:
    """Transformers; see `scenarios.family.Family` for its members."""

    kind: str = "transformer"
    unit: str = "tokens"
    scenario: type[TransformerScenario] = TransformerScenario
    exclusive: Sequence[tuple[KeyPath, KeyPath]] = ((filling.BATCH, filling.SEQUENCES),)
    refused: Sequence[str] = ()
    planning: TransformerPlanning = TransformerPlanning()

    @property
    def template(self) -> str:
        """Content of ``template.yaml``."""
        return template_of(__package__)

    def models(self) -> Mapping[str, str]:
        """Transformers and their sizes."""
        return {
            name: f"{model.title}: {model.counts.all / 1e9:.3g} billion parameters"
            for name, model in TRANSFORMERS.items()
        }

    def load_model(self, name_or_path: str, *, origin: Document, key: str) -> Transformer:
        """A transformer by name; others are written out in the scenario."""
        if name_or_path not in TRANSFORMERS:
            expected = f"one of {', '.join(TRANSFORMERS)}, or a mapping of sizes"
            near = nearest_name(name_or_path, TRANSFORMERS)
            raise origin.error(
                parse_key(key), "no such transformer", given=name_or_path, expected=expected, nearest=near
            )
        return TRANSFORMERS[name_or_path]

    def read_model(self, document: Document, *, prefix: KeyPath) -> Transformer:
        """A transformer with its sizes written in the scenario."""
        return validate(Transformer, document, prefix=prefix)

    def backend(self, scenario: TransformerScenario) -> Backend | None:  # noqa: ARG002 - an interface
        """The cluster's."""
        return None

    def fill(self, asked: Asked[Transformer, TransformerScenario]) -> Filled[Transformer]:
        """See `scenarios.transformer.filling.fill`."""
        return filling.fill(asked)

    def expected(self, resolved: TransformerResolved) -> Expected:
        """Tasks of a rank, from passes and layers."""
        settings = settings_of(resolved)
        passes = 2 * settings.microbatches * settings.sizes.virtual_stages * TASKS_OF_A_PASS
        divided = settings.sizes.pipeline == 1
        layers = settings.model.layers * (settings.microbatches if settings.sizes.gathers else 1) if divided else 0
        return Expected(passes + layers * TASKS_OF_A_LAYER + OTHER_TASKS)

    def facts(self, resolved: TransformerResolved) -> Mapping[str, str]:
        """Model, groups of ranks, and number formats."""
        settings = settings_of(resolved)
        sizes = settings.sizes
        names = {"data": sizes.data, "tensor": sizes.tensor, "context": sizes.context, "pipeline": sizes.pipeline}
        groups = " x ".join(f"{size} {name}" for name, size in names.items() if size > 1) or "one rank"
        messages = _messages(resolved)
        return {
            "Parameters": f"{settings.model.counts.all / 1e9:.2f} billion",
            "Groups": groups,
            "Sharding": sizes.sharding,
            "Micro-batches": f"{settings.microbatches} of {settings.micro_batch} x {settings.sequence} tokens",
            "Arithmetic": settings.precision,
            **({"Sites": " > ".join(messages["site_order"])} if "site_order" in messages else {}),
            **({"Compression": messages["compression"]} if "compression" in messages else {}),
        }

    def place(self, resolved: TransformerResolved, machine: Machine, progress: Progress) -> PlacedTransformer:
        """The workload; nothing is placed.

        Raises:
            InfeasibleError: it does not fit; with the numbers of each tier, and remedies.
        """
        workload = workload_of(resolved, machine)
        memory = memory_report(resolved, workload)
        if not memory.fits:
            progress.stage("looking for a division that fits")
            raise refusal(resolved, memory, "a rank needs more memory than it has")
        return PlacedTransformer(resolved, workload, machine)


def workload_of(resolved: TransformerResolved, machine: Machine) -> TransformerWorkload:
    """The workload of a scenario, with the layers repeated by transformations."""
    workload = TransformerWorkload(settings_of(resolved))
    if not resolved.scenario.transform:
        return workload
    graph = workload.graph()
    again = tasks_again(transformed(resolved, graph, machine)[1])
    return replace(workload, again=repeated_layers(graph, again, workload.settings)) if again else workload


FAMILIES.add("transformer", TransformerFamily(), "transformers with data, tensor, pipeline and context parallelism")


def _messages(resolved: TransformerResolved) -> dict[str, Any]:
    """Order of the sites, and description of the compression of messages between stages, if the job has them."""
    found: dict[str, Any] = {}
    if resolved.site_order:
        found["site_order"] = list(resolved.site_order)
    choice = resolved.scenario.workload.compression
    if choice is not None:
        ways = {"activations": choice.activations, "gradients": choice.gradients}
        each = ", ".join(f"{name} {of.format} {of.ratio:g}" for name, of in ways.items() if of is not None)
        found["compression"] = f"{each or 'none'}; {choice.ratios} ratios, {choice.where.replace('_', ' ')}"
    return found

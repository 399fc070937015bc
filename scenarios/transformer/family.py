"""The family of transformers behind the interface of `scenarios.family`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from hardware_specs.library import Backend
from inputs.errors import nearest_name
from inputs.keys import KeyPath, parse_key
from inputs.validate import validate
from inputs.yaml_lines import Document
from scenarios.candidates import Candidate
from scenarios.capacity import capacities_bytes
from scenarios.family import FAMILIES, Asked, Expected, Filled, template_of
from scenarios.progress import Progress
from scenarios.resolved import ResolvedScenario
from scenarios.transformer import filling
from scenarios.transformer.section import TransformerScenario
from simulator.analysis import Bound
from simulator.lowering import Machine
from workloads.transformer.architecture import Transformer
from workloads.transformer.catalog import TRANSFORMERS
from workloads.transformer.family import TransformerWorkload
from workloads.transformer.settings import TransformerSettings

TransformerResolved: TypeAlias = ResolvedScenario[Transformer, TransformerScenario]

TASKS_OF_A_PASS, TASKS_OF_A_LAYER, OTHER_TASKS = 10, 12, 40
"""Tasks of a rank for each pass of a micro-batch through a part of a stage, for each layer where something is exchanged
for it, and beside (for the estimate of a run's memory)."""


@dataclass(frozen=True, slots=True)
class PlacedTransformer:
    """A transformer on its ranks; see `scenarios.family.PlacedJob`."""

    resolved: TransformerResolved
    workload: TransformerWorkload
    varies: bool = False

    def estimate_sections(self) -> Mapping[str, Any]:
        """Parameters, operations, and groups of ranks."""
        settings = self.workload.settings
        sizes, model = settings.sizes, settings.model
        return {
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
            }
        }

    def summary_sections(self) -> Mapping[str, Any]:
        """The same."""
        return self.estimate_sections()

    def warnings(self) -> Sequence[str]:
        """None."""
        return ()

    def device_waits_s(self) -> Mapping[str, float]:
        """None."""
        return {}

    def candidates(self, bound: Bound) -> Iterator[Candidate]:  # noqa: ARG002 - an interface
        """Compiled kernels, more stages in a rank, and products in 8 bits where the GPU has them."""
        section, gpu = self.resolved.scenario.workload, self.resolved.cluster.node.gpu
        settings = self.workload.settings
        if not section.compiled:
            yield Candidate("workload.compiled=true")
        if section.recompute != "none" and self._fits(replace(settings, recompute="none")):
            yield Candidate("workload.recompute=none")
        parts, sizes = 2 * settings.sizes.virtual_stages, settings.sizes
        divides = settings.microbatches % sizes.pipeline == 0
        possible = sizes.pipeline > 1 and divides and parts * sizes.pipeline <= settings.model.layers
        if possible and self._fits(replace(settings, sizes=replace(sizes, virtual_stages=parts))):
            yield Candidate(f"workload.parallel.virtual_stages={parts}")
        if gpu is not None and "fp8" in gpu.peak_flops and self.resolved.scenario.precision.dense != "fp8":
            yield Candidate("precision.dense=fp8", "numerics")

    def _fits(self, settings: TransformerSettings) -> bool:
        """Whether a job has room in the memory of every GPU."""
        held = TransformerWorkload(settings).memory().total("hbm")
        return float(held.max()) <= capacities_bytes(self.resolved.cluster, self.resolved.world_size)["hbm"]

    def changed(
        self,
        resolved: TransformerResolved,
        machine: Machine,  # noqa: ARG002 - an interface
        *,
        place_again: bool = False,  # noqa: ARG002
    ) -> TransformerWorkload:
        """The workload of a changed scenario; nothing is placed."""
        return TransformerWorkload(settings_of(resolved))


def settings_of(resolved: TransformerResolved) -> TransformerSettings:
    """The settings of a resolved scenario."""
    scenario, section = resolved.scenario, resolved.scenario.workload
    sizes = filling.sizes_of(resolved.document, section, resolved.world_size, resolved.cluster)
    tokens = resolved.global_batch_size
    return filling.settings_of(scenario, section, resolved.model, resolved.framework, sizes, tokens)


@dataclass(frozen=True, slots=True)
class TransformerFamily:
    """Transformers; see `scenarios.family.Family` for its members."""

    kind: str = "transformer"
    unit: str = "tokens"
    scenario: type[TransformerScenario] = TransformerScenario
    exclusive: Sequence[tuple[KeyPath, KeyPath]] = ((filling.BATCH, filling.SEQUENCES),)
    refused: Sequence[str] = ()
    planning: None = None

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
        """A transformer whose sizes stand in the scenario."""
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
        return {
            "Parameters": f"{settings.model.counts.all / 1e9:.2f} billion",
            "Groups": groups,
            "Sharding": sizes.sharding,
            "Micro-batches": f"{settings.microbatches} of {settings.micro_batch} x {settings.sequence} tokens",
            "Arithmetic": settings.precision,
        }

    def place(self, resolved: TransformerResolved, machine: Machine, progress: Progress) -> PlacedTransformer:  # noqa: ARG002 - an interface
        """The workload; nothing is placed."""
        return PlacedTransformer(resolved, TransformerWorkload(settings_of(resolved)))


FAMILIES.add("transformer", TransformerFamily(), "transformers with data, tensor, pipeline and context parallelism")

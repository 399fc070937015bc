"""A family of workloads that no code knows: one matrix product and one all_reduce per layer, counted in images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from inputs.errors import InputError
from inputs.keys import KeyPath
from inputs.validate import validate
from inputs.yaml_lines import Document
from scenarios.candidates import Candidate
from scenarios.family import Asked, Expected, Filled
from scenarios.progress import Progress
from scenarios.resolved import ResolvedScenario
from scenarios.types import KIND, WORKLOAD, Scenario, Section
from simulator.analysis import Bound
from simulator.collective_calls import CollectiveCall
from simulator.lowering import Machine
from simulator.operators import Gemm
from simulator.program import TaskGraph
from workloads.family import Headline, Model
from workloads.graded import Graded
from workloads.graph.memory import MemoryUse
from workloads.graph.recorder import Recorder, streams_of
from workloads.graph.schedule import SCHEDULES

WORLD = "world"


class ToyModel(Model):
    """Equal square layers."""

    width: Graded[Annotated[int, Field(ge=1, le=10**6)]]
    layers: int


SQUARES = ToyModel(
    name="squares",
    title="eight square layers",
    width=Graded(value=1024, source="invented for tests", grade="assumed"),
    layers=8,
)


class ToySection(Section):
    """Keys of a toy."""

    kind: Literal["toy"] = Field(description=KIND)
    images_each: Annotated[int, Field(ge=1)] = Field(64, description="images per rank and iteration")


class ToyScenario(Scenario):
    """A toy on one cluster."""

    workload: ToySection = Field(description=WORKLOAD)


ToyResolved = ResolvedScenario[ToyModel, ToyScenario]


@dataclass(frozen=True, slots=True)
class ToyWorkload:
    """A toy on its ranks; see `workloads.family.Workload`."""

    resolved: ToyResolved

    def graph(self) -> TaskGraph:
        resolved, ranks = self.resolved, np.arange(self.resolved.world_size)
        streams = streams_of(SCHEDULES["none"], own_input_group=False)
        recorder, width = Recorder(ranks, resolved.framework, streams), resolved.model.width.value
        precision = resolved.scenario.precision
        for layer in range(resolved.model.layers):
            gemm = Gemm(resolved.local_batch_size, width, width, precision.dense)
            recorder.kernel(f"layer_{layer}", gemm, section="forward")
            size = float(width * width * (2 if precision.all_reduce in ("fp16", "bf16") else 4))
            call = CollectiveCall("all_reduce", WORLD, size)
            recorder.collective(f"sum_{layer}", call, section="backward")
            recorder.stream_wait(f"wait_{layer}", f"sum_{layer}", section="backward")
        return TaskGraph((recorder.build(),), {WORLD: np.zeros_like(ranks)})

    def memory(self) -> MemoryUse:
        model = self.resolved.model
        weights = np.full(self.resolved.world_size, 4.0 * model.layers * model.width.value**2)
        return MemoryUse({"hbm": {"weights": weights}, "ddr": {}, "ssd": {}})

    @property
    def headline(self) -> Headline:
        return Headline("images", self.resolved.global_batch_size)


@dataclass(frozen=True, slots=True)
class PlacedToy:
    """See `scenarios.family.PlacedJob`."""

    workload: ToyWorkload
    varies: bool = False

    def estimate_sections(self) -> Mapping[str, Any]:
        return {"toy": {"layers": self.workload.resolved.model.layers}}

    def summary_sections(self) -> Mapping[str, Any]:
        return {**self.estimate_sections(), "toy_only": True}

    def warnings(self) -> list[str]:
        return ["a toy, no network that anybody trains"]

    def device_waits_s(self) -> Mapping[str, float]:
        return {}

    def candidates(self, bound: Bound) -> Iterator[Candidate]:
        yield Candidate("precision.all_reduce=fp16", "numerics", most=bound.path_shares.get("communication", 0.0))

    def keeps_plan(self, resolved: ToyResolved) -> bool:
        return True

    def changed(self, resolved: ToyResolved, machine: Machine, *, place_again: bool = False) -> PlacedToy:
        return PlacedToy(ToyWorkload(resolved))


class ToyFamily:
    """See `scenarios.family.Family`."""

    kind, unit, scenario, planning = "toy", "images", ToyScenario, None
    exclusive: ClassVar[tuple[()]] = ()

    refused: ClassVar[tuple[()]] = ()

    def models(self) -> dict[str, str]:
        return {"squares": "squares of images"}

    @property
    def template(self) -> str:
        return "workload: {kind: toy, model: squares}"

    def load_model(self, name_or_path: str | Path, *, origin: Document, key: str) -> ToyModel:
        if name_or_path != "squares":
            raise InputError("no such toy", file=origin.file, key=key, given=name_or_path, expected="squares")
        return SQUARES

    def read_model(self, document: Document, *, prefix: KeyPath) -> ToyModel:
        return validate(ToyModel, document, prefix=prefix)

    def backend(self, scenario: ToyScenario) -> None:
        """The cluster's."""

    def fill(self, asked: Asked[ToyModel, ToyScenario]) -> Filled[ToyModel]:
        section = asked.scenario.workload
        return Filled(section, asked.model, section.global_batch_size or section.images_each * asked.world_size)

    def expected(self, resolved: ToyResolved) -> Expected:
        return Expected(5 * resolved.model.layers)

    def facts(self, resolved: ToyResolved) -> Mapping[str, str]:
        return {"Toy layers": str(resolved.model.layers)}

    def place(self, resolved: ToyResolved, machine: Machine, progress: Progress) -> PlacedToy:
        return PlacedToy(ToyWorkload(resolved))

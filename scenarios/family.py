"""The interface between scenarios and a family of workloads, and the registry of families.

A scenario's ``workload.kind`` names a family; nothing else in this room or above it depends on which one that is. A
family owns its keys, names its model, places the job on its ranks as a `workloads.family.Workload`, and adds what only
it knows to results: sections of the summary, warnings, settings worth a try.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Generic, Protocol, runtime_checkable

from typing_extensions import TypeVar

from hardware_specs import Cluster
from hardware_specs.library import Backend
from inputs.errors import nearest_name
from inputs.keys import KeyPath, value_at
from inputs.yaml_lines import Document
from scenarios.candidates import Candidate
from scenarios.mapping import Keep
from scenarios.progress import Progress
from scenarios.resolved import ResolvedScenario
from scenarios.types import DEFAULT_KIND, Scenario, Section
from simulator.analysis import Bound
from simulator.lowering import Machine
from simulator.registry import Registry
from workloads.family import Model, Workload
from workloads.graph.framework import Framework

M = TypeVar("M", bound=Model, default=Model)
S = TypeVar("S", bound=Scenario, default=Scenario)

KIND_KEY: KeyPath = ("workload", "kind")


@dataclass(frozen=True, slots=True)
class Asked(Generic[M, S]):
    """A scenario whose names are being resolved.

    Attributes:
        document: the file.
        scenario: its content, checked key by key.
        model: the model, with the alternatives that were asked for.
        framework: the framework profile, likewise.
        world_size: number of ranks.
        cluster: with the backend that the scenario chooses.
    """

    document: Document
    scenario: S
    model: M
    framework: Framework
    world_size: int
    cluster: Cluster


@dataclass(frozen=True, slots=True)
class Filled(Generic[M]):
    """The section ``workload`` as its family resolves it.

    Attributes:
        section: the section with the defaults of the family's own keys filled and their names inlined.
        model: the model, with the choices of the section.
        global_batch_size: samples, or units of another headline, per iteration over all ranks.
        places: as `scenarios.resolved.ResolvedScenario.places`.
        site_order: order of the cluster's sites that the family found for ``site_order: search``; None: no search.
    """

    section: Section
    model: M
    global_batch_size: int
    places: Mapping[KeyPath, tuple[Document, KeyPath]] = field(default_factory=dict)
    site_order: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """Size of an iteration before the job is placed.

    Attributes:
        tasks: tasks of a rank.
        varies: whether the inputs of iterations differ, and with them their times.
        differ: ranks that differ from each other; None: unknown.
    """

    tasks: int
    varies: bool = False
    differ: int | None = None


class PlacedJob(Protocol):
    """A job of a family on its ranks."""

    @property
    def workload(self) -> Workload:
        """Task graph, memory and headline."""
        ...

    @property
    def varies(self) -> bool:
        """Whether the inputs of iterations differ."""
        ...

    def estimate_sections(self) -> Mapping[str, Any]:
        """Sections about the placement, for ``run --check``: plain JSON values by name."""
        ...

    def summary_sections(self) -> Mapping[str, Any]:
        """Sections of ``summary.json``, those of `estimate_sections` included; no clock, host or path."""
        ...

    def warnings(self) -> Sequence[str]:
        """Limits of the trust in results that come from the placement."""
        ...

    def device_waits_s(self) -> Mapping[str, float]:
        """Seconds of an iteration in which devices wait for the host, by key of the framework profile.

        They are constants of the interval of a prediction, beside launches, operators and ``iteration_s``.
        """
        ...

    def candidates(self, bound: Bound) -> Iterable[Candidate]:
        """Settings of the family's own keys that may make the job faster."""
        ...

    def keeps_plan(self, resolved: ResolvedScenario[Any, Any]) -> bool:
        """Whether a changed scenario of the kind, on as many ranks, can have this job's plan and asks for no other one.

        True for families without plans.
        """
        ...

    def changed(
        self, resolved: ResolvedScenario[Any, Any], machine: Machine, *, place_again: bool = False
    ) -> PlacedJob:
        """The job of a changed scenario: with the placement of this job, or with its own, as `Family.place` finds it.

        Raises:
            InfeasibleError: it has a placement of its own and does not fit.
        """
        ...


@runtime_checkable
class TimedJob(Protocol):
    """A placed job with sections of ``summary.json`` that follow from the times of its run."""

    def timed_sections(self, iteration_s: float, low: float, high: float) -> Mapping[str, Any]:
        """Sections by name, see `PlacedJob.summary_sections`.

        Args:
            iteration_s: iteration time.
            low: p10 of the iteration time over its prediction; 1 without an interval.
            high: p90 of the iteration time over its prediction.
        """
        ...


class PlanStudy(Protocol):
    """A placement that people look at and keep, as ``dlrmsim plan`` writes it."""

    @property
    def resolved(self) -> ResolvedScenario[Any, Any]:
        """The scenario."""
        ...

    def plan_file(self) -> Mapping[str, Any]:
        """The placement, in the form in which a scenario reads it; or the scenario with it."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Everything but the placement itself as JSON: no wall-clock time, host or path."""
        ...


class Planning(Protocol):
    """Plans of a family, for ``dlrmsim plan``."""

    def settings(self, planner: str) -> Sequence[str]:
        """``KEY=VALUE`` settings that choose a planner.

        Raises:
            InputError: its plans have no planners.
        """
        ...

    def study(
        self, resolved: ResolvedScenario[Any, Any], progress: Progress, *, compare: bool, keep: Keep
    ) -> PlanStudy:
        """Make or read the plan of a scenario; with ``compare`` the fastest of more plans, e.g. of all planners.

        Raises:
            InputError: the plan or the planner's name is wrong.
            InfeasibleError: it does not fit.
        """
        ...


@runtime_checkable
class StrategyPlanning(Protocol):
    """Strategies of a family's layers, for ``dlrmsim plan --search strategies``."""

    def strategies(
        self, resolved: ResolvedScenario[Any, Any], progress: Progress, *, compare: bool, keep: Keep
    ) -> PlanStudy:
        """Find the fastest strategies of a scenario; with ``compare``, simulate slower strategies to the end, too.

        Raises:
            InputError: the scenario is wrong.
            InfeasibleError: no strategies fit.
        """
        ...


class Family(Protocol[M, S]):
    """A family of workloads; `scenarios.dlrm.family.DlrmFamily` is one."""

    @property
    def kind(self) -> str:
        """Value of ``workload.kind``."""
        ...

    @property
    def unit(self) -> str:
        """Unit of its headlines, a plural noun (`workloads.family.Headline.unit`)."""
        ...

    @property
    def scenario(self) -> type[S]:
        """Keys of its scenarios: `Scenario` with types of its own for ``workload`` and ``precision``."""
        ...

    @property
    def exclusive(self) -> Sequence[tuple[KeyPath, KeyPath]]:
        """Pairs of keys that exclude each other: ``--set`` of one removes the other."""
        ...

    @property
    def refused(self) -> Sequence[str]:
        """Keys of ``network`` that it always refuses."""
        ...

    @property
    def template(self) -> str:
        """Text of a commented scenario with every key of the kind but those after ``precision``."""
        ...

    @property
    def planning(self) -> Planning | None:
        """Its plans; None: it has none to show."""
        ...

    def models(self) -> Mapping[str, str]:
        """One line about each model that is no file, by name."""
        ...

    def load_model(self, name_or_path: str, *, origin: Document, key: str) -> M:
        """The model of a name or file.

        Raises:
            InputError: there is none, or the file is wrong.
        """
        ...

    def read_model(self, document: Document, *, prefix: KeyPath) -> M:
        """The model that stands at a place of a document.

        Raises:
            InputError: it is wrong.
        """
        ...

    def backend(self, scenario: S) -> Backend | None:
        """Communication backend of the workload; None: the cluster's."""
        ...

    def fill(self, asked: Asked[M, S]) -> Filled[M]:
        """Fill the defaults of the section ``workload`` and inline its names.

        Raises:
            InputError: keys contradict each other, or a name or file is wrong.
        """
        ...

    def expected(self, resolved: ResolvedScenario[M, S]) -> Expected:
        """Size of an iteration, estimated without its task graph."""
        ...

    def facts(self, resolved: ResolvedScenario[M, S]) -> Mapping[str, str]:
        """Facts about the job for the head of a page, by name."""
        ...

    def place(self, resolved: ResolvedScenario[M, S], machine: Machine, progress: Progress) -> PlacedJob:
        """Place the job on its ranks.

        Raises:
            InputError: a key of the scenario is wrong for this model or machine.
            InfeasibleError: no placement fits; the message has the numbers of each tier of memory.
        """
        ...


_SHIPPED = (
    "scenarios.captured.family",
    "scenarios.dlrm.family",
    "scenarios.convnet.generator",
    "scenarios.dlrm_ps.family",
    "scenarios.inference.family",
    "scenarios.transformer.family",
)
FAMILIES: Registry[Family[Any, Any]] = Registry(
    "kind of workload", "dlrmsim.families", module_of={module.split(".")[1]: module for module in _SHIPPED}
)
"""Families by kind. A shipped family registers itself under the name of its package when its kind is first looked up;
its module builds on this one, so it is named here and not imported."""


def template_of(package: str) -> str:
    """Content of the file ``template.yaml`` of a family's package."""
    return files(package).joinpath("template.yaml").read_text(encoding="utf-8")


def family_of(resolved: ResolvedScenario) -> Family[Any, Any]:
    """The family of a scenario."""
    return FAMILIES.get(resolved.kind)


def family_of_document(document: Document) -> Family[Any, Any]:
    """The family that a scenario file asks for.

    Raises:
        InputError: there is no such kind of workload.
    """
    kind = value_at(document.data, KIND_KEY)
    if kind is None:
        kind = DEFAULT_KIND
    if isinstance(kind, str) and kind in FAMILIES:
        return FAMILIES.get(kind)
    raise document.error(
        KIND_KEY,
        "no such kind of workload",
        given=kind,
        expected=f"one of {', '.join(FAMILIES.names())}",
        nearest=nearest_name(str(kind), FAMILIES.names()),
    )


def default_of(family: Family[Any, Any], key: str) -> Any:
    """Default of a key of the section ``workload``."""
    section = family.scenario.model_fields["workload"].annotation
    return section.model_fields[key].default

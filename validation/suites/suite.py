"""Suites: published measurements as YAML, and the request to the simulator for each case.

A case names a scenario, its changes, a metric of ``summary.json`` and the measured value. A rule over the inputs
decides the cases that the models were calibrated on, so that no person picks them. Every row of a source is a case or
is excluded with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from hardware_specs.library import Backend, Operation
from inputs.catalog import SUFFIXES
from inputs.model import Strict, problem
from inputs.quantities import Quantity
from inputs.sourced import Grade
from inputs.validate import validate
from inputs.yaml_lines import Document, load_yaml
from scenarios.located import of_file
from validation.catalogs import SUITES
from validation.fits.rules import Rule, holds

FILES = (*SUFFIXES, ".json", ".csv", ".npy", ".npz", ".parquet")
"""Suffixes of files that a suite or a scenario may name."""
WITH_PATHS = (
    "scenario",
    "set",
    "over",
    "over_scenario",
    "before",
    "after",
    "cluster",
    "over_cluster",
    "points",
    "jobs",
)
"""Keys of a suite's items that may contain paths."""


Figure = Annotated[float, Field(gt=0, le=1e18)]
"""A measured or published number: errors are shares of it."""


class Band(Strict):
    """A measurement known only as a range: a prediction hits or misses it."""

    low: Figure
    high: Figure

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise problem(f"the range {self.low:g} to {self.high:g} is empty", expected="low <= high")
        return self


class Case(Strict):
    """One measured value."""

    id: str = Field(description="unique in the suite, and named by the source's row where there is one")
    scenario: str = Field(description="name, or path from the suite's folder, as all paths here")
    set: dict[str, Any] = Field(default_factory=dict, description="dotted keys changed in the scenario")
    title: str = Field("", description="the claim in a few words")
    metric: str = Field(description="a key of summary.json; dots go down")
    measured: Figure | Band
    unit: str
    source: str
    grade: Literal["read", "secondary", "memory", "derived"]
    note: str = ""
    over: dict[str, Any] | None = Field(
        None, description="dotted keys of another run of the scenario: the metric is divided by the one of that run"
    )

    over_scenario: str | None = Field(None, description="the scenario of that run, where it is another one")

    @property
    def other_run(self) -> tuple[str, dict[str, Any]] | None:
        """Scenario and changes of the run that the metric is divided by; None: it is not divided."""
        if self.over is None and self.over_scenario is None:
            return None
        return self.over_scenario or self.scenario, self.over or {}

    @property
    def inputs(self) -> dict[str, str]:
        """Inputs for rules that the case adds to its job's inputs."""
        return {"metric": self.metric, "grade": self.grade}


class Excluded(Strict):
    """A row of a source that is no case, and why."""

    id: str
    reason: Annotated[str, Field(min_length=10)]


class Effect(Strict):
    """A step that a source says helps: the same scenario before and after."""

    id: str
    title: str
    scenario: str
    before: dict[str, Any] = Field(description="dotted keys of the slower configuration")
    after: dict[str, Any] = Field(description="dotted keys of the faster one")
    gain: Figure | None = Field(None, description="published ratio of throughputs, if any")
    source: str
    grade: Grade


class Peer(Strict):
    """Prediction of another simulator for the same job."""

    id: str
    title: str
    scenario: str
    parts: dict[str, Figure] = Field(description="name of one of our parts -> its value, times in s")
    notes: dict[str, str] = Field(default_factory=dict, description="part -> why the two differ, where that is known")
    source: str
    grade: Grade


class CollectiveCases(Strict):
    """Measured collectives in a CSV beside the suite, a case each (columns: `traces.nccl_tests`)."""

    cluster: str = Field(description="name or path of the machine that predicts them")
    points: str = Field(description="file beside the suite")
    sources: dict[str, str] = Field(description="value of the column source -> where its rows are from")
    grade: Literal["read", "secondary", "memory"]


class CollectiveRatio(Strict):
    """A published ratio of two times of one collective: by another machine or library, over by this one."""

    id: str
    op: Operation
    bytes: Annotated[float, Quantity("bytes", 1.0, 1e15)]
    nodes: Annotated[int, Field(ge=1, le=1_000_000)]
    ranks_per_node: Annotated[int, Field(ge=1, le=1_000)] = 1
    cluster: str = Field(description="name or path of the machine whose time divides")
    backend: Backend | None = Field(None, description="its library; None: its own")
    over_cluster: str | None = Field(None, description="the machine whose time is divided; None: the same")
    over_backend: Backend | None = Field(None, description="library of that one; None: its own")
    title: str = Field("", description="the claim in a few words")
    measured: Figure | Band
    unit: str = "x"
    source: str
    grade: Literal["read", "secondary", "memory"]
    note: str = ""


class ArrivalClaim(Strict):
    """A published number about jobs that arrive at a cluster, such as the reduction of their blocking rate."""

    id: str
    jobs: str = Field(description="file of arriving jobs: name, or path from the suite's folder")
    metric: str = Field("reduction.value", description="a key of `advise --arrivals --json`; dots go down")
    title: str = Field("", description="the claim in a few words")
    measured: Figure | Band
    unit: str = "1"
    source: str
    grade: Literal["read", "secondary", "memory"]
    note: str = ""


def _one_or_several(given: object) -> object:
    """One block stands for a list of one."""
    return [given] if isinstance(given, Mapping) else given


class Suite(Strict):
    """A set of measurements and the compared predictions."""

    schema_version: Literal[1] = Field(1, alias="schema")
    title: str
    description: str = ""
    calibration: tuple[Rule, ...] = Field(
        (), description="rules such as 'world_size <= 128'; cases for which all hold were calibrated on"
    )
    cases: tuple[Case, ...] = ()
    collectives: Annotated[tuple[CollectiveCases, ...], BeforeValidator(_one_or_several)] = Field(
        (), description="cases that are collectives, from a CSV; a list for several machines"
    )
    collective_ratios: tuple[CollectiveRatio, ...] = ()
    arrivals: tuple[ArrivalClaim, ...] = ()
    alternatives: tuple[str, ...] = Field((), description="cases to repeat with every listed alternative of the model")
    effects: tuple[Effect, ...] = ()
    peers: tuple[Peer, ...] = ()
    excluded: tuple[Excluded, ...] = ()

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Self:
        """Tables and pages find a row by its id."""
        rows: set[str] = set()
        names = {"cases": rows, "collective_ratios": rows, "arrivals": rows}
        for key in ("cases", "collective_ratios", "arrivals", "effects", "peers", "excluded"):
            seen = names.get(key, set())
            for number, row in enumerate(getattr(self, key)):
                if row.id in seen:
                    raise problem("the id stands twice", expected="each id once", key=f"{key}[{number}].id")
                seen.add(row.id)
        return self

    def role(self, inputs: Mapping[str, Any]) -> Literal["calibration", "validation"]:
        """Whether a case with these inputs was calibrated on: all rules hold for it.

        Raises:
            InputError: a rule compares a word with a number; with its key.
        """
        for number, rule in enumerate(self.calibration):
            with of_file(None, key=f"calibration[{number}]"):
                if not holds(rule, inputs):
                    return "validation"
        return "calibration" if self.calibration else "validation"


def load_suite(name_or_path: str | Path) -> tuple[Path, Suite]:
    """File and content of a suite; its name is the file's stem.

    Raises:
        InputError: there is none of that name, or something in it is wrong.
    """
    path = SUITES.find(name_or_path)
    return path, validate(Suite, beside(load_yaml(path)))


def beside(document: Document) -> Document:
    """A suite whose relative paths, in all keys, start at the suite's folder."""
    folder = document.file.parent

    def moved(value: object) -> object:
        """Settings with their paths moved at all depths."""
        if isinstance(value, dict):
            return {key: moved(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [moved(inner) for inner in value]
        is_path = isinstance(value, str) and value.endswith(FILES)
        return str(folder / Path(value).expanduser()) if is_path and isinstance(value, str) else value

    def item(value: object) -> object:
        """An item of a list of the suite, or the list itself."""
        if isinstance(value, list):
            return [item(inner) for inner in value]
        if not isinstance(value, dict):
            return value
        return {key: moved(inner) if key in WITH_PATHS else inner for key, inner in value.items()}

    return replace(document, data={key: item(value) for key, value in document.data.items()})

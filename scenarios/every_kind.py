"""The format of scenario files of all kinds of workload, for schemas and reference pages; files are read by family."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Annotated, Any

from pydantic import Field, create_model

from inputs.model import Strict
from scenarios.family import FAMILIES
from scenarios.types import PRECISION, WORKLOAD, Scenario
from simulator.transform.transformation import TRANSFORMATIONS
from workloads.graph.choices import Precision


def scenario_of_every_kind() -> type[Scenario]:
    """`Scenario` with the union of all families' sections, chosen by ``kind``, and of their precisions."""
    sections = [_type_of(family.scenario, "workload") for _, family in FAMILIES.items()]
    precisions = dict.fromkeys(_type_of(family.scenario, "precision") for _, family in FAMILIES.items())
    steps: dict[str, Any] = {
        name: (kind | str | None, Field(None, description=kind.description)) for name, kind in TRANSFORMATIONS.items()
    }
    step: type[Strict] = create_model("TransformStep", __base__=Strict, __doc__="One of the transformations.", **steps)
    transform = Scenario.model_fields["transform"]
    fields: dict[str, Any] = {
        "transform": (tuple[step, ...] | None, Field(None, description=transform.description)),
        "workload": (_by_kind(sections), Field(description=WORKLOAD)),
        "precision": (reduce(or_, precisions), Field(default_factory=Precision, description=PRECISION)),
    }
    found: type[Scenario] = create_model("Scenario", __base__=Scenario, __doc__=Scenario.__doc__, **fields)
    return found


def _type_of(scenario: type[Scenario], key: str) -> Any:
    return scenario.model_fields[key].annotation


def _by_kind(sections: list[Any]) -> Any:
    return sections[0] if len(sections) == 1 else Annotated[reduce(or_, sections), Field(discriminator="kind")]

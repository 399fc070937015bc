"""A resolved scenario: everything that a run depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic

from typing_extensions import TypeVar

from hardware_specs import Cluster
from inputs.keys import KeyPath
from inputs.yaml_lines import Document
from scenarios.types import Scenario
from workloads.family import Model
from workloads.graph.choices import largest_share
from workloads.graph.framework import Framework

M_co = TypeVar("M_co", bound=Model, default=Model, covariant=True)
S_co = TypeVar("S_co", bound=Scenario, default=Scenario, covariant=True)


@dataclass(frozen=True, slots=True)
class ResolvedScenario(Generic[M_co, S_co]):
    """Everything a run depends on.

    Code that serves all families takes it as it is, with the keys of `scenarios.types`; a family takes it with its own
    types of model and scenario.

    Attributes:
        scenario: the scenario with cluster, model, framework and all other names inlined and all defaults filled.
        cluster: the machine.
        model: the model, with the alternatives that were asked for.
        framework: the framework profile.
        world_size: number of ranks.
        nodes: number of nodes they are on.
        global_batch_size: samples, or units of another headline, per iteration over all ranks.
        document: the file, for the line of a later error.
        places: document and key at which a part stands that a later step checks, by its key.
        notes: side effects of settings.
    """

    scenario: S_co
    cluster: Cluster
    model: M_co
    framework: Framework
    world_size: int
    nodes: int
    global_batch_size: int
    document: Document
    places: Mapping[KeyPath, tuple[Document, KeyPath]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self.scenario.name

    @property
    def kind(self) -> str:
        """Kind of its workload."""
        return self.scenario.workload.kind

    @property
    def site_order(self) -> tuple[str, ...] | None:
        """Order in which ranks fill the sites; None: the cluster's."""
        order = self.scenario.site_order
        return None if isinstance(order, str) else order

    @property
    def local_batch_size(self) -> int:
        """Samples per iteration on the rank with most."""
        return largest_share(self.global_batch_size, self.scenario.workload.training_ranks(self.world_size))

    def batch_on(self, world_size: int) -> int:
        """Samples per iteration on another number of ranks with the same samples per rank that trains."""
        before, after = map(self.scenario.workload.training_ranks, (self.world_size, world_size))
        return max(round(self.global_batch_size * after / before), after)

    def to_dict(self) -> dict[str, Any]:
        """The resolved scenario as plain JSON values; reads back as the same scenario."""
        return self.scenario.to_dict()

    def to_yaml(self) -> str:
        """The resolved scenario as YAML that runs again and gives the same hash."""
        import yaml

        head = "# A resolved scenario: defaults filled, cluster, model and framework written out. It runs as it is.\n"
        return head + yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True, width=120)

    @property
    def hash(self) -> str:
        """sha256 of the canonical JSON of `to_dict`, hexadecimal."""
        return self.scenario.hash

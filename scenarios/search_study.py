"""Outcome of a best-first search, for ``dlrmsim plan``: the choices that were run, and the choices that do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import inf
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from scenarios.resolved import ResolvedScenario
from scenarios.search import Looked
from scenarios.summary_keys import job_of


class FoundChoice(Looked, Protocol):
    """A choice that a search looked at; a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def settings(self) -> tuple[str, ...]:
        """``KEY=VALUE`` settings that give the scenario this choice."""
        ...

    @property
    def own(self) -> bool:
        """Whether it is the scenario's own choice."""
        ...

    @property
    def memory_bytes(self) -> float:
        """Device memory of the fullest rank, bytes."""
        ...

    @property
    def exposed_comm(self) -> float | None:
        """Share of the iteration with communication and no computation; None: no complete run."""
        ...


FoundT = TypeVar("FoundT", bound=FoundChoice)


@dataclass(frozen=True, slots=True)
class SearchStudy(Generic[FoundT]):
    """The fastest of the choices that fit.

    Attributes:
        resolved: the scenario with the fastest choice.
        unit: unit of throughput, a plural noun.
        simulated: simulated choices, fastest first, then stopped runs.
        refused: choices that do not fit or are impossible, the nearest to fitting first.
        capacity_bytes: usable device memory of a rank.
        count: number of all choices.
        slower: number of choices that were not simulated because they cannot be faster.
        left: number of choices that were not simulated because of the limit `most`.
        most: limit of simulations.
    """

    resolved: ResolvedScenario[Any, Any]
    unit: str
    simulated: tuple[FoundT, ...]
    refused: tuple[FoundT, ...]
    capacity_bytes: float
    count: int
    slower: int
    left: int
    most: int

    @property
    def best(self) -> FoundT:
        """The fastest choice."""
        return self.simulated[0]

    @property
    def own(self) -> FoundT | None:
        """The scenario's own choice, if it fits."""
        return next((found for found in self.simulated if found.own), None)

    def rate(self, found: FoundT) -> float:
        """Throughput of a GPU with a simulated choice, units/s."""
        return self.resolved.global_batch_size / (found.iteration_time_s or inf) / self.resolved.world_size

    def plan_file(self) -> Mapping[str, Any]:
        """The scenario with the fastest choice, as input of `dlrmsim run`."""
        return self.resolved.to_dict()

    def head(self, choices: str, refused: str) -> dict[str, Any]:
        """Job, fastest choice, and numbers of the search, as JSON.

        Args:
            choices: key of the number of choices.
            refused: key of the number of choices that do not fit.
        """
        return {
            **job_of(self.resolved),
            "scenario_hash": self.resolved.hash,
            "iteration_time_s": self.best.iteration_time_s,
            "settings": list(self.best.settings),
            "capacity_bytes": {"hbm": self.capacity_bytes},
            "search": {
                choices: self.count,
                "simulated": len(self.simulated),
                "most_simulated": self.most,
                refused: len(self.refused),
                "cannot_be_faster": self.slower,
                "left": self.left,
            },
        }

    def row(self, found: FoundT) -> dict[str, Any]:
        """A choice with its throughput, as JSON."""
        rate = None if found.iteration_time_s is None else self.rate(found)
        return {**asdict(found), "settings": list(found.settings), f"throughput_{self.unit}_per_s_per_gpu": rate}

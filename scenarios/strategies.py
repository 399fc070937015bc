"""Search for the fastest strategies of a job's layers: MAD-Max's space, simulated (arXiv 2310.02784).

A family defines a space: the strategies of each class of layers, one within a node and one between nodes
(`workloads.graph.levels`), and other choices. The search is `scenarios.search.BestFirst`. It stops a run that takes
longer than the best run, unless all strategies are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any, Generic, Protocol, TypeVar

from inputs.errors import InfeasibleError, InputError, nearest_name
from inputs.quantities import format_quantity
from scenarios.located import located
from scenarios.mapping import Keep, keep_nothing
from scenarios.prepare import Prepared
from scenarios.progress import Progress, Silent
from scenarios.resolved import ResolvedScenario
from scenarios.runner import GivenUpError, simulation_of_prepared
from scenarios.search import BestFirst, SearchSpace, most_simulated
from scenarios.search_study import SearchStudy

STRATEGIES = "strategies"
SEARCHES = (STRATEGIES,)
"""Names of the searches of ``dlrmsim plan --search``."""

BOUNDED_ROWS = 1000
"""Largest number of choices without a run in ``statistics.json``; the choices with the shortest least times."""


def require_search(name: str) -> None:
    """Check the name of a search.

    Raises:
        InputError: there is no such search.
    """
    if name not in SEARCHES:
        raise InputError(
            "no such search",
            file="--search",
            given=name,
            expected=f"one of {', '.join(SEARCHES)}",
            nearest=nearest_name(name, SEARCHES),
        )


@dataclass(frozen=True, slots=True)
class StrategyFound:
    """Strategies with their results.

    Attributes:
        strategies: strategy of each class of layers and other choices, by column of a table.
        settings: ``KEY=VALUE`` settings that give the scenario these strategies.
        memory_bytes: device memory of the fullest rank, bytes.
        excess_bytes: missing memory of the fullest tier of any rank; at most 0: the strategies fit.
        items_bytes: device memory of the fullest rank by item.
        least_time_s: lower bound of the iteration time.
        iteration_time_s: iteration time of a run; None: no complete run.
        exposed_comm: share of the iteration with communication and no computation; None: no complete run.
        slower_than_s: iteration time at which the run was stopped; None: it was not stopped.
        why: reason of a refusal other than memory.
        own: whether these are the scenario's own strategies.
    """

    strategies: Mapping[str, str]
    settings: tuple[str, ...] = ()
    memory_bytes: float = 0.0
    excess_bytes: float = 0.0
    items_bytes: Mapping[str, float] = field(default_factory=dict)
    least_time_s: float = 0.0
    iteration_time_s: float | None = None
    exposed_comm: float | None = None
    slower_than_s: float | None = None
    why: str = ""
    own: bool = False

    @property
    def fits(self) -> bool:
        """Whether the job can run and fits into the memory of every rank."""
        return not self.why and self.excess_bytes <= 0.0

    @property
    def refusal(self) -> str:
        """Reason why the job cannot run."""
        if self.why or self.fits:
            return self.why
        lacking = format_quantity(self.excess_bytes, "bytes")
        name, held = max(self.items_bytes.items(), key=lambda item: item[1])
        return f"{lacking} too much; most of the fullest GPU is {name}, {format_quantity(held, 'bytes')}"

    def in_words(self) -> str:
        """Strategies by class of layers, in one line."""
        return ", ".join(f"{name} {words}" for name, words in self.strategies.items())


ChoiceT = TypeVar("ChoiceT")


def results_of(prepared: Prepared, at_most_s: float) -> dict[str, Any]:
    """`StrategySpace.results` of a prepared job."""
    try:
        analysis = simulation_of_prepared(prepared, Silent(), at_most_s).analysis
    except GivenUpError:
        return {"slower_than_s": at_most_s}
    return {"iteration_time_s": analysis.iteration.seconds, "exposed_comm": analysis.breakdown.exposed_comm_share}


class StrategySpace(SearchSpace[ChoiceT, StrategyFound], Protocol[ChoiceT]):
    """Space of strategies of a job, defined by its family."""

    @property
    def own(self) -> ChoiceT:
        """The scenario's own choice."""
        ...

    @property
    def impossible(self) -> Sequence[StrategyFound]:
        """Strategies that the model or the batch does not allow, with reasons."""
        ...

    @property
    def capacity_bytes(self) -> float:
        """Usable device memory of a rank."""
        ...

    def words(self, choice: ChoiceT) -> Mapping[str, str]:
        """`StrategyFound.strategies` of a choice."""
        ...

    def results(self, found: StrategyFound, at_most_s: float) -> dict[str, Any]:
        """Attributes of `StrategyFound` from a run, as JSON; the run stops if iterations take longer than a limit."""
        ...

    def scenario(self, found: StrategyFound) -> ResolvedScenario[Any, Any]:
        """The scenario with these strategies, written out."""
        ...


@dataclass(frozen=True, slots=True)
class StrategyStudy(SearchStudy[StrategyFound]):
    """The fastest strategies that fit.

    Attributes:
        bounded: lower bound of the iteration time, seconds, of each strategy that was not simulated, and the strategy.
    """

    bounded: tuple[tuple[float, Mapping[str, str]], ...]

    def to_dict(self) -> dict[str, Any]:
        """The results as JSON, without the scenario."""
        return {
            **self.head("strategies", "refused"),
            "compared": [self._row(found) for found in self.simulated],
            "bounded": [{"strategies": dict(words), "least_time_s": least_s} for least_s, words in self.bounded],
            "refused": [self._row(found) for found in self.refused],
        }

    def _row(self, found: StrategyFound) -> dict[str, Any]:
        return {**self.row(found), "refusal": found.refusal}


@dataclass(slots=True)
class StrategySearch(Generic[ChoiceT]):
    """Runs the search of a space.

    Attributes:
        compare: whether to simulate strategies that cannot be the fastest, too, each to the end, up to the limit.
        keep: storage of the results of each simulation.
    """

    resolved: ResolvedScenario[Any, Any]
    space: StrategySpace[ChoiceT]
    progress: Progress
    compare: bool
    keep: Keep = keep_nothing
    _errors: list[InputError] = field(default_factory=list)

    def study(self, unit: str) -> StrategyStudy:
        """Find the fastest strategies.

        Raises:
            InputError: a change of the task graph applies to no strategies that fit.
            InfeasibleError: no strategies fit; with the numbers of the strategies that are nearest to fitting.
        """
        self.progress.stage("ordering the strategies")
        most, space = most_simulated(self.resolved.world_size), self.space
        with located(self.resolved.document):
            search = BestFirst(space, space.own)
            search.run(partial(self._simulated, search, most), most=most, further=self.compare)
            refused = sorted(
                [*search.refused, *space.impossible], key=lambda found: (bool(found.why), found.excess_bytes)
            )
            if not search.simulated and self._errors:
                raise self._errors[0]
            if not search.simulated:
                raise InfeasibleError(self._nothing_fits(refused))
            fastest = sorted(search.simulated, key=lambda found: found.iteration_time_s or inf)
            return StrategyStudy(
                resolved=space.scenario(fastest[0]),
                unit=unit,
                simulated=tuple(fastest),
                bounded=tuple((least_s, space.words(choice)) for least_s, choice in search.bounded[:BOUNDED_ROWS]),
                refused=tuple(refused),
                capacity_bytes=space.capacity_bytes,
                count=search.count + len(space.impossible),
                slower=search.slower,
                left=search.left,
                most=most,
            )

    def _simulated(self, search: BestFirst[ChoiceT, StrategyFound], most: int, found: StrategyFound) -> StrategyFound:
        """Strategies with the results of a run, or with the reason why a change of the task graph does not apply."""
        self.progress.stage("simulating strategies", len(search.simulated) + 1, most)
        try:
            if self.compare:
                question = f"simulating strategies\n{self.resolved.hash}\n{found.in_words()}"
                return replace(found, **self.keep(question, partial(self.space.results, found, inf)))
            return replace(found, **self.space.results(found, inf if found.own else search.best_s))
        except InputError as error:
            self._errors.append(error)
            return replace(found, why=f"{error.key}: {error.message}" if error.key else error.message)

    def _nothing_fits(self, refused: Sequence[StrategyFound]) -> str:
        nearest = refused[0]
        words = f"{nearest.in_words()}\n  {nearest.refusal}"
        return f"{self.resolved.name} fits under none of its strategies; the nearest: {words}"

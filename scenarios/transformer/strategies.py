"""Strategies of a transformer's layers within a node and between nodes, as groups of ranks and their places.

Consecutive ranks form a tensor group, consecutive tensor groups form a hybrid shard group. With ``placement: block``
these groups are within a node; with ``placement: round_robin``, one rank after the other on each node, they are between
nodes:

    within a node   between nodes   tensor   sharding          placement
    ddp             ddp             1        none              block
    fsdp            fsdp            1        fsdp              block
    fsdp            ddp             1        hybrid, a node    block
    ddp             fsdp            1        hybrid, nodes     round_robin
    tensor          ddp, fsdp       a node   none, fsdp        block
    ddp, fsdp       tensor          nodes    none, fsdp        round_robin
    tensor          tensor          all      none              block

The search tries all micro-batches with each strategy, and recomputation if a strategy does not fit. It has no pipeline
and no context groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from inputs.errors import InputError
from scenarios.capacity import capacities_bytes
from scenarios.machine import machine_of
from scenarios.prepare import prepare
from scenarios.progress import Silent
from scenarios.strategies import StrategyFound, results_of
from scenarios.transformer.divisions import RECOMPUTE, more_recomputation, sequences_of
from scenarios.transformer.filling import settings_of_resolved
from scenarios.transformer.least_time import LeastTime, least_time_of
from scenarios.transformer.search import memory_of, settings_in_words
from scenarios.transformer.typed import TransformerResolved, with_changes
from scenarios.types import Placement
from workloads.graph.divisors import divisors
from workloads.graph.levels import LevelStrategies, all_levels
from workloads.transformer.settings import ParallelSizes, TransformerSettings


@dataclass(frozen=True, slots=True)
class TransformerChoice:
    """Strategies of the layers with their sizes; ``layers`` None: the scenario's own division, without a name."""

    layers: LevelStrategies | None
    settings: TransformerSettings
    placement: Placement


@dataclass(slots=True)
class TransformerStrategies:
    """Strategies of a scenario; see `scenarios.strategies.StrategySpace`."""

    resolved: TransformerResolved
    own: TransformerChoice = field(init=False)
    capacity_bytes: float = field(init=False)
    impossible: list[StrategyFound] = field(default_factory=list)
    _choices: list[TransformerChoice] = field(init=False)
    _least: dict[Placement, LeastTime] = field(default_factory=dict)

    def __post_init__(self) -> None:
        resolved = self.resolved
        placement = resolved.scenario.placement
        settings = settings_of_resolved(resolved)
        layers = next(
            (layers for layers in all_levels(*self._level_sizes) if self._same(layers, settings, placement)), None
        )
        if layers is not None:
            settings = replace(settings, sizes=self._sizes(layers)[0])
        self.own = TransformerChoice(layers, settings, placement)
        self._choices = list(self._possible())
        self.capacity_bytes = float(capacities_bytes(resolved.cluster, resolved.world_size)["hbm"])

    def choices(self) -> Sequence[TransformerChoice]:
        """All strategies with all micro-batches, without recomputation."""
        return self._choices

    def _possible(self) -> Iterator[TransformerChoice]:
        """The choices; strategies that the model or the batch does not allow are recorded as impossible."""
        settings = self.own.settings
        sequences = sequences_of(settings)
        for layers in all_levels(*self._level_sizes):
            sizes, placement = self._sizes(layers)
            if sequences % sizes.data:
                why = f"{sequences} sequences are not whole for {sizes.data} groups of ranks"
                self.impossible.append(StrategyFound(self._words(layers), why=why))
                continue
            for micro_batch in divisors(sequences // sizes.data):
                count = sequences // sizes.data // micro_batch
                try:
                    found = replace(
                        settings, sizes=sizes, micro_batch=micro_batch, microbatches=count, recompute=RECOMPUTE[0]
                    )
                except InputError as error:
                    self.impossible.append(StrategyFound(self._words(layers), why=error.message))
                    break
                yield TransformerChoice(layers, found, placement)

    def least_s(self, choice: TransformerChoice) -> float:
        """See `scenarios.transformer.least_time`; 0 where iterations vary, and where the task graph is changed."""
        if self.resolved.scenario.variation.varies or self.resolved.scenario.transform:
            return 0.0
        if choice.placement not in self._least:
            placed = with_changes(self.resolved, [f"placement={choice.placement}"])
            self._least[choice.placement] = least_time_of(placed, machine_of(placed))
        return self._least[choice.placement](choice.settings)

    def looked_at(self, choice: TransformerChoice, *, own: bool = False) -> StrategyFound:
        """Strategies with their memory."""
        memory = memory_of(self.resolved, choice.settings)
        return StrategyFound(
            self.words(choice),
            self._settings(choice),
            memory.most_bytes,
            memory.worst_excess_bytes,
            memory.fullest_items(),
            self.least_s(choice),
            own=own,
        )

    def again(self, choice: TransformerChoice) -> TransformerChoice | None:
        """The same strategies with more recomputation."""
        more = more_recomputation(choice.settings)
        return replace(choice, settings=replace(choice.settings, recompute=more[0])) if more else None

    def words(self, choice: TransformerChoice) -> Mapping[str, str]:
        """Strategies, micro-batches and recomputation."""
        settings = choice.settings
        return self._words(choice.layers, f"{settings.microbatches} x {settings.micro_batch}", settings.recompute)

    def results(self, found: StrategyFound, at_most_s: float) -> dict[str, Any]:
        """See `scenarios.strategies.results_of`."""
        return results_of(prepare(self.scenario(found), Silent()), at_most_s)

    def scenario(self, found: StrategyFound) -> TransformerResolved:
        """The scenario with the strategies."""
        return with_changes(self.resolved, found.settings)

    @property
    def _level_sizes(self) -> tuple[int, int]:
        """Number of ranks of a node, and number of nodes."""
        ranks = min(self.resolved.cluster.node.ranks, self.resolved.world_size)
        return ranks, self.resolved.world_size // ranks

    def _sizes(self, layers: LevelStrategies) -> tuple[ParallelSizes, Placement]:
        """Groups of ranks for the strategies, and the placement of ranks."""
        levels = self._level_sizes
        own = settings_of_resolved(self.resolved).sizes
        tensor = layers.group("tensor", *levels).size
        shards = layers.group("fsdp", *levels).size
        reducing = own.world_size // tensor
        sizes = replace(own, tensor=tensor, data=reducing, context=1, pipeline=1, virtual_stages=1)
        between = "tensor" if tensor > 1 else "fsdp"
        dealt = layers.between == between != layers.node and levels[1] > 1
        placement: Placement = "round_robin" if dealt else "block"
        if shards == 1:
            return replace(sizes, sharding="none", shard_size=1), placement
        if shards == reducing:
            return replace(sizes, sharding="fsdp", shard_size=1), placement
        return replace(sizes, sharding="hybrid", shard_size=shards), placement

    def _same(self, layers: LevelStrategies, settings: TransformerSettings, placement: Placement) -> bool:
        """Whether a job has these strategies."""
        sizes, needed = self._sizes(layers)
        kept = sizes.shard_size if sizes.sharding == "hybrid" else settings.sizes.shard_size
        return replace(sizes, shard_size=kept) == settings.sizes and needed == placement

    def _words(self, layers: LevelStrategies | None, batches: str = "any", recompute: str = "any") -> Mapping[str, str]:
        named = "the scenario's" if layers is None else layers.in_words()
        return {"layers": named, "micro-batches": batches, "recompute": recompute}

    def _settings(self, choice: TransformerChoice) -> tuple[str, ...]:
        """``KEY=VALUE`` settings that differ from the scenario's."""
        found = [*settings_in_words(choice.settings, self.resolved)]
        sizes, given = choice.settings.sizes, self.resolved.scenario.workload.parallel.shard_size
        if sizes.sharding == "hybrid" and sizes.shard_size not in (given, self._level_sizes[0]):
            found = [setting for setting in found if not setting.startswith("workload.parallel.shard_size=")]
            found.append(f"workload.parallel.shard_size={sizes.shard_size}")
        if choice.placement != self.own.placement:
            found.append(f"placement={choice.placement}")
        return tuple(found)

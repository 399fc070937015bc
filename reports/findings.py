"""Data of a run's page, and its first sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reports.numbers import percent
from scenarios.block_times import BlockTimes
from scenarios.levers import Levers
from scenarios.memory_curve import MemoryCurve
from scenarios.sequence_loads import SequenceLoads
from scenarios.uncertainty.interval import Interval
from simulator.analysis.bound import Bound
from simulator.analysis.breakdown import PARTS, Breakdown
from simulator.analysis.collectives import CollectiveRow
from simulator.analysis.critical_path import CriticalPath
from simulator.analysis.metrics import IterationTime
from simulator.analysis.ranks import ChosenRanks
from simulator.analysis.totals import total_ps
from simulator.engine import EngineRun
from simulator.program import Program


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The simulated job, in the words of its user.

    Attributes:
        name: name of the scenario.
        model: name of the model.
        cluster: name of the cluster.
        processor: name of the processors that run kernels.
        nodes: number of nodes.
        world_size: ranks.
        global_batch_size: samples per iteration.
        facts: further (name, value) pairs: precision, planner, framework...
        scenario_hash: sha256 of the resolved scenario.
        scenario_yaml: the resolved scenario.
        version: version of this tool.
        million_usd: price of a million of the unit, USD; None without a price of GPUs.
        unit: unit of throughput, a plural noun.
        rank_name: plural noun of the devices that hold a rank each.
        forward_only: whether an iteration is a forward pass.
    """

    name: str
    model: str
    cluster: str
    processor: str
    nodes: int
    world_size: int
    global_batch_size: int
    facts: Mapping[str, str] = field(default_factory=dict)
    scenario_hash: str = ""
    scenario_yaml: str = ""
    version: str = ""
    million_usd: float | None = None
    unit: str = "samples"
    rank_name: str = "GPUs"
    forward_only: bool = False


@dataclass(frozen=True, slots=True)
class SequenceFindings:
    """Results on sequences.

    Attributes:
        summary: section ``sequences`` of ``summary.json``.
        loads: work of each rank.
        levers: as in `RunFindings`.
        forward_only: as in `JobFacts`.
    """

    summary: Mapping[str, Any]
    loads: SequenceLoads
    levers: Levers | None = None
    forward_only: bool = False


@dataclass(frozen=True, slots=True)
class MemoryTier:
    """Memory of one kind over the ranks.

    Attributes:
        name: ``hbm`` or ``ddr``.
        capacity_bytes: usable bytes of a rank.
        items: bytes by item (weights, optimizer state...), in the order they are shown; each ``[W]``, by global rank.
    """

    name: str
    capacity_bytes: float
    items: Mapping[str, NDArray[np.float64]]

    @property
    def used_bytes(self) -> NDArray[np.float64]:
        """Bytes in use of each rank ``[W]``."""
        used: NDArray[np.float64] = np.sum(list(self.items.values()), axis=0, dtype=np.float64)
        return used


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of a number.

    Attributes:
        group: part that it belongs to: ``model``, ``gpu``, ``cluster``...
        quantity: its key, dotted.
        value: the number with its unit.
        grade: read, secondary, memory, derived or assumed.
        source: citation.
        note: anything the reader should know, such as listed alternatives.
    """

    group: str
    quantity: str
    value: str
    grade: str
    source: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimes:
    """The times of a run, simulated or measured, that a page shows.

    Attributes:
        programs: the program of each group, in the run's group order.
        result: the run, with its recorded iterations.
        breakdown: breakdown of every rank.
        chosen: ranks to show first.
        collectives: one row per collective task.
        critical_path: critical path of the breakdown's window.
        warnings: warnings in words.
        asked_ranks: ranks the user wants to see: their tasks are in the page and shown first.
        roles: breakdown of the ranks of each role, those that train first; empty where all do the same.
        on_cpus: whether ranks are CPUs, whose frameworks work between kernels while no kernel runs.
    """

    programs: Sequence[Program]
    result: EngineRun
    breakdown: Breakdown
    chosen: ChosenRanks
    collectives: Sequence[CollectiveRow]
    critical_path: CriticalPath
    warnings: Sequence[str]
    asked_ranks: Sequence[int] = ()
    roles: Mapping[str, Breakdown] = field(default_factory=dict)
    on_cpus: bool = False

    @property
    def training(self) -> Breakdown:
        """Breakdown of the ranks that train."""
        return next(iter(self.roles.values()), self.breakdown)

    @property
    def training_name(self) -> str:
        """Plural noun of the ranks that train."""
        return next(iter(self.roles), "ranks")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFindings(RunTimes):
    """All results of one simulated run that its page shows.

    Attributes:
        job: the simulated job.
        bound: gains of all classes.
        levers: settings that were tried; None without a search for them.
        origins: origin of every quantity used.
        interval: p10 and p90 of the iteration time, and what widens them; None without one.
        blocks: time of kernels by block of the network; empty where the family of the workload has no blocks.
        serving: block ``serving`` of ``summary.json``; None where the job answers no requests.
        memory_curve: memory of the fullest rank over the step; None where the family does not know it.
        sequences: results on sequences; None without sequences.
        target: section ``time_to_target`` of ``summary.json``; None without a target.
    """

    job: JobFacts
    iteration: IterationTime
    bound: Bound
    memory: Sequence[MemoryTier]
    origins: Sequence[Origin]
    levers: Levers | None = None
    interval: Interval | None = None
    blocks: Sequence[BlockTimes] = ()
    serving: Mapping[str, Any] | None = None
    memory_curve: MemoryCurve | None = None
    sequences: SequenceFindings | None = None
    target: Mapping[str, Any] | None = None

    @property
    def throughput_per_s(self) -> float:
        """Throughput in the job's unit per second."""
        return self.iteration.throughput_per_s(self.job.global_batch_size)


def mean_shares(breakdown: Breakdown) -> dict[str, float]:
    """Each part of the iteration as a share of it, the mean over ranks; the shares add up to 1."""
    whole = max(breakdown.window.length_ps, 1)
    return {part: float(getattr(breakdown, f"{part}_ps").mean()) / whole for part in PARTS}


def hidden_in_words(breakdown: Breakdown) -> tuple[str, tuple[str, ...]]:
    """A sentence on hidden communication over all ranks, and its numbers; empty without communication.

    Durations of collectives add up, so a collective hidden by another collective counts as hidden.
    """
    total = total_ps(breakdown.comm_ps)
    if not total:
        return "", ()
    share = 1.0 - total_ps(breakdown.exposed_comm_ps) / total
    return " Computation or other communication hides {} of all communication time.", (percent(share),)

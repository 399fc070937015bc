"""What is timed of whole training iterations: parts of them, and what they do.

A kernel timed alone finds its data in the caches, its code too, and no thread of a collective beside it; in an
iteration it takes 10 to 100 % longer, the short ones most. So costs are fitted (`validation.kernel_costs`) to
iterations of the trainer on jobs drawn at random: every GEMM, lookup and update is timed, and what else is in each
section. Kernels timed alone (`validation.cpu_fit`) enter with less weight: they say what the few jobs do not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hardware_specs.cpu_kernels import Followed, KernelClass
from scenarios.prepare import Prepared
from simulator.compute import CpuModel
from simulator.compute.cpu_amounts import Caches, amounts_of, class_of
from simulator.operators import (
    CollectiveCall,
    EmbeddingLookup,
    EmbeddingUpdate,
    FloatArray,
    Gemm,
    HostWork,
    Operator,
    Work,
)
from simulator.program import Program
from validation.cpu_fit import KernelRow
from validation.over_cores import median_over_cores
from validation.timed import ENDS, ISSUE, LOOKUP, WAIT, TimedRank
from validation.yardstick import FULLY, lookups_slowness, slowness, usual_s

Key = tuple[KernelClass, str]
"""A kind of kernel and one of its amounts."""
ALONE_WEIGHT = 0.3
"""Of a kernel timed alone beside a part of an iteration."""
FLOOR_SHARE = 0.02
"""Errors are relative to what is predicted plus this part of the iteration: short parts count for less."""
FLOOR_S = 2e-4
"""The same of kernels timed alone, seconds."""
ISSUING_AMOUNTS = frozenset({"issue", "issue_byte"})
"""Of amounts: what calls that issue collectives do, which is timed apart."""
_GROUPS: Mapping[str, str] = {
    "input": "input", "embedding_forward": "embedding", "bottom_mlp_forward": "bottom_mlp",
    "interaction_forward": "interaction", "top_mlp_forward": "top_mlp", "loss": ENDS, "optimizer": ENDS,
}  # fmt: skip
"""The group of each section of the simulator's tasks that is no part of the trainer's ``backward``."""


@dataclass(frozen=True, slots=True)
class PartRow:
    """A timed part of an iteration on one rank, or a kernel timed alone.

    Attributes:
        name: which.
        work: what it does.
        seconds: its time.
        floor_s: what is added to it where errors are relative to it.
        rank: whose it is.
        ranks: that did the same at the same time.
        weight: of its error.
        alone: whether the kernel was timed alone.
        noise: half the spread of the middle half of repeats over the median; 0 where it was done once.
    """

    name: str
    work: Sequence[Operator]
    seconds: float
    floor_s: float
    rank: int = 0
    ranks: int = 1
    weight: float = 1.0
    alone: bool = False
    noise: float = 0.0
    _known: dict[Caches, Mapping[Key, float]] = field(default_factory=dict, repr=False, compare=False)

    def counts(self, machine: Caches) -> Mapping[Key, float]:
        """Amounts of what it does, by kind of kernel and name.

        Args:
            machine: caches of the machine that did it.
        """
        if machine not in self._known:
            self._known[machine] = self._counts(machine)
        return self._known[machine]

    def _counts(self, machine: Caches) -> dict[Key, float]:
        found: dict[Key, float] = {}
        for work in self.work:
            kind = class_of(work)
            if kind is None:
                continue
            for name, count in amounts_of(work, machine.of_each(self.ranks)).items():
                if name not in ISSUING_AMOUNTS:
                    of_rank = float(np.broadcast_to(np.asarray(count, dtype=np.float64), self.ranks)[self.rank])
                    found[kind, name] = found.get((kind, name), 0.0) + of_rank
        return found


@dataclass(frozen=True, slots=True)
class TrainedRank:
    """What a rank recorded of a job, medians over iterations, of each core that it was on by turns alike.

    Attributes:
        cpu_s: what its own thread had of a core, seconds.
        others_s: what its other threads had, those of collectives.
        wall_s: time.
        yardstick_s: of the pieces of the yardstick.
        stolen: share of the time of the cores on which it began that the host of a virtual machine took.
        collectives_s: in which its own thread issued collectives and waited for them, as `validation.over_cores` tells
            parts of iterations; None in records from before it was told, or told so.
        collectives_cpu_s: what it had of a core in that time, the median; None in records from before it was told.
        calls_s: the part of that time in which it issued collectives; as ``collectives_s``.
    """

    cpu_s: float
    others_s: float
    wall_s: float
    yardstick_s: Mapping[str, float]
    stolen: float
    collectives_s: float | None = None
    collectives_cpu_s: float | None = None
    calls_s: float | None = None

    @staticmethod
    def read(folder: Path, rank: int, counted: Sequence[int]) -> TrainedRank:
        """What a rank wrote into a folder, of the iterations that count; its collectives are told by all ranks'."""
        found = json.loads((folder / f"rank{rank}.json").read_text(encoding="utf-8"))
        columns = {name: np.array(values)[counted] for name, values in found["iterations"].items()}
        cores, wall_s = columns["core"], columns["end_s"] - columns["start_s"]
        return TrainedRank(
            cpu_s=median_over_cores(columns["cpu_s"], cores),
            others_s=median_over_cores(columns["process_s"] - columns["cpu_s"], cores),
            wall_s=median_over_cores(wall_s, cores),
            yardstick_s=usual_s(found["yardstick_s"]),
            stolen=max(found["environment"][f"stolen_{phase}"] for phase in ("measured", "timed")),
            collectives_cpu_s=median_over_cores(columns["collectives_cpu_s"], cores),
        )


def alone(row: KernelRow, ranks: int) -> PartRow:
    """A kernel timed alone, on so many ranks at once."""
    kind = str(class_of(row.operator))
    return PartRow(kind, [row.operator], row.seconds, FLOOR_S, 0, ranks, ALONE_WEIGHT, alone=True, noise=row.noise)


@dataclass(frozen=True, slots=True)
class Beside:
    """How long tasks of a job take in the simulation, collectives beside them.

    Attributes:
        alone_s: what each would take with nothing beside it ``[T, P]``; 0 of what is no kernel.
        beside_s: what it takes ``[T, P]``, likewise.
        spread: of the pace of cores, standard deviation over mean.
        together_s: what lookups of a rank take longer for those of others, the mean over ranks.
        together_share: part of what they do that is done beside those.
    """

    alone_s: FloatArray
    beside_s: FloatArray
    spread: float = 0.0
    together_s: float = 0.0
    together_share: float = 0.0

    def longer(self, tasks: Sequence[int], rank: int) -> float:
        """By how much longer some tasks of a rank take together than alone; 1 where they take nothing."""
        alone_s = float(self.alone_s[tasks, rank].sum())
        return float(self.beside_s[tasks, rank].sum()) / alone_s if alone_s > 0.0 else 1.0


def parts(
    prepared: Prepared,
    timed: TimedRank,
    rank: int,
    trained: TrainedRank,
    then_s: Mapping[str, float],
    issue_s: float,
    beside: Beside | None = None,
    issue_byte_s: float = 0.0,
    followed: Followed = FULLY,
) -> list[PartRow]:
    """The timed parts of a job's iteration on a rank.

    Traced iterations are scaled to those that were not: to the rank's CPU time where it has one thread, for that has
    nothing of other threads on the same core, else to the time on the wall. What collectives beside them make of some
    kernels and not of others is taken off before (`docs/decisions/107`).

    Args:
        prepared: the job.
        timed: the rank's traced iterations.
        rank: whose they are.
        trained: what it recorded.
        then_s: of the yardstick's pieces when the machine is as fast as usual.
        issue_s: what it takes to issue a collective, where the rank did not tell.
        beside: how much longer tasks take for the collectives beside them; None: all alike.
        issue_byte_s: what it takes for each byte that calls copy, where the rank did not tell.
        followed: how closely such jobs go with the yardstick.
    """
    compute, (program,) = prepared.machine.compute, prepared.graph.programs
    if not isinstance(compute, CpuModel):
        raise TypeError("kernels of CPUs are fitted to jobs on CPUs")
    groups: dict[str, list[int]] = {}
    gemms: list[int] = []
    works: dict[int, Operator] = {}
    for task, (name, section, work) in enumerate(zip(program.names, program.sections, program.work, strict=True)):
        if isinstance(work, CollectiveCall) or class_of(work) is None:
            continue
        works[task] = work
        if isinstance(work, Gemm):
            gemms.append(task)
        else:
            groups.setdefault(group_of(name, section, work), []).append(task)
    told = [(name, groups[name], seconds) for name, seconds in timed.groups_s.items() if groups.get(name)]
    if len(gemms) == len(timed.gemms_s):
        told += [("gemm", [task], seconds) for task, seconds in zip(gemms, timed.gemms_s.tolist(), strict=True)]
    longer = [beside.longer(tasks, rank) if beside else 1.0 for _, tasks, _ in told]
    lost_s = sum(seconds * (1.0 - 1.0 / by) for (_, _, seconds), by in zip(told, longer, strict=True))
    issuing_s = trained.collectives_cpu_s
    if issuing_s is None:
        issuing_s = issued_in(program) * issue_s + copied_in(program) * issue_byte_s
    measured = _scale(timed, trained, compute, issuing_s, lost_s)
    scale = measured / slowness(trained.yardstick_s, then_s, followed)
    of_lookups = measured / lookups_slowness(trained.yardstick_s, then_s, followed)
    floor_s, ranks = FLOOR_SHARE * scale * float(np.median(timed.steps_s)), program.rank_count
    return [
        PartRow(
            name,
            [works[task] for task in tasks],
            (of_lookups if name.endswith(LOOKUP) else scale) * seconds / by,
            floor_s,
            rank,
            ranks,
        )
        for (name, tasks, seconds), by in zip(told, longer, strict=True)
        if seconds > 0.0
    ]


def issued_in(program: Program) -> int:
    """Collectives that a rank issues in an iteration."""
    return sum(isinstance(work, CollectiveCall) for work in program.work)


def copied_in(program: Program) -> float:
    """Bytes that a rank's calls copy in an iteration before they issue collectives, the mean over ranks."""
    return sum(float(np.mean(work.copied_bytes)) for work in program.work if isinstance(work, HostWork))


def group_of(name: str, section: str, work: Work) -> str:
    """The group of sections (`validation.timed`) in which the trainer does a task of the simulator's.

    Args:
        name: of the task.
        section: that it belongs to (`simulator.program.Program.sections`).
        work: what it does.
    """
    task = name.removeprefix("launch_")
    if task.endswith("_update") or isinstance(work, EmbeddingLookup | EmbeddingUpdate):
        return task
    return _GROUPS.get(section, "backward")


def _scale(timed: TimedRank, trained: TrainedRank, compute: CpuModel, issuing_s: float, lost_s: float) -> float:
    step_s = float(np.median(timed.steps_s))
    if compute.kernels.threads > 1:
        return trained.wall_s / step_s
    own_s = step_s - timed.groups_s.get(WAIT, 0.0) - timed.groups_s.get(ISSUE, 0.0) - lost_s
    return max(trained.cpu_s - issuing_s, 0.1 * trained.cpu_s) / own_s

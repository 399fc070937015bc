"""Timed parts of training iterations, and the amounts of work in them.

A kernel timed alone finds its data and its code in the caches; in an iteration it takes 10 to 100 % longer, short
kernels most. So `validation.host.kernel_costs` fits costs to iterations of jobs drawn at random: every GEMM, lookup and
update is a part, and so is the rest of each section. Kernels timed alone enter with less weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hardware_specs.cpu_kernels import KernelClass
from scenarios.prepare import Prepared
from simulator.collective_calls import CollectiveCall
from simulator.compute import CpuModel
from simulator.compute.cpu_amounts import Caches, amounts_of, class_of
from simulator.operators import EmbeddingLookup, EmbeddingUpdate, Gemm, HostWork
from simulator.program import Program
from simulator.work import Operator, Work
from validation.host.operator_times import ENDS, ISSUE, WAIT, TimedRank
from validation.host.ranges import Difference, Duration, Fraction
from validation.host.timed_kernels import KernelRow

Key = tuple[KernelClass, str]
"""A kind of kernel and the name of one of its amounts."""
ALONE_WEIGHT = 0.3
"""Weight of a kernel timed alone; a part of an iteration has 1."""
FLOOR_SHARE = 0.02
"""Fraction of the iteration added to a part's predicted time where errors are relative: short parts weigh less."""
FLOOR_S = 2e-4
"""Seconds added to the predicted time of a kernel timed alone where errors are relative."""
ISSUING_AMOUNTS = frozenset({"issue", "issue_byte"})
"""Amounts of calls that issue collectives; `validation.host.collective_costs` fits their costs."""
_GROUPS: Mapping[str, str] = {
    "input": "input", "embedding_forward": "embedding", "bottom_mlp_forward": "bottom_mlp",
    "interaction_forward": "interaction", "top_mlp_forward": "top_mlp", "loss": ENDS, "optimizer": ENDS,
}  # fmt: skip
"""Group (`validation.host.operator_times`) of each section of the simulator's tasks outside ``backward``."""


@dataclass(frozen=True, slots=True)
class PartRow:
    """A timed part of an iteration on one rank, or a kernel timed alone.

    Attributes:
        name: group, lookup, update or ``gemm``; the kind of a kernel timed alone.
        work: operators that it executes.
        seconds: measured time.
        floor_s: seconds added to the predicted time where errors are relative.
        rank: rank that executed it.
        ranks: ranks that executed the same at the same time.
        weight: weight of its error, without unit.
        alone: whether the kernel was timed alone.
        noise: half the interquartile range of repeats over their median; 0 without repeats.
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

    def counts(self, caches: Caches) -> Mapping[Key, float]:
        """Amounts by kind of kernel and name, on a machine with these caches."""
        if caches not in self._known:
            self._known[caches] = self._counts(caches)
        return self._known[caches]

    def _counts(self, caches: Caches) -> dict[Key, float]:
        found: dict[Key, float] = {}
        for work in self.work:
            kind = class_of(work)
            if kind is None:
                continue
            for name, count in amounts_of(work, caches.of_each(self.ranks)).items():
                if name not in ISSUING_AMOUNTS:
                    of_rank = float(np.broadcast_to(np.asarray(count, dtype=np.float64), self.ranks)[self.rank])
                    found[kind, name] = found.get((kind, name), 0.0) + of_rank
        return found

    @property
    def is_of_tables(self) -> bool:
        """Whether it is a lookup or an update of tables; the launch belongs to it."""
        kernels = [work for work in self.work if not isinstance(work, HostWork)]
        return bool(kernels) and all(isinstance(work, EmbeddingLookup | EmbeddingUpdate) for work in kernels)


@dataclass(frozen=True, slots=True)
class TrainedRank:
    """Medians over the measured iterations of a job on one rank.

    Attributes:
        cpu_s: CPU time of the rank's own thread per iteration.
        others_s: CPU time of its other threads, which run the collectives.
        wall_s: time per iteration.
        collectives_s: time in calls that issue collectives and in waits for them.
        collectives_cpu_s: CPU time of the own thread in those.
        yardstick_s: median time of the yardstick (`trainer.process.yardstick`); None in records without one.
        stolen: fraction of the cores' time that a hypervisor took.
    """

    cpu_s: Duration
    others_s: Difference
    wall_s: Duration
    collectives_s: Difference
    collectives_cpu_s: Difference
    yardstick_s: Duration | None
    stolen: Fraction


def alone(row: KernelRow, ranks: int) -> PartRow:
    """A kernel timed alone, on ``ranks`` ranks at once."""
    kind = str(class_of(row.operator))
    return PartRow(kind, [row.operator], row.seconds, FLOOR_S, 0, ranks, ALONE_WEIGHT, alone=True, noise=row.noise)


def parts(prepared: Prepared, timed: TimedRank, rank: int, trained: TrainedRank, slower: float) -> list[PartRow]:
    """Timed parts of a job's iteration on a rank.

    Tracing and the threads of collectives lengthen traced iterations. Their parts are scaled: to the CPU time of the
    rank's own thread outside collectives if it has one thread, else to the time of iterations that are not traced.

    Args:
        prepared: the job on the machine.
        timed: operator times of the rank.
        trained: its measured iterations.
        slower: `validation.host.usual_times.slowness` of the machine meanwhile.
    """
    compute, (program,) = prepared.machine.compute, prepared.graph.programs
    if not isinstance(compute, CpuModel):
        raise TypeError("costs of CPU kernels are fitted to jobs on CPUs")
    groups: dict[str, list[Operator]] = {}
    gemms: list[Operator] = []
    for name, section, work in zip(program.names, program.sections, program.work, strict=True):
        if isinstance(work, CollectiveCall) or class_of(work) is None:
            continue
        if isinstance(work, Gemm):
            gemms.append(work)
        else:
            groups.setdefault(group_of(name, section, work), []).append(work)
    timed_parts = [(name, groups[name], seconds) for name, seconds in timed.groups_s.items() if groups.get(name)]
    if len(gemms) == len(timed.gemms_s):
        timed_parts += [("gemm", [work], seconds) for work, seconds in zip(gemms, timed.gemms_s.tolist(), strict=True)]
    scale = _scale(timed, trained, compute.kernels.threads) / slower
    floor_s = FLOOR_SHARE * scale * float(np.median(timed.steps_s))
    return [
        PartRow(name, work, scale * seconds, floor_s, rank, program.rank_count)
        for name, work, seconds in timed_parts
        if seconds > 0.0
    ]


def collective_count(program: Program) -> int:
    """Collectives that a rank issues in an iteration."""
    return sum(isinstance(work, CollectiveCall) for work in program.work)


def copied_bytes(program: Program) -> float:
    """Bytes that a rank's calls copy in an iteration before they issue collectives, the mean over ranks."""
    return sum(float(np.mean(work.copied_bytes)) for work in program.work if isinstance(work, HostWork))


def group_of(name: str, section: str, work: Work) -> str:
    """Group of the trainer (`validation.host.operator_times`) that executes a task of the simulator.

    Args:
        section: its section (`simulator.program.Program.sections`).
    """
    task = name.removeprefix("launch_")
    if task.endswith("_update") or isinstance(work, EmbeddingLookup | EmbeddingUpdate):
        return task
    return _GROUPS.get(section, "backward")


def _scale(timed: TimedRank, trained: TrainedRank, threads: int) -> float:
    step_s = float(np.median(timed.steps_s))
    if threads > 1:
        return trained.wall_s / step_s
    own_s = step_s - timed.groups_s.get(WAIT, 0.0) - timed.groups_s.get(ISSUE, 0.0)
    return max(trained.cpu_s - trained.collectives_cpu_s, 0.1 * trained.cpu_s) / own_s

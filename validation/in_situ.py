"""Costs of kernels from whole training iterations.

A kernel timed alone finds its data in the caches, its code too, and no thread of a collective beside it; in an
iteration it takes 10 to 100 % longer, the short ones most. So costs are fitted to iterations of the trainer on jobs
drawn at random: the time of every GEMM, lookup and update, and of what else is in each section, is the sum of amounts
times costs, of several kinds of kernels and of the host's work at once. Kernels timed alone (`validation.cpu_fit`)
enter with less weight: they say what the few jobs do not.

Errors are relative to what is predicted, so that noise, which multiplies, does not pull costs down.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hardware_specs.cpu_kernels import CpuKernels, KernelClass, KernelCosts
from scenarios.prepare import Prepared
from simulator.compute import CpuModel
from simulator.compute.cpu import Caches, amounts_of, caches_of, class_of
from simulator.operators import (
    CollectiveCall,
    EmbeddingLookup,
    EmbeddingUpdate,
    FloatArray,
    Gemm,
    Operator,
    Work,
)
from simulator.program import IntArray, Program
from validation.cpu_fit import KernelRow
from validation.timed import ENDS, ISSUE, WAIT, TimedRank
from validation.yardstick import usual_s

Key = tuple[KernelClass, str]
"""A kind of kernel and one of its amounts."""
CALL, ALONE_CALL = "call", "alone_call"
"""What a call costs within an iteration, and alone, which no spec tells."""
ALONE_WEIGHT = 0.3
"""Of a kernel timed alone beside a part of an iteration."""
FLOOR_SHARE = 0.02
"""Errors are relative to what is predicted plus this part of the iteration: short parts count for less."""
FLOOR_S = 2e-4
"""The same of kernels timed alone, seconds."""
LINEAR_BEYOND = 0.15
"""Relative errors up to this count by their square, larger ones by their size."""
SAME_PLACE = 1e-4
"""Costs that change no row's time by more than this part are left out."""
USUAL_OFF, UNUSUAL_SHARE = 0.5, 0.1
"""Standard deviations: of costs from those of another CPU times a number for each kind of kernel; and of what an amount
that cost nothing there makes of the row with most of it (`docs/decisions/055`)."""
ROUNDS = 40
"""Of reweighting: the predictions of one are the next one's weights."""


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
                if name != "issue":
                    of_rank = float(np.broadcast_to(np.asarray(count, dtype=np.float64), self.ranks)[self.rank])
                    found[kind, name] = found.get((kind, name), 0.0) + of_rank
        return found


@dataclass(frozen=True, slots=True)
class TrainedRank:
    """What a rank recorded of a job, medians over iterations.

    Attributes:
        cpu_s: what its own thread had of a core, seconds.
        others_s: what its other threads had, those of collectives.
        wall_s: time.
        yardstick_s: of the pieces of the yardstick.
        stolen: share of its cores' time that the host of a virtual machine took.
        collectives_s: in which its own thread issued collectives and waited for them, the mean; None in records from
            before it was told.
        collectives_cpu_s: what it had of a core in that time, the median; likewise.
    """

    cpu_s: float
    others_s: float
    wall_s: float
    yardstick_s: Mapping[str, float]
    stolen: float
    collectives_s: float | None = None
    collectives_cpu_s: float | None = None

    @staticmethod
    def read(folder: Path, rank: int, counted: Sequence[int]) -> TrainedRank:
        """What a rank wrote into a folder, of the iterations that count."""
        found = json.loads((folder / f"rank{rank}.json").read_text(encoding="utf-8"))
        columns = {name: np.array(values)[counted] for name, values in found["iterations"].items()}
        wall_s = columns["end_s"] - columns["start_s"]
        others_s = columns["process_s"] - columns["cpu_s"]
        return TrainedRank(
            cpu_s=float(np.median(columns["cpu_s"])),
            others_s=float(np.median(others_s)),
            wall_s=float(np.median(wall_s)),
            yardstick_s=usual_s(found["yardstick_s"]),
            stolen=max(found["environment"][f"stolen_{phase}"] for phase in ("measured", "timed")),
            collectives_s=float(columns["collectives_s"].mean()),
            collectives_cpu_s=float(np.median(columns["collectives_cpu_s"])),
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
    """

    alone_s: FloatArray
    beside_s: FloatArray

    def longer(self, tasks: Sequence[int], rank: int) -> float:
        """By how much longer some tasks of a rank take together than alone; 1 where they take nothing."""
        alone_s = float(self.alone_s[tasks, rank].sum())
        return float(self.beside_s[tasks, rank].sum()) / alone_s if alone_s > 0.0 else 1.0


def parts(
    prepared: Prepared,
    timed: TimedRank,
    rank: int,
    trained: TrainedRank,
    slower: float,
    issue_s: float,
    beside: Beside | None = None,
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
        slower: by how much the machine was slower than it usually is (`validation.yardstick`).
        issue_s: what it takes to issue a collective, where the rank did not tell.
        beside: how much longer tasks take for the collectives beside them; None: all alike.
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
    issuing_s = issued_in(program) * issue_s if issuing_s is None else issuing_s
    scale = _scale(timed, trained, compute, issuing_s, lost_s) / slower
    floor_s, ranks = FLOOR_SHARE * scale * float(np.median(timed.steps_s)), program.rank_count
    return [
        PartRow(name, [works[task] for task in tasks], scale * seconds / by, floor_s, rank, ranks)
        for (name, tasks, seconds), by in zip(told, longer, strict=True)
        if seconds > 0.0
    ]


def issued_in(program: Program) -> int:
    """Collectives that a rank issues in an iteration."""
    return sum(isinstance(work, CollectiveCall) for work in program.work)


@dataclass(frozen=True, slots=True)
class CollectiveWork:
    """What a job's collectives ask of a rank's cores.

    Attributes:
        latency_s: seconds of an iteration in which none of their data move.
        moving_s: seconds in which they do, when nothing is beside them.
        cores_s: what their threads had of a core.
        calls: collectives that a rank issues.
        called_s: time in calls that issue them; 0 where it was not told.
        calling_s: what the rank's own thread had of a core in these and in waits.
    """

    latency_s: float
    moving_s: float
    cores_s: float
    calls: int = 0
    called_s: float = 0.0
    calling_s: float = 0.0


def collective_costs(jobs: Sequence[CollectiveWork]) -> tuple[float, float]:
    """Seconds of a core for each second of latency, and for each in which data would move with nothing beside them."""
    cores_s = np.array([job.cores_s for job in jobs])
    matrix = np.array([[job.latency_s, job.moving_s] for job in jobs], dtype=np.float64)
    latency, moving = _nonnegative(matrix, cores_s, np.full(len(jobs), FLOOR_S), np.ones(len(jobs))).tolist()
    return latency, moving


def calls_lost(jobs: Sequence[CollectiveWork]) -> tuple[float, float]:
    """What calls that issue collectives lose of their core: each, and for each second in which data would move alone.

    It is what they take longer than their threads work (`docs/decisions/109`). 0 where no job tells it.

    Args:
        jobs: of ranks with cores of their own.

    Returns:
        Seconds for each call, and seconds for each second.
    """
    told = [job for job in jobs if job.called_s > 0.0]
    if not told:
        return 0.0, 0.0
    called_s = np.array([job.called_s for job in told])
    lost_s = np.maximum(called_s - [job.calling_s for job in told], 0.0)
    matrix = np.array([[job.calls, job.moving_s] for job in told], dtype=np.float64)
    each, moving = _nonnegative(matrix, lost_s, called_s, np.ones(len(told))).tolist()
    return each, moving


def expected_s(part: PartRow, kernels: CpuKernels) -> float:
    """What a part should take with a spec's costs, seconds."""
    counts = part.counts(caches_of(kernels)).items()
    return sum(
        count * kernels.costs[kind].seconds_per.get(name, 0.0)
        for (kind, name), count in counts
        if kind in kernels.costs
    )


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


def fit(
    rows: Sequence[PartRow], machine: Caches, usual: Mapping[str, Mapping[str, float | None]] | None = None
) -> dict[KernelClass, KernelCosts]:
    """Costs of all kinds of kernels among the rows, none negative; of a call as within an iteration, where any has one.

    Args:
        rows: what was timed.
        machine: its caches.
        usual: costs of another CPU by kind and amount, which count where few rows tell; None: they do not. An amount
            without one cost nothing there, one of None is not known.
    """
    keys, matrix, seconds, floors, weights = _amounts(rows, machine)
    costs = _nonnegative(matrix, seconds, floors, weights, None if usual is None else _held(keys, usual))
    expected = matrix @ costs
    off = 100.0 * (expected - seconds) / np.maximum(seconds, floors)
    parts_of = matrix * costs
    kinds = sorted({kind for kind, _ in keys})
    of_kind = np.array([[key[0] == kind for key in keys] for kind in kinds], dtype=np.float64)
    share = of_kind @ parts_of.T
    told = np.argmax(share, axis=0)
    found: dict[KernelClass, KernelCosts] = {}
    for number, kind in enumerate(kinds):
        mine = np.flatnonzero(told == number)
        noise = [rows[row].noise for row in mine.tolist()]
        worst = float(off[mine[np.argmax(np.abs(off[mine]))]]) if len(mine) else 0.0
        left_out = (kind, ALONE_CALL if (kind, CALL) in keys else CALL)
        kept = {
            CALL if key[1] == ALONE_CALL else key[1]: f"{float(f'{cost:.5g}')!r} s"
            for key, cost, column in zip(keys, costs, parts_of.T, strict=True)
            if key[0] == kind and key != left_out and np.max(column / np.maximum(expected, floors)) > SAME_PLACE
        }
        found[kind] = KernelCosts.model_validate(
            {
                "seconds_per": kept,
                "rows": max(1, len(mine)),
                "median_error_pct": round(float(np.median(np.abs(off[mine]))), 2) if len(mine) else 0.0,
                "worst_error_pct": round(worst, 1),
                "noise_pct": round(100.0 * float(np.median(noise)), 2) if noise else 0.0,
            }
        )
    return found


class _Amounts(NamedTuple):
    """Kinds and amounts ``[A]`` of rows ``[R, A]``, what they took, what is added to it, and their weights ``[R]``."""

    keys: list[Key]
    matrix: FloatArray
    seconds: FloatArray
    floors: FloatArray
    weights: FloatArray


def _amounts(rows: Sequence[PartRow], machine: Caches) -> _Amounts:
    counted = [_in_fit(row, machine) for row in rows]
    keys = sorted({key for counts in counted for key in counts})
    matrix = np.array([[counts.get(key, 0.0) for key in keys] for counts in counted])
    return _Amounts(keys, matrix, *np.array([(row.seconds, row.floor_s, row.weight) for row in rows]).T)


def _in_fit(row: PartRow, machine: Caches) -> dict[Key, float]:
    """What costs are fitted to: a call alone, again and again, finds its code in the caches, and costs less."""
    counts = row.counts(machine)
    return {(kind, ALONE_CALL if row.alone and name == CALL else name): n for (kind, name), n in counts.items()}


def misfit(rows: Sequence[PartRow], machine: Caches) -> float:
    """Mean error of the rows with the costs that fit them best, were the machine's caches these; relative."""
    _, matrix, seconds, floors, weights = _amounts(rows, machine)
    expected = matrix @ _nonnegative(matrix, seconds, floors, weights)
    off = np.minimum(np.abs(expected - seconds) / (expected + floors), 1.0)
    return float(np.average(off, weights=weights))


class _Usual(NamedTuple):
    """What costs are held against ``[A]`` (0: it cost nothing, nan: it is not known), and the kind of each ``[A]``."""

    costs: FloatArray
    kinds: IntArray


def _held(keys: Sequence[Key], usual: Mapping[str, Mapping[str, float | None]]) -> _Usual:
    kinds = sorted({kind for kind, _ in keys})
    costs = [usual[kind].get(name, 0.0) if kind in usual and name != ALONE_CALL else None for kind, name in keys]
    return _Usual(np.array(costs, dtype=np.float64), np.array([kinds.index(kind) for kind, _ in keys]))


def _nonnegative(
    matrix: FloatArray, seconds: FloatArray, floors: FloatArray, weights: FloatArray, usual: _Usual | None = None
) -> FloatArray:
    """Costs ``[A]`` for which ``matrix @ costs`` is near ``seconds`` ``[R]`` in relation to itself.

    Reweighted until they agree: errors are relative to the prediction of the round before, and beyond `LINEAR_BEYOND`
    count by their size, not by its square. Usual costs count as much as rows that are as noisy as these.
    """
    from scipy.optimize import nnls

    costs, expected, calm, noise = np.zeros(matrix.shape[1]), seconds, np.ones(len(seconds)), 0.0
    for round_ in range(ROUNDS):
        each = weights * calm / (expected + floors)
        rows, told = matrix * each[:, None], seconds * each
        if usual is not None:
            rows, told = _with_usual(rows, told, usual, noise)
        scale = np.maximum(np.abs(rows).max(axis=0), 1e-300)
        costs = (nnls(rows / scale, told, maxiter=100 * len(scale))[0] / scale)[: matrix.shape[1]]
        now = matrix @ costs
        off = np.abs(now - seconds) / (now + floors)
        noise = float(np.sqrt(np.sum((weights * calm * off) ** 2) / np.sum(weights**2)))
        if round_ >= ROUNDS // 4:  # not before the predictions have settled: what noise pulled down would stay there
            calm = np.sqrt(np.minimum(1.0, LINEAR_BEYOND / np.maximum(off, 1e-12)))
        expected = (expected + now) / 2
    found: FloatArray = costs
    return found


def _with_usual(rows: FloatArray, told: FloatArray, usual: _Usual, noise: float) -> tuple[FloatArray, FloatArray]:
    """The rows ``[R, A]``, with a column more for each kind of kernel and a row more for each cost that is held."""
    kind_count, (count, amounts) = int(usual.kinds.max()) + 1, rows.shape
    held = np.zeros((amounts, amounts + kind_count))
    most = np.abs(rows).max(axis=0)
    for amount in np.flatnonzero(~np.isnan(usual.costs)).tolist():
        if usual.costs[amount] > 0.0:
            held[amount, amount] = noise / USUAL_OFF / usual.costs[amount]
            held[amount, amounts + usual.kinds[amount]] = -noise / USUAL_OFF
        else:
            held[amount, amount] = noise / UNUSUAL_SHARE * most[amount]
    wider = np.hstack([rows, np.zeros((count, kind_count))])
    return np.vstack([wider, held]), np.append(told, np.zeros(amounts))

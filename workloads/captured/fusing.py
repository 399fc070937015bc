"""Tasks of a program with their operators, in order: as recorded, or with chains of element-wise kernels fused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simulator.operators import Elementwise
from simulator.transform.fuse import joined
from simulator.work import Operator
from workloads.captured.records import HostWait, Moved, RankProgram, RecordedJob, RecordedTask
from workloads.graph.operator_names import operator_key

MOST_NAMED = 3
"""Operators of a fused kernel that its name lists."""


@dataclass(frozen=True, slots=True)
class JobStep:
    """A task of a program.

    Attributes:
        number: number of its record; of a fused kernel, of the first one.
        kernel: its operator; None: a collective, or a wait of the host.
        operators: names of its operators: several in a fused kernel.
        after: steps that it waits for.
        after_streams: streams whose work of the iteration before it waits for.
        by_bytes: whether nothing but its bytes is known.
    """

    number: int
    task: RecordedTask
    kernel: Operator | None
    operators: tuple[str, ...]
    module: str
    section: str
    after: tuple[int, ...]
    after_streams: tuple[int, ...]
    launches: int
    by_bytes: bool = False

    @property
    def stream(self) -> int:
        """Number of its stream."""
        return self.task.stream

    @property
    def name(self) -> str:
        """Module path and operator: ``layers.3.self_attn.addmm``."""
        names = [short_name(operator) for operator in self.operators]
        more = len(names) - MOST_NAMED
        operator = "_".join(names[:MOST_NAMED]) + (f"_and_{more}_more" if more > 0 else "")
        return f"{self.module}.{operator}" if self.module else operator

    @property
    def overhead_keys(self) -> tuple[str, ...]:
        """Keys of its operator in profiles with overheads by operator (`workloads.graph.operator_names`)."""
        return tuple(operator_key(name.replace(".", "::", 1)) for name in self.operators)


def short_name(operator: str) -> str:
    """Name of an operator without its library and overload: ``addmm`` of ``aten.addmm.default``."""
    parts = operator.split(".")
    return parts[1] if len(parts) > 1 and parts[1] else operator


def steps_of(
    job: RecordedJob, program: RankProgram, kernels: Sequence[Operator | None], *, fused: bool
) -> list[JobStep]:
    """Tasks of a program in the order in which the host issues them.

    Args:
        kernels: operator of each work of the job.
        fused: whether neighbours on a stream that are element-wise become one kernel where the first passes a tensor
            to the second.
    """
    chains = _Chains(program, job) if fused else None
    steps: list[JobStep] = []
    place: list[int] = []
    for number, task in enumerate(program.tasks):
        step = _step(number, task, job, kernels, place)
        into = None if chains is None else chains.joins(number)
        if into is not None:
            steps[into] = _fused(steps[into], step)
            place.append(into)
            continue
        place.append(len(steps))
        steps.append(step)
        if chains is not None:
            chains.begin(number, len(steps) - 1)
    return steps


def _step(
    number: int, task: RecordedTask, job: RecordedJob, kernels: Sequence[Operator | None], place: Sequence[int]
) -> JobStep:
    work = job.works[task.work]
    return JobStep(
        number=number,
        task=task,
        kernel=kernels[task.work],
        operators=(job.operators[task.operator],),
        module=job.modules[task.module],
        section=job.sections[task.section],
        after=tuple(dict.fromkeys(place[other] for other in task.after)),
        after_streams=task.after_streams,
        launches=task.launches,
        by_bytes=isinstance(work, Moved) and work.priced_by_bytes,
    )


def _fused(first: JobStep, second: JobStep) -> JobStep:
    """One kernel of two; it has the launch of the first."""
    if not isinstance(first.kernel, Elementwise) or not isinstance(second.kernel, Elementwise):
        raise TypeError("only element-wise kernels are one")
    kernel, _ = joined(first.kernel, second.kernel)
    by_bytes = first.by_bytes or second.by_bytes
    return replace(first, kernel=kernel, operators=(*first.operators, *second.operators), by_bytes=by_bytes)


class _Chains:
    """Chains of element-wise kernels that may go on, by stream."""

    def __init__(self, program: RankProgram, job: RecordedJob) -> None:
        self._program, self._job = program, job
        self._waited = {other for task in program.tasks for other in task.after}
        self._open: dict[int, tuple[int, int]] = {}

    def begin(self, number: int, step: int) -> None:
        """Follow a task that joins no chain; it may begin one. A wait of the host ends all chains."""
        task = self._program.tasks[number]
        if isinstance(self._job.works[task.work], HostWait):
            self._open.clear()
        elif self._passes(number):
            self._open[task.stream] = number, step
        else:
            self._open.pop(task.stream, None)

    def joins(self, number: int) -> int | None:
        """Step of the chain that a task goes on with; None: it begins a chain."""
        task = self._program.tasks[number]
        work = self._job.works[task.work]
        before = self._open.get(task.stream)
        if before is None or not isinstance(work, Moved) or not work.element_wise:
            return None
        if task.after or task.after_streams or task.section != self._program.tasks[before[0]].section:
            return None
        if self._passes(number):
            self._open[task.stream] = number, before[1]
        else:
            self._open.pop(task.stream)
        return before[1]

    def _passes(self, number: int) -> bool:
        """Whether a task is element-wise, passes a tensor to the next one, and nothing else waits for it."""
        work = self._job.works[self._program.tasks[number].work]
        return (
            isinstance(work, Moved) and work.element_wise and work.next_read_bytes > 0.0 and number not in self._waited
        )

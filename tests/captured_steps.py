"""Captures of steps in one process, and the tasks of a rank of a captured job."""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from workloads.captured.records import Collective, MemoryPeak, RankProgram, RecordedJob, RecordedTask, RecordedWork

STEPS = Path(__file__).parent / "capture" / "steps.py"
"""A user's file with many steps."""
EXAMPLES = Path(__file__).parents[1] / "trainer" / "examples"


@dataclass(frozen=True)
class Issued:
    """A task with its names."""

    number: int
    operator: str
    work: RecordedWork
    module: str
    section: str
    stream: str
    task: RecordedTask


@dataclass(frozen=True)
class Rank:
    """A rank of a captured job."""

    job: RecordedJob
    program: RankProgram

    @property
    def tasks(self) -> list[Issued]:
        job, program = self.job, self.program
        return [
            Issued(
                number,
                job.operators[task.operator],
                job.works[task.work],
                job.modules[task.module],
                job.sections[task.section],
                program.streams[task.stream],
                task,
            )
            for number, task in enumerate(program.tasks)
        ]

    @property
    def memory(self) -> MemoryPeak:
        return self.program.memory

    def works(self, kind: type, **wanted: str) -> list:
        """Works of a kind, of tasks with the wanted section, module, operator or stream."""
        return [task.work for task in self.of(kind, **wanted)]

    def of(self, kind: type, **wanted: str) -> list[Issued]:
        """Tasks with works of a kind."""
        found = [task for task in self.tasks if isinstance(task.work, kind)]
        return [task for task in found if all(getattr(task, key) == value for key, value in wanted.items())]

    def calls(self, op: str, communicator: str | None = None) -> list[Collective]:
        """Collectives of an operation."""
        works = self.works(Collective)
        return [work for work in works if work.op == op and communicator in (None, work.communicator)]

    def before(self, number: int) -> set[int]:
        """Tasks that end before a task starts: those it waits for, those earlier on its stream, and theirs."""
        found: set[int] = set()
        open_tasks = [number]
        while open_tasks:
            for earlier in self._direct(open_tasks.pop()):
                if earlier not in found:
                    found.add(earlier)
                    open_tasks.append(earlier)
        return found

    def _direct(self, number: int) -> Iterator[int]:
        tasks = self.program.tasks
        yield from tasks[number].after
        key = self._line(number)
        earlier = next((n for n in range(number - 1, -1, -1) if self._line(n) == key), None)
        if earlier is not None:
            yield earlier

    def _line(self, number: int) -> object:
        """What runs its tasks in turn: a stream, or a communicator."""
        work = self.job.works[self.program.tasks[number].work]
        return work.communicator if isinstance(work, Collective) else self.program.tasks[number].stream


@lru_cache(maxsize=128)
def captured(function: str, world_size: int = 8, *, file: Path = STEPS, ranks: tuple[int, ...] | None = None):
    """The captured job of a function."""
    return _clean_process().submit(_capture, function, world_size, file, ranks).result(timeout=300)


@cache
def _clean_process() -> ProcessPoolExecutor:
    """A process in which PyTorch computes nothing, so that ranks can be forked from it."""
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


def _capture(function: str, world_size: int, file: Path, ranks: tuple[int, ...] | None) -> RecordedJob:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch
        from trainer.capture.capture import capture
        from trainer.capture.request import CaptureRequest

        request = CaptureRequest(str(file), function, world_size, ranks, None, file.stem)
        return capture(request, lambda *_: None)


def rank_of(job: RecordedJob, rank: int = 0) -> Rank:
    """A rank of a job."""
    return Rank(job, next(program for program in job.programs if rank in program.ranks))


def step_of(function: str, world_size: int = 8) -> Rank:
    """Rank 0 of a function; no other rank is captured."""
    return rank_of(captured(function, world_size, ranks=(0,)))


def example(name: str, world_size: int, ranks: tuple[int, ...] | None = None) -> RecordedJob:
    """The captured job of an example that ships."""
    return captured("training_step", world_size, file=EXAMPLES / f"{name}.py", ranks=ranks)


def counted_flops(run: Callable[[], object]) -> int:
    """Operations that PyTorch's own counter finds in a function, on tensors without memory."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils.flop_counter import FlopCounterMode

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with FakeTensorMode(), FlopCounterMode(display=False) as counter:
            run()
    return counter.get_total_flops()

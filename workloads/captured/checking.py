"""Checks of a captured job: numbers that name other parts exist, and every rank has one program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from inputs.errors import InputError, nearest_name
from workloads.captured.records import Collective, MemoryPeak, RankProgram, RecordedJob, RecordedTask

WHOLE = 1e-6
"""Largest deviation from 1 of fractions that add up to 1, from rounding in a file."""


def check_job(job: RecordedJob, file: Path) -> None:
    """Check all references of a job.

    Raises:
        InputError: one names a part that does not exist, or ranks, communicators and calls contradict each other.
    """
    _Checks(job, file).run()


class _Checks:
    """Checks of one job."""

    def __init__(self, job: RecordedJob, file: Path) -> None:
        self._job, self._file = job, file
        self._sizes: dict[str, dict[int, int]] = {}

    def run(self) -> None:
        """Check communicators, then programs."""
        for name, instances in self._job.communicators.items():
            self._sizes[name] = self._members(f"communicators.{name}", instances)
        self._ranks()
        for number, program in enumerate(self._job.programs):
            self._program(f"programs[{number}]", program)

    def _error(self, key: str, message: str, *, given: object = None, expected: str = "", near: str = "") -> InputError:
        return InputError(
            message, file=self._file, key=key, given=given, expected=expected or None, nearest=near or None
        )

    def _members(self, key: str, instances: Sequence[Sequence[int]]) -> dict[int, int]:
        """Size of the instance of each member."""
        found: dict[int, int] = {}
        for number, ranks in enumerate(instances):
            at = f"{key}[{number}]"
            if not ranks:
                raise self._error(at, "an instance without members", expected="ranks")
            for rank in ranks:
                self._rank(at, rank)
                if rank in found:
                    raise self._error(at, "a rank is a member twice", given=rank, expected="each rank at most once")
                found[rank] = len(ranks)
        return found

    def _rank(self, key: str, rank: int) -> None:
        if rank >= self._job.world_size:
            raise self._error(key, "no such rank", given=rank, expected=f"0 to {self._job.world_size - 1}")

    def _ranks(self) -> None:
        """Every rank is in one program."""
        seen: set[int] = set()
        for number, program in enumerate(self._job.programs):
            key = f"programs[{number}].ranks"
            if not program.ranks:
                raise self._error(key, "a program without ranks", expected="ranks, ascending")
            for before, rank in zip((-1, *program.ranks), program.ranks, strict=False):
                self._rank(key, rank)
                if rank <= before:
                    raise self._error(key, "ranks are not ascending", given=rank, expected=f"more than {before}")
                if rank in seen:
                    raise self._error(key, "a rank is in two programs", given=rank, expected="each rank in one")
            seen.update(program.ranks)
        missing = next((rank for rank in range(self._job.world_size) if rank not in seen), None)
        if missing is not None:
            raise self._error("programs", f"rank {missing} is in no program", expected="each rank in one")

    def _program(self, key: str, program: RankProgram) -> None:
        """Streams, captured ranks, memory and tasks of a program."""
        own = set(program.ranks)
        strange = next((rank for rank in program.captured if rank not in own), None)
        if strange is not None:
            raise self._error(f"{key}.captured", "a rank of another program", given=strange, expected="some of ranks")
        streams = program.streams
        if not streams or len(set(streams)) < len(streams):
            expected = "at least one stream, each with a name of its own"
            raise self._error(f"{key}.streams", "streams are missing or repeated", given=[*streams], expected=expected)
        self._memory(f"{key}.memory", program.memory, len(program.tasks))
        called: set[int] = set()
        for number, task in enumerate(program.tasks):
            at = f"{key}.tasks[{number}]"
            self._task(at, number, task, program)
            work = self._job.works[task.work]
            if isinstance(work, Collective) and task.work not in called:
                called.add(task.work)
                self._call(f"{at}.work", work, program)

    def _memory(self, key: str, memory: MemoryPeak, tasks: int) -> None:
        """The peak and the samples of memory lie within the step."""
        self._number(f"{key}.task", memory.task, max(tasks, 1), "tasks")
        for before, task in zip((-1, *memory.tasks), memory.tasks, strict=False):
            self._number(f"{key}.tasks", task, max(tasks, 1), "tasks")
            if task < before:
                raise self._error(f"{key}.tasks", "samples are not in order", given=task, expected=f"{before} or more")
        for name, samples in memory.bytes.items():
            if len(samples) != len(memory.tasks):
                expected = f"{len(memory.tasks)}, one for each of tasks"
                at = f"{key}.bytes.{name}"
                raise self._error(at, "another number of samples", given=len(samples), expected=expected)

    def _number(self, key: str, number: int, count: int, of: str) -> None:
        if number >= count:
            expected = f"0 to {count - 1}" if count else f"no number: the job has no {of}"
            raise self._error(key, f"no such number among the {of}", given=number, expected=expected)

    def _task(self, key: str, number: int, task: RecordedTask, program: RankProgram) -> None:
        """Numbers of a task."""
        for name, value, of, count in _numbers(task, self._job, program):
            if value >= count:
                self._number(f"{key}.{name}", value, count, of)
        for other in task.after:
            if other >= number:
                expected = f"a number below {number}" if number else "no number: it is the first task"
                raise self._error(f"{key}.after", "no earlier task", given=other, expected=expected)

    def _call(self, key: str, call: Collective, program: RankProgram) -> None:
        """A call of ranks that are members of its communicator, with sizes that fit."""
        if call.communicator not in self._sizes:
            names = [*self._sizes]
            expected = f"one of {', '.join(names)}" if names else "a communicator of the job, which has none"
            near = nearest_name(call.communicator, names) or ""
            raise self._error(key, "no such communicator", given=call.communicator, expected=expected, near=near)
        sizes = self._sizes[call.communicator]
        stranger = next((rank for rank in program.ranks if rank not in sizes), None)
        if stranger is not None:
            expected = f"ranks that are members of {call.communicator}"
            raise self._error(key, "a rank calls a communicator that it is not in", given=stranger, expected=expected)
        if call.op == "send" and call.peer == 0:
            raise self._error(key, "a send needs the other rank", given=0, expected="peer: receiver less sender")
        for size in {sizes[rank] for rank in program.ranks}:
            self._of_size(key, call, size)

    def _of_size(self, key: str, call: Collective, size: int) -> None:
        """Parts and root of a call of a number of members."""
        if call.sent and (call.op != "all_to_all" or len(call.sent) != size):
            expected = f"{size} fractions, one for each member" if call.op == "all_to_all" else "only with all_to_all"
            raise self._error(key, "sent does not fit the call", given=len(call.sent), expected=expected)
        if call.sent and call.bytes and (min(call.sent) < 0.0 or abs(sum(call.sent) - 1.0) > WHOLE):
            expected = "fractions that add up to 1"
            raise self._error(key, "sent are no fractions of bytes", given=sum(call.sent), expected=expected)
        if call.root is not None:
            self._number(key, call.root, size, "members")


def _numbers(task: RecordedTask, job: RecordedJob, program: RankProgram) -> Iterator[tuple[str, int, str, int]]:
    """Numbers of a task: key, number, the parts it names, and how many there are."""
    yield "operator", task.operator, "operators", len(job.operators)
    yield "work", task.work, "works", len(job.works)
    yield "module", task.module, "modules", len(job.modules)
    yield "section", task.section, "sections", len(job.sections)
    yield "stream", task.stream, "streams", len(program.streams)
    for stream in task.after_streams:
        yield "after_streams", stream, "streams", len(program.streams)

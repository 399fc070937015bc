"""Whether captured ranks call the same collectives, as a job must that is to end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from inputs.errors import InputError
from workloads.captured.records import Collective, RankProgram, RecordedJob

_EVEN = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
"""Operations whose members all state one size."""


@dataclass(frozen=True, slots=True)
class CalledIn:
    """A collective in a program, and the module that calls it."""

    work: Collective
    module: str

    def agrees(self, other: CalledIn) -> bool:
        """Whether both can be one call."""
        same_size = self.work.op not in _EVEN or abs(self.work.bytes - other.work.bytes) < 1.0
        return self.work.op == other.work.op and same_size

    def __str__(self) -> str:
        """Operation, size and module."""
        place = f" in {self.module}" if self.module else ""
        return f"{self.work.op} of {self.work.bytes:,.0f} bytes{place}"


def check_agreement(job: RecordedJob, file: Path) -> None:
    """Compare the collectives of the members of each group, and messages where all ranks were captured.

    Raises:
        InputError: members call different collectives, or a message has no receiver.
    """
    program_of = {rank: number for number, program in enumerate(job.programs) for rank in program.ranks}
    for name, groups in job.communicators.items():
        calls = [list(_calls(job, program, name)) for program in job.programs]
        for members in groups:
            first = members[0]
            for rank in members[1:]:
                if program_of[rank] != program_of[first]:
                    _compare(name, (calls[program_of[first]], calls[program_of[rank]]), (first, rank), file)
    if all(program.captured == program.ranks for program in job.programs):
        _check_messages(job, file)


def _calls(job: RecordedJob, program: RankProgram, name: str) -> Iterator[CalledIn]:
    """Collectives of a program on a communicator, in order."""
    for task in program.tasks:
        work = job.works[task.work]
        if isinstance(work, Collective) and work.communicator == name and work.op != "send":
            yield CalledIn(work, job.modules[task.module])


def _compare(name: str, of: tuple[Sequence[CalledIn], Sequence[CalledIn]], ranks: tuple[int, int], file: Path) -> None:
    """Refuse the first call of two ranks that differs."""
    for number in range(max(map(len, of))):
        both = [calls[number] if number < len(calls) else None for calls in of]
        if both[0] is not None and both[1] is not None and both[0].agrees(both[1]):
            continue
        raise InputError(
            f"ranks {ranks[0]} and {ranks[1]} call different collectives: call {number + 1} of the group {name}",
            file=file,
            given=f"rank {ranks[1]}: {both[1] or 'none'}",
            expected=f"as rank {ranks[0]}: {both[0] or 'none'}",
        )


def _check_messages(job: RecordedJob, file: Path) -> None:
    """Refuse messages that are sent and not received, or the reverse."""
    balance: Counter[tuple[int, int, float]] = Counter()
    for program in job.programs:
        works = [job.works[task.work] for task in program.tasks]
        messages = [work for work in works if isinstance(work, Collective) and work.op == "send"]
        for rank in program.ranks:
            for work in messages:
                pair = (rank - work.peer, rank) if work.receives else (rank, rank + work.peer)
                balance[*pair, work.bytes] += -1 if work.receives else 1
    for (source, target, size), left in sorted(balance.items()):
        if left:
            raise InputError(
                f"messages of {size:,.0f} bytes from rank {source} to rank {target} "
                + ("are not received" if left > 0 else "are not sent"),
                file=file,
                given=f"{abs(left)} more {'sent' if left > 0 else 'received'}",
                expected="a receive of the same size for each send",
            )

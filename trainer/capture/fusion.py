"""Bytes that a kernel hands to the next one on its stream, which a compiler keeps in registers when it fuses both."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

import msgspec

from trainer.capture.recorder import RawTask
from workloads.captured.records import Collective, HostWait, Moved, RecordedWork


def with_passed_bytes(tasks: Sequence[RawTask], kept: Collection[int]) -> list[RecordedWork]:
    """Works with the bytes of each result that the next kernel reads, and that nothing else reads.

    Args:
        kept: storages that live on after the step.
    """
    following = _following(tasks)
    readers: dict[int, list[int]] = defaultdict(list)
    for number, task in enumerate(tasks):
        for storage in task.reads:
            readers[storage].append(number)
    works: list[RecordedWork] = []
    for number, task in enumerate(tasks):
        next_one = following[number]
        if not isinstance(task.work, Moved) or next_one is None or not _plain(tasks[next_one]):
            works.append(task.work)
            continue
        passed = {s: size for s, size in task.writes.items() if s in tasks[next_one].reads}
        only = [s for s in passed if s not in kept and all(r <= number or r == next_one for r in readers[s])]
        works.append(
            msgspec.structs.replace(
                task.work,
                next_read_bytes=sum(min(size, tasks[next_one].reads[s]) for s, size in passed.items()),
                next_only_bytes=sum(passed[s] for s in only),
            )
        )
    return works


def _plain(task: RawTask) -> bool:
    return isinstance(task.work, Moved) and not task.waits.tasks


def _following(tasks: Sequence[RawTask]) -> list[int | None]:
    """Number of the next kernel on the stream of each task."""
    found: list[int | None] = [None] * len(tasks)
    last: dict[int, int] = {}
    for number, task in enumerate(tasks):
        if isinstance(task.work, Collective | HostWait):
            continue
        if task.stream in last:
            found[last[task.stream]] = number
        last[task.stream] = number
    return found

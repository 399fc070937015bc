"""Whether the tasks of a graph can run in some order: no task waits for itself, directly or indirectly."""

from __future__ import annotations

from collections import defaultdict

from simulator.program import TaskGraph, sequenced_calls


def is_ordered(graph: TaskGraph) -> bool:
    """Whether no task of an iteration waits for itself; callers of a collective wait for each other.

    All instances of a call count as one: ``False`` may be wrong if the instances begin one after the other.
    """
    first, total = [], 0
    for program in graph.programs:
        first.append(total)
        total += program.task_count
    node = list(range(total))
    for call in sequenced_calls(graph):
        callers = [first[caller.program] + caller.task for caller in call.callers]
        for caller in callers:
            node[caller] = callers[0]
    following: dict[int, list[int]] = defaultdict(list)
    waits = [0] * total
    for one, other in _edges(graph, first):
        following[node[one]].append(node[other])
        waits[node[other]] += 1
    ready = [number for number in range(total) if node[number] == number and not waits[number]]
    done = 0
    while ready:
        done += 1
        for other in following[ready.pop()]:
            waits[other] -= 1
            if not waits[other]:
                ready.append(other)
    return done == len(set(node))


def _edges(graph: TaskGraph, first: list[int]) -> list[tuple[int, int]]:
    """Pairs of tasks; the first is before the second in an iteration."""
    found = []
    for offset, program in zip(first, graph.programs, strict=True):
        last: dict[int, int] = {}
        for task, stream in enumerate(program.stream_of.tolist()):
            found += [(offset + other, offset + task) for other, lag in program.dependencies(task) if not lag]
            if program.streams[stream].in_order:
                if stream in last:
                    found.append((offset + last[stream], offset + task))
                last[stream] = task
    return found

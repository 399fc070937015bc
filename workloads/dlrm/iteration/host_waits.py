"""Waits of the host thread for collectives, as tasks of its own: a rank on a CPU goes on once it has its core again."""

from __future__ import annotations

from simulator.operators import Category, CollectiveCall, Nothing
from simulator.program import Program, ProgramBuilder


def with_waits(program: Program) -> Program:
    """The program with a task ``wait_for_KERNEL`` before each kernel that needs a collective, and before its launch.

    On a GPU a kernel is launched and its stream waits. On a CPU the thread that will compute it waits first.
    """
    collectives = {task for task, work in enumerate(program.work) if isinstance(work, CollectiveCall)}
    waited = {
        task: [each for each in program.dependencies(task) if each[0] in collectives]
        for task in range(program.task_count)
        if not isinstance(program.work[task], CollectiveCall | Nothing)
    }
    place = {_launch_of(program, task): task for task, needed in waited.items() if needed}
    added = [sum(before <= task for before in place) for task in range(program.task_count)]
    builder = ProgramBuilder(program.name, program.ranks, program.streams)
    for task, name in enumerate(program.names):
        stream, section = program.streams[program.stream_of[task]].name, program.sections[task]
        if task in place:
            kernel = place[task]
            needed = [(dep + added[dep], lag) for dep, lag in waited[kernel]]
            builder.task(
                f"wait_for_{program.names[kernel]}", stream, Nothing(Category.COMM), after=needed, section=section
            )
        kept = [
            (dep + added[dep], lag) for dep, lag in program.dependencies(task) if (dep, lag) not in waited.get(task, ())
        ]
        builder.task(name, stream, program.work[task], after=kept, section=section)
    return builder.build()


def _launch_of(program: Program, task: int) -> int:
    """The launch of a kernel, where it is the task before; else the kernel."""
    return task - 1 if task and program.names[task - 1] == f"launch_{program.names[task]}" else task

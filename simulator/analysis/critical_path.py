"""The critical path of an iteration: the chain that ends last, followed back through the latest input.

An input of a task is an explicit dependency or the task before it on its stream; a collective begins with its last
member's arrival. A task starts when its latest input ends, so the segments touch, and their lengths add up to the
window in integer picoseconds. Ties go to the lowest task number, then to the lowest rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simulator.analysis.causes import History, Place
from simulator.analysis.window import Window, measured_window
from simulator.categories import Category
from simulator.engine.records import EngineRun
from simulator.lowered import LoweredProgram
from simulator.program import Program
from simulator.work import category_of, operator_name

IDLE = str(Category.IDLE)
"""Category of time in which nothing on the path runs: a delay, or a controller that holds a stream back."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the critical path.

    Attributes:
        rank: global rank it is on.
        iteration: iteration of the task; may precede the window's.
        task: name of the task.
        section: part of the iteration the task belongs to.
        category: compute, comm, copy, host or idle.
        operator: name of the operator, or the collective's op.
        start_ps: begin; of a collective: when its last member has arrived.
        why: kind of the input that it waited for.
    """

    rank: int
    iteration: int
    task: str
    section: str
    category: str
    operator: str
    start_ps: int
    end_ps: int
    why: str

    @property
    def length_ps(self) -> int:
        """Duration in ps."""
        return self.end_ps - self.start_ps


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """Segments in order of time; each starts where the one before it ends, and together they fill the window."""

    window: Window
    segments: tuple[Segment, ...]

    def by_category_ps(self) -> dict[str, int]:
        """Time per category, every category named."""
        return {str(c): 0 for c in Category} | self._sum(lambda s: s.category)

    def by_section_ps(self) -> dict[str, int]:
        """Time per section of the iteration, in order of first appearance."""
        return self._sum(lambda s: s.section)

    def by_operator_ps(self) -> dict[str, int]:
        """Time per operator or collective op, longest first."""
        return dict(sorted(self._sum(lambda s: s.operator).items(), key=lambda item: (-item[1], item[0])))

    def _sum(self, key: Callable[[Segment], str]) -> dict[str, int]:
        sums: dict[str, int] = {}
        for segment in self.segments:
            sums[key(segment)] = sums.get(key(segment), 0) + segment.length_ps
        return sums


def critical_path(
    programs: Sequence[Program], lowered: LoweredProgram, result: EngineRun, *, window: Window | None = None
) -> CriticalPath:
    """Follow the chain that ends last back to the begin of the window.

    Args:
        programs: the program of each group, in the run's group order.
        lowered: the same groups lowered: which ranks meet in which collective.
        result: the run; needs the window's iteration recorded.
        window: default: `measured_window`.
    """
    window = window or measured_window(result)
    history = History(programs, lowered, result)
    segments: list[Segment] = []
    place: Place | None = history.last_ending(window)
    until = window.end_ps
    while place is not None and until > window.start_ps:
        arriver = history.last_arriver(place)
        before = history.latest_input(arriver)
        begin = max(history.start_ps(arriver), window.start_ps)
        released = window.start_ps if before is None else max(history.end_ps(before), window.start_ps)
        segments.append(_running(history, place, (begin, until), _why(history, place, arriver, before)))
        segments.append(_held_back(history, arriver, (released, begin)))
        place, until = before, released
    return CriticalPath(window, tuple(s for s in reversed(segments) if s.length_ps > 0))


def _running(history: History, place: Place, span_ps: tuple[int, int], why: str) -> Segment:
    """The segment in which the place's task runs."""
    program, task = history.program(place), place.task
    work = program.work[task]
    return Segment(
        rank=history.rank(place),
        iteration=place.iteration,
        task=program.names[task],
        section=program.sections[task],
        category=str(category_of(work)),
        operator=operator_name(work),
        start_ps=span_ps[0],
        end_ps=span_ps[1],
        why=why,
    )


def _held_back(history: History, place: Place, span_ps: tuple[int, int]) -> Segment:
    """The segment in which a controller keeps the place's task from starting (empty unless there is one)."""
    program = history.program(place)
    return Segment(
        rank=history.rank(place),
        iteration=place.iteration,
        task=program.names[place.task],
        section=program.sections[place.task],
        category=IDLE,
        operator=IDLE,
        start_ps=span_ps[0],
        end_ps=span_ps[1],
        why=f"stream {program.streams[int(program.stream_of[place.task])].name} was held back",
    )


def _why(history: History, place: Place, arriver: Place, before: Place | None) -> str:
    """Why the place's task did not start earlier."""
    waited = f"waited for rank {history.rank(arriver)}, the last to arrive: " if arriver != place else ""
    if before is None:
        return f"{waited}nothing recorded comes before it"
    earlier = f" of iteration {before.iteration}" if before.iteration != place.iteration else ""
    return f"{waited}after {history.program(before).names[before.task]}{earlier}"

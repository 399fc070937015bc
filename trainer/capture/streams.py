"""Streams and events of a captured step: which tasks a stream waits for.

A stream runs its tasks in order. An event stands for the tasks issued on a stream so far; a stream that waits for it
starts its next task after these. Tasks of the warm-up have no numbers in the recorded step: of them only the stream
counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

DEFAULT_STREAM = "default"


@dataclass(slots=True)
class Waits:
    """Tasks and streams of the iteration before for which a stream's next task waits."""

    tasks: set[int] = field(default_factory=set)
    streams: set[int] = field(default_factory=set)

    def add(self, other: Waits) -> None:
        """Wait for all that another one waits for."""
        self.tasks |= other.tasks
        self.streams |= other.streams


@dataclass(slots=True)
class StreamState:
    """A device stream.

    Attributes:
        last: number of its last task in the recorded step; None: it has none yet.
        waits: for its next task.
    """

    name: str
    last: int | None = None
    waits: Waits = field(default_factory=Waits)


class StreamBook:
    """All device streams of a rank."""

    def __init__(self) -> None:
        """Start with the default stream."""
        self.streams = [StreamState(DEFAULT_STREAM)]
        self.current = 0
        self.step = 0

    def new_stream(self) -> int:
        """Number of a new stream."""
        self.streams.append(StreamState(f"stream_{len(self.streams)}"))
        return len(self.streams) - 1

    def begin_step(self) -> None:
        """Begin the recorded step: tasks so far are of the iteration before."""
        self.step += 1
        for state in self.streams:
            state.last, state.waits = None, Waits()

    def ready(self, stream: int) -> Waits:
        """Waits of the next task of a stream, which are then over."""
        state = self.streams[stream]
        waits, state.waits = state.waits, Waits()
        return waits

    def issued(self, stream: int, task: int) -> None:
        """Number of a stream's newest task."""
        self.streams[stream].last = task

    def reached(self, stream: int) -> Waits:
        """Tasks that have ended when a stream has come to its end."""
        state = self.streams[stream]
        found = Waits(set(state.waits.tasks), set(state.waits.streams))
        if state.last is not None:
            found.tasks.add(state.last)
        return found

    def wait(self, stream: int, waits: Waits) -> None:
        """Let a stream's next task wait, for tasks of other streams and collectives."""
        own = self.streams[stream]
        own.waits.add(waits)
        own.waits.tasks.discard(-1 if own.last is None else own.last)
        own.waits.streams.discard(stream)


class CapturedEvent:
    """Stands for ``torch.cuda.Event``."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Start unrecorded."""
        self._waits, self._step, self._stream = Waits(), -1, 0

    def record(self, stream: CapturedStream | None = None) -> CapturedEvent:
        """Stand for the tasks issued so far on a stream, the current one by default."""
        book = BOOK.open
        number = book.current if stream is None else stream.number
        self._waits, self._step, self._stream = book.reached(number), book.step, number
        return self

    def waits(self) -> Waits:
        """Tasks of this step that it stands for, or the stream if it was recorded in a step before."""
        if self._step < 0:
            return Waits()
        return self._waits if self._step == BOOK.open.step else Waits(streams={self._stream})

    def wait(self, stream: CapturedStream | None = None) -> None:
        """Let a stream wait, the current one by default."""
        book = BOOK.open
        book.wait(book.current if stream is None else stream.number, self.waits())

    def query(self) -> bool:
        """True."""
        return True

    def synchronize(self) -> None:
        """Let the host wait."""
        BOOK.host_waits(self.waits())

    def elapsed_time(self, _: CapturedEvent) -> float:
        """Milliseconds; no time passes in a capture."""
        return 0.0


class CapturedStream:
    """Stands for ``torch.cuda.Stream``."""

    def __init__(self, *_: Any, number: int | None = None, **__: Any) -> None:
        """A new stream, or the one of a number."""
        self.number = BOOK.open.new_stream() if number is None else number

    def wait_stream(self, stream: CapturedStream) -> None:
        """Wait for the tasks issued so far on another stream."""
        book = BOOK.open
        book.wait(self.number, book.reached(stream.number))

    def wait_event(self, event: CapturedEvent) -> None:
        """Wait for the tasks that an event stands for."""
        BOOK.open.wait(self.number, event.waits())

    def record_event(self, event: CapturedEvent | None = None) -> CapturedEvent:
        """An event that stands for the tasks issued so far."""
        return (event or CapturedEvent()).record(self)

    def synchronize(self) -> None:
        """Let the host wait."""
        BOOK.host_waits(BOOK.open.reached(self.number))

    def query(self) -> bool:
        """True."""
        return True

    def __eq__(self, other: object) -> bool:
        """Whether both are one stream."""
        return isinstance(other, CapturedStream) and other.number == self.number

    def __hash__(self) -> int:
        """Hash of the number."""
        return hash(self.number)


class StreamBlock:
    """Stands for ``torch.cuda.stream(stream)``."""

    def __init__(self, stream: CapturedStream | None) -> None:
        """A block whose kernels run on a stream; None: on the current one."""
        self._stream, self._before = stream, 0

    def __enter__(self) -> None:
        """Make the stream the current one."""
        book = BOOK.open
        self._before = book.current
        if self._stream is not None:
            book.current = self._stream.number

    def __exit__(self, *_: object) -> None:
        """Go back to the stream before."""
        BOOK.open.current = self._before


class _OpenBook:
    """The streams of the rank that is being captured, and the function that records a wait of its host."""

    def __init__(self) -> None:
        self.open = StreamBook()
        self._on_host_wait: Any = None

    def start(self, on_host_wait: Any) -> StreamBook:
        """New streams for a rank."""
        self.open, self._on_host_wait = StreamBook(), on_host_wait
        return self.open

    def host_waits(self, waits: Waits) -> None:
        """Record that the host waits."""
        if self._on_host_wait is not None:
            self._on_host_wait(waits)


BOOK = _OpenBook()


def current_stream(*_: Any) -> CapturedStream:
    """Stands for ``torch.cuda.current_stream``."""
    return CapturedStream(number=BOOK.open.current)


def default_stream(*_: Any) -> CapturedStream:
    """Stands for ``torch.cuda.default_stream``."""
    return CapturedStream(number=0)


def set_stream(stream: CapturedStream) -> None:
    """Stands for ``torch.cuda.set_stream``."""
    BOOK.open.current = stream.number


def synchronize(*_: Any) -> None:
    """Stands for ``torch.cuda.synchronize``: the host waits for all streams."""
    book = BOOK.open
    found = Waits()
    for number in range(len(book.streams)):
        found.add(book.reached(number))
    BOOK.host_waits(found)

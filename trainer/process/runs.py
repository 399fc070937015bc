"""The run of a trainer: its schedule and settings, as every rank reads them on its command line. Needs no PyTorch."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

PREPARED_BATCHES = 8
"""Batches made before a measurement at least, and taken in turn: making them is not what is measured."""


SESSION = 2
"""Iterations in a row whose operators are timed. Then the profiler frees what it holds: small pieces among free memory
leave no place for the next iteration's tensors, which would be made of new pages, at 4 ms for 2 MB
(`docs/decisions/079`)."""
SESSION_STARTS = 2
"""Iterations before the first session, which the profiler's own start slows down."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run.

    Attributes:
        scenario: the resolved scenario, with its plan.
        out: folder for what each rank records; None: nothing is recorded.
        iterations: iterations that are timed.
        warm_up: iterations before them.
        timed: iterations after them whose operators are timed, in sessions of `SESSION` with one before each that is
            not; rounded up to whole sessions.
        profiled: iterations after these that are traced in full; the first one more goes to the profiler's start.
        repeated_weights: few first weights of tables are drawn and repeated: drawing all takes longer than a short run.
        prepared: batches made beforehand at least, more of small ones; 0: each is made when it is needed.
        data: a file in Criteo's format instead of synthetic clicks.
        checkpoints: folder of checkpoints; training resumes from the newest one in it.
        checkpoint_every: iterations between checkpoints.
        yardstick_every: measured iterations between two looks at the yardstick (`trainer.process.yardstick`), before
            and after which ranks wait for each other; 0: no looks.
        device: ``cpu`` or ``cuda``.
        rendezvous: file through which ranks of one host find each other; None: torchrun's environment variables.
        supervised: whether a launcher waits on standard input: the rank ends when that closes.
        cores: cores to stay on.
    """

    scenario: Path
    out: Path | None = None
    iterations: int = 50
    warm_up: int = 0
    timed: int = 0
    profiled: int = 0
    repeated_weights: bool = False
    prepared: int = 0
    data: Path | None = None
    checkpoints: Path | None = None
    checkpoint_every: int = 0
    yardstick_every: int = 0
    device: str = "cpu"
    rendezvous: Path | None = None
    supervised: bool = False
    cores: tuple[int, ...] = ()

    @property
    def total(self) -> int:
        """Iterations of all kinds."""
        return self._profiled_from + (self.profiled + 1 if self.profiled else 0)

    def stage(self, iteration: int) -> str:
        """``warm_up``, ``measured``, ``timed`` or ``profiled``."""
        if iteration < self.warm_up:
            return "warm_up"
        if iteration < self._timed_from:
            return "measured"
        return "timed" if iteration < self._profiled_from else "profiled"

    def looks_before(self, iteration: int) -> bool:
        """Whether ranks look at the yardstick before an iteration; they also do after the last measured one."""
        looks = self.yardstick_every > 0 and self.stage(iteration) == "measured"
        return looks and (iteration - self.warm_up) % self.yardstick_every == 0

    @property
    def counted(self) -> list[int]:
        """Numbers of the measured iterations."""
        return list(range(self.warm_up, self._timed_from))

    @property
    def _timed_from(self) -> int:
        """The first iteration after the measured ones."""
        return self.warm_up + self.iterations

    @property
    def _profiled_from(self) -> int:
        """The first iteration that is traced in full."""
        sessions = -(-self.timed // SESSION)
        return self._timed_from + (SESSION_STARTS + sessions * (1 + SESSION) if sessions else 0)

    def arguments(self) -> list[str]:
        """The command line that `parse` reads."""
        words = [str(self.scenario)]
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if value == field.default:
                continue
            words.append(_option(field.name))
            if value is not True:
                words.append(_word(value))
        return words


def parse(arguments: Sequence[str] | None = None) -> Run:
    """Read a command line; wrong ones end the program with argparse's message and exit code 2."""
    parser = argparse.ArgumentParser("python -m trainer", description="One rank of the reference trainer.")
    parser.add_argument("scenario", type=Path, help="a resolved scenario with its plan, as dlrmsim measure writes it")
    parser.add_argument("--out", type=Path, help="folder for times, losses and traces of each rank")
    parser.add_argument("--iterations", type=int, default=50, help="iterations that are timed")
    parser.add_argument("--warm-up", type=int, default=0, help="iterations before them")
    parser.add_argument("--timed", type=int, default=0, help="iterations after them whose operators are timed")
    parser.add_argument("--profiled", type=int, default=0, help="iterations after these that are traced in full")
    parser.add_argument(
        "--repeated-weights", action="store_true", help="few first weights of tables are drawn, and repeated"
    )
    parser.add_argument("--prepared", type=int, default=0, help="batches made beforehand at least and taken in turn")
    parser.add_argument("--data", type=Path, help="a file in Criteo's format")
    parser.add_argument("--checkpoints", type=Path, help="folder of checkpoints, resumed from when it has any")
    parser.add_argument("--checkpoint-every", type=int, default=0, help="iterations between checkpoints")
    parser.add_argument("--yardstick-every", type=int, default=0, help="measured iterations between yardsticks")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--rendezvous", type=Path, help="file through which the ranks of one host find each other")
    parser.add_argument("--supervised", action="store_true", help="end when standard input closes")
    parser.add_argument("--cores", type=_numbers, default=(), help="cores to stay on, e.g. 0,1")
    return Run(**vars(parser.parse_args(arguments)))


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _word(value: object) -> str:
    """A value as `parse` reads it."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)

"""What a run of the trainer is asked to do, as every rank is told on its command line. Needs no PyTorch."""

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
(`docs/decisions/059`)."""
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
        yardstick_every: timed iterations between two looks at how fast the machine is just now, in which ranks wait
            for each other. 0: no looks.
        settling: iterations before and after each look that are not timed.
        device: ``cpu`` or ``cuda``.
        rendezvous: file through which ranks of one host find each other; None: torchrun's environment variables.
        supervised: whether a launcher waits on standard input: the rank ends when that closes.
        cores: cores to stay on.
        core_turns: those that it is on by turns, which change at each look but the first and before each session of
            timed iterations (`trainer.pin.core_turns`); empty: it stays.
        awake: whether its cores, which are no other rank's, are kept awake while it waits (`trainer.awake`).
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
    settling: int = 0
    device: str = "cpu"
    rendezvous: Path | None = None
    supervised: bool = False
    cores: tuple[int, ...] = ()
    core_turns: tuple[tuple[int, ...], ...] = ()
    awake: bool = False

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

    def phase(self, iteration: int) -> str:
        """`stage`, but ``settling`` beside a look.

        Ranks begin the first iteration after it together, so that none is ahead, and one that is done with the last
        takes the core that others on it need for it (`docs/decisions/108`).
        """
        stage = self.stage(iteration)
        return "settling" if stage == "measured" and self._settles(iteration) else stage

    def looks_before(self, iteration: int) -> bool:
        """Whether ranks look at how fast the machine is before an iteration; they do after the last measured one."""
        looks = self.yardstick_every > 0 and self.stage(iteration) == "measured"
        return looks and self._into_block(iteration) == 0

    def core_turn(self, iteration: int) -> int:
        """How often ranks have changed cores before an iteration: at each look but the first, and for each session."""
        if not self.yardstick_every or self.stage(iteration) == "warm_up":
            return 0
        if self.stage(iteration) == "measured":
            return (iteration - self.warm_up) // self._block
        timed = min(iteration, self._profiled_from - 1) - self._timed_from - SESSION_STARTS
        return self._blocks + max(0, timed // (1 + SESSION))

    @property
    def counted(self) -> list[int]:
        """Numbers of the iterations that are timed."""
        return [number for number in range(self.warm_up, self._timed_from) if self.phase(number) == "measured"]

    def _settles(self, iteration: int) -> bool:
        if not self.yardstick_every:
            return False
        into = self._into_block(iteration)
        return (
            into < self.settling
            or into >= self.settling + self.yardstick_every
            or iteration >= self._timed_from - self.settling
        )

    def _into_block(self, iteration: int) -> int:
        return (iteration - self.warm_up) % self._block

    @property
    def _block(self) -> int:
        """Iterations from one look to the next."""
        return self.yardstick_every + 2 * self.settling

    @property
    def _blocks(self) -> int:
        """How often that many are measured."""
        return -(-self.iterations // self.yardstick_every) if self.yardstick_every else 0

    @property
    def _timed_from(self) -> int:
        """The first iteration after the measured ones and those that settle."""
        return self.warm_up + self.iterations + 2 * self.settling * self._blocks

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
    parser.add_argument("--yardstick-every", type=int, default=0, help="iterations between yardsticks")
    parser.add_argument("--settling", type=int, default=0, help="iterations beside a yardstick that are not timed")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--rendezvous", type=Path, help="file through which the ranks of one host find each other")
    parser.add_argument("--supervised", action="store_true", help="end when standard input closes")
    parser.add_argument("--cores", type=_numbers, default=(), help="cores to stay on, e.g. 0,1")
    parser.add_argument("--core-turns", type=_turns, default=(), help="cores to be on by turns, e.g. 0,1/2,3")
    parser.add_argument("--awake", action="store_true", help="keep these cores awake, which must be no other rank's")
    return Run(**vars(parser.parse_args(arguments)))


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _turns(text: str) -> tuple[tuple[int, ...], ...]:
    return tuple(_numbers(part) for part in text.split("/"))


def _word(value: object) -> str:
    """A value as `parse` reads it."""
    if not isinstance(value, tuple):
        return str(value)
    return ("/" if value and isinstance(value[0], tuple) else ",").join(map(_word, value))
